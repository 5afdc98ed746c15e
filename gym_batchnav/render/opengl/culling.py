"""Culling: finds the chunks that are visible in each view, as indirect draw commands with one instance per view.

A compute shader tests the box around a chunk against the planes of a view's frustum.
"""

from __future__ import annotations

from itertools import pairwise

import moderngl
import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.render.opengl import shaders
from gym_batchnav.render.opengl.context import Context
from gym_batchnav.render.opengl.mirror import SceneMirror
from gym_batchnav.render.opengl.prepare import NUM_CLASSES

MAX_INSTANCES = 1 << 20  # pairs of view and chunk per pass
MAX_PASS_VIEWS = 65535  # number of work groups along y that OpenGL guarantees
# One view of one chunk, see CULL in shaders.py. The matrix is repeated here to be read as a vertex attribute, which
# under llvmpipe takes a fifth less time per triangle than a look-up by the view's number.
INSTANCE_BYTES = 64
# One view, or one body in a view; the record of the shaders.
VIEW_RECORD = np.dtype([("rows", np.float32, (3, 4)), ("light", np.float32, 4), ("offsets", np.int32, 4)])


class GrowingBuffer:
    """A buffer that is rewritten for every draw and grows on demand; callers have entered the context."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.buffer = context.moderngl.buffer(reserve=256, dynamic=True)
        self.layout = 0  # increases whenever the buffer is replaced by a larger one

    def reserve(self, nbytes: int) -> moderngl.Buffer:
        """Return the buffer with space for ``nbytes`` and undefined contents."""
        if self.buffer.size < nbytes:
            self.buffer.release()
            room = (nbytes + nbytes // 4) // 256 * 256 + 256
            self.buffer = self._context.moderngl.buffer(reserve=room, dynamic=True)
            self.layout += 1
        else:
            self.buffer.orphan()
        return self.buffer

    def write(self, array: np.ndarray) -> moderngl.Buffer:
        """Write an array to the start of the buffer and return the buffer."""
        buffer = self.reserve(array.nbytes)
        if array.nbytes:
            buffer.write(array)
        return buffer


def passes(scenes: SceneMirror, slots: np.ndarray) -> list[tuple[int, int]]:
    """Split views with the given slots [N] into runs whose instances fit even if every chunk is visible."""
    pairs = np.cumsum(scenes.num_chunks[slots])
    bounds = [0]
    done = 0
    while bounds[-1] < len(slots):
        last = int(np.searchsorted(pairs, done + MAX_INSTANCES, side="right"))
        last = min(max(last, bounds[-1] + 1), bounds[-1] + MAX_PASS_VIEWS)
        bounds.append(last)
        done = int(pairs[last - 1])
    return list(pairwise(bounds))


class Culler:
    """The commands and instances of a pass over consecutive views.

    Every chunk of the slots from the first to the last of a pass is drawn, invisible ones without instances.
    Callers have entered the context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.commands, self.instances, self._chunks, self._lists = (GrowingBuffer(context) for _ in range(4))
        self._revision = -1  # of the chunks on the device
        self._program = context.moderngl.compute_shader(shaders.with_defines(shaders.CULL))

    def cull(
        self, scenes: SceneMirror, slots: np.ndarray, camera: Camera, far: float, first: int, last: int
    ) -> list[tuple[int, int]]:
        """Cull for the views from ``first`` up to but excluding ``last``, which are bound as storage buffer 0.

        Slots [N], ascending, are those of all views; ``far`` is the distance of the far plane, metres.

        Returns:
            The first command and the number of commands of every class of chunks.
        """
        num_slots = len(scenes.num_chunks)
        views_of_slot = np.bincount(slots[first:last], minlength=num_slots)
        room = np.repeat(np.tile(views_of_slot, NUM_CLASSES), np.diff(scenes.group_start))
        commands = scenes.commands.copy()
        commands["base_instance"] = np.cumsum(room) - room
        if self._revision != scenes.revision:
            self._chunks.write(scenes.chunks)
            self._lists.write(scenes.slot_lists)
            self._revision = scenes.revision
        self.commands.write(commands).bind_to_storage_buffer(1)
        self.instances.reserve(INSTANCE_BYTES * int(room.sum())).bind_to_storage_buffer(2)
        self._chunks.buffer.bind_to_storage_buffer(3)
        self._lists.buffer.bind_to_storage_buffer(4)
        self._program["tan_half"] = camera.tan_half_width, camera.tan_half_height
        self._program["near_far"] = camera.near, far
        self._program["first_view"] = first
        self._program["num_slots"] = num_slots
        most_chunks = int(scenes.num_chunks.max(initial=0))
        if most_chunks:
            self._program.run(-(-most_chunks // 64), last - first)
            self._context.moderngl.memory_barrier()
        groups = np.arange(NUM_CLASSES)[:, None] * num_slots + [slots[first], slots[last - 1] + 1]
        return [(int(start), int(end - start)) for start, end in scenes.group_start[groups]]
