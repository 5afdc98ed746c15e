"""The kernel that culls chunks against the frustum of each view on the processor."""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY

_TILE_WORD = 18  # of a VIEW_RECORD: the third of its offsets


@njit(**ENTRY)
def cull(
    bounds: np.ndarray,
    chunk_triangle: np.ndarray,
    group_start: np.ndarray,
    templates: np.ndarray,
    records: np.ndarray,
    planes: np.ndarray,
    view_start: np.ndarray,
    commands: np.ndarray,
    instances: np.ndarray,
    ends: np.ndarray,
) -> None:
    """Write a command for every visible chunk, sorted by class, and an instance for each view that sees it.

    Args:
        bounds: [C, 6] float32, metres: centre and half the sides of the box around each chunk.
        chunk_triangle: [C] uint32, first triangle record of each chunk.
        group_start: [classes * K + 1] int64, first chunk of every group, by class and then by slot.
        templates: [C, 5] uint32, DRAW_COMMAND of each chunk without instances.
        records: [N, 20] uint32, the words of VIEW_RECORD.
        planes: [N, 6, 4] float32, see ``frustum_planes``.
        view_start: [K + 1] int64; the views of slot s to cull for are ``view_start[s]`` to ``view_start[s + 1] - 1``.
        commands: [>= C, 5] uint32, written: DRAW_COMMAND.
        instances: [>= pairs, 16] uint32, written: INSTANCE_RECORD.
        ends: [classes, 2] int64, written: commands and instances up to the end of each class.
    """
    num_slots = len(view_start) - 1
    num_commands = 0
    num_instances = 0
    for group in range(len(ends) * num_slots):
        kind, slot = divmod(group, num_slots)
        if view_start[slot] < view_start[slot + 1]:
            for chunk in range(group_start[group], group_start[group + 1]):
                before = num_instances
                for view in range(view_start[slot], view_start[slot + 1]):
                    seen = True
                    for k in range(planes.shape[1]):
                        distance = planes[view, k, 3]
                        for axis in range(3):
                            normal = planes[view, k, axis]
                            distance += normal * bounds[chunk, axis] + abs(normal) * bounds[chunk, axis + 3]
                        if distance < 0:
                            seen = False
                            break
                    if seen:
                        for word in range(12):
                            instances[num_instances, word] = records[view, word]
                        instances[num_instances, 12] = view
                        instances[num_instances, 13] = chunk_triangle[chunk]
                        instances[num_instances, 14] = records[view, _TILE_WORD]
                        num_instances += 1
                if num_instances > before:
                    commands[num_commands, 0] = templates[chunk, 0]
                    commands[num_commands, 1] = num_instances - before
                    commands[num_commands, 2] = templates[chunk, 2]
                    commands[num_commands, 3] = templates[chunk, 3]
                    commands[num_commands, 4] = before
                    num_commands += 1
        ends[kind, 0] = num_commands
        ends[kind, 1] = num_instances
