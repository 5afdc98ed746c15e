"""What a caller draws into with rays: output buffers, and the addresses that the kernels take."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import get_num_threads, set_num_threads

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import AMBIENT, DIFFUSE, check_views, empty_pictures, light_directions, most_under_way
from gym_batchnav.render.embree.trace import (
    MASKED,
    MATERIALS,
    NUM_MATERIALS,
    NUM_TEXTURES,
    NUM_TRIANGLES,
    OBJECTS,
    SLOT_FIELDS,
    TEXELS,
    TREE,
    TRIANGLES,
    draw,
)
from gym_batchnav.render.textures import SRGB_ENCODE, texture_size
from gym_batchnav.system.process import claim_process

if TYPE_CHECKING:
    from gym_batchnav.render.embree.renderer import EmbreeRenderer

_SERIAL_PIXELS = 4 * 64 * 64  # up to here one thread draws


@dataclass(frozen=True, eq=False)
class RayTree:
    """A committed RTCScene, released with this record."""

    handle: int
    objects: np.ndarray  # [T] int32, semantic ids
    masked: bool  # rays may pass through some triangles
    keeps_alive: tuple[Any, ...]  # what Embree reads in place
    nbytes: int  # of main memory beside the scene's own arrays, Embree's included


class EmbreeTarget:
    """What one caller draws into; made by ``EmbreeRenderer.target``."""

    def __init__(
        self, renderer: EmbreeRenderer, camera: Camera, sensors: tuple[str, ...], num_views: int, buffers: int
    ) -> None:
        self.num_views = num_views
        self._renderer, self._camera = renderer, camera
        self._shaded = "rgb" in sensors
        self._size = texture_size(camera)
        self._slots = renderer.slot_table(camera.cull_backfaces, self._size, masked_only=not self._shaded)
        self._sets = [empty_pictures(camera, sensors, num_views) for _ in range(buffers)]
        self._next_set = 0
        self._under_way: deque[dict[str, np.ndarray]] = deque()
        self._closed = False
        self._lens = _lens(camera, sensors)
        self._brightness = np.array((AMBIENT, DIFFUSE) if camera.lit else (1, 0), np.float32)

    def render(self, slots: np.ndarray, views: np.ndarray) -> dict[str, Any]:
        """Draw every view; see ``gym_batchnav.render.api.Target.render``.

        Raises:
            ValueError: The slots or views are wrong.
            RuntimeError: A batch is under way, the target or its renderer is closed, or the process was forked.
        """
        if self._under_way:
            raise RuntimeError("render while a batch is under way: call finish first")
        self.begin(slots, views)
        return self.finish()

    def begin(self, slots: np.ndarray, views: np.ndarray) -> None:
        """The first half of ``render``; here it does all of the work."""
        self._check_open()
        if len(self._under_way) >= most_under_way(len(self._sets)):
            raise RuntimeError(f"begin with {len(self._under_way)} under way: call finish before the next begin")
        claim_process("drawing with Embree")
        library = self._renderer.library
        check_views(slots, views, library.num_slots, self.num_views)
        self._renderer.follow_library()
        self._slots.check_filled(slots)
        pictures = {sensor: picture[: len(slots)] for sensor, picture in self._sets[self._next_set].items()}
        self._next_set = (self._next_set + 1) % len(self._sets)
        self._draw(np.asarray(slots, np.int64), np.ascontiguousarray(views, np.float32), pictures)
        self._under_way.append(pictures)

    def finish(self) -> dict[str, Any]:
        """The second half of ``render``: the pictures of the oldest batch under way."""
        self._check_open()
        if not self._under_way:
            raise RuntimeError("finish without begin: call begin(slots, views) first")
        return self._under_way.popleft()

    def close(self) -> None:
        """Release the target; safe twice."""
        self._closed = True
        self._sets = []
        self._under_way.clear()

    def _check_open(self) -> None:
        """Raise RuntimeError once the target or its renderer is closed."""
        self._renderer.check_open()
        if self._closed:
            raise RuntimeError("this EmbreeTarget is closed: make another with renderer.target")

    def _draw(self, slots: np.ndarray, views: np.ndarray, pictures: dict[str, np.ndarray]) -> None:
        """Run the kernel that the sensors and scenes need, on as many threads as pay."""
        threads, camera = get_num_threads(), self._camera
        # Waking threads costs more than a few small pictures do, and much more where other work keeps them busy.
        few = len(views) * camera.width * camera.height <= _SERIAL_PIXELS
        pieces = 1 if few else 4 * threads
        bands = max(1, min(-(-camera.height // 4), pieces // len(views)))
        set_num_threads(1 if few else threads)
        try:
            self._run_kernel(slots, views, bands, pictures)
        finally:
            set_num_threads(threads)

    def _run_kernel(self, slots: np.ndarray, views: np.ndarray, bands: int, pictures: dict[str, np.ndarray]) -> None:
        """Call the kernel, scene by scene: what the views of one read is then still in the processor's caches."""
        depth = pictures["depth"][..., 0] if "depth" in pictures else np.empty((1, 0, 0), np.float32)
        semantic = pictures["semantic"][..., 0] if "semantic" in pictures else np.empty((1, 0, 0), np.int32)
        embree = self._renderer.embree
        draw(
            embree.intersect,
            embree.num_rays,
            embree.alpha_filter,
            self._slots.table,
            slots,
            np.argsort(slots, kind="stable"),
            views,
            self._lens,
            light_directions(views),
            self._brightness,
            self._size,
            SRGB_ENCODE,
            bands,
            depth,
            pictures.get("rgb", np.empty((1, 0, 0, 3), np.uint8)),
            semantic,
        )


class SlotTable:
    """The addresses of what a library holds in its slots, for the kernels; an empty slot's row is zero.

    Args:
        library: The scenes.
        tree_key: The library's key of the ray trees.
        surface_key: The library's key of the surfaces.
    """

    def __init__(self, library: SceneLibrary, tree_key: int, surface_key: int) -> None:
        self._library, self._keys = library, (tree_key, surface_key)
        self.mirror()

    def mirror(self) -> None:
        """Take over what the library holds now, and let go of what has left it."""
        slots = range(self._library.num_slots)
        # Alive as long as their addresses are in the table.
        self._records = [tuple(self._library.prepared(slot, key) for key in self._keys) for slot in slots]
        self.table = np.zeros((len(slots), SLOT_FIELDS), np.int64)  # [K, SLOT_FIELDS], see trace.py
        for row, (tree, surface) in zip(self.table, self._records, strict=True):
            if tree is not None:
                row[[TREE, OBJECTS, NUM_TRIANGLES]] = tree.handle, tree.objects.ctypes.data, len(tree.objects)
            if surface is not None:
                row[[TRIANGLES, MATERIALS]] = surface.triangles.ctypes.data, surface.materials.ctypes.data
                row[[TEXELS, NUM_MATERIALS]] = surface.pool.flat.ctypes.data, len(surface.materials)
                row[[NUM_TEXTURES, MASKED]] = len(surface.pool), tree.masked

    def clear(self) -> None:
        """Let go of everything."""
        self._records = []
        self.table = np.zeros_like(self.table)

    def check_filled(self, slots: np.ndarray) -> None:
        """Refuse views into empty slots.

        Raises:
            ValueError: A slot that is looked into holds no scene.
        """
        empty = self.table[slots, TREE] == 0
        if empty.any():
            raise ValueError(f"slot {np.asarray(slots)[empty][0]} of the scene library is empty: put a scene into it")


def _lens(camera: Camera, sensors: tuple[str, ...]) -> tuple[np.float32, ...]:
    """The eight numbers that the kernels take of a camera."""
    far_reads = 1.0 if camera.normalize_depth else camera.max_depth
    # Where a miss reads max_depth, so does everything beyond it: rays may end there, which is faster.
    clipped = tuple(sensors) == ("depth",) and camera.depth_miss == "far"
    numbers = (
        camera.near,
        camera.max_depth if clipped else np.inf,
        far_reads if camera.depth_miss == "far" else 0.0,
        camera.max_depth,
        camera.max_depth if camera.normalize_depth else 1.0,
        -camera.tan_half_width,
        camera.tan_half_height,
        2 * camera.tan_half_width / camera.width,
    )
    return tuple(np.float32(number) for number in numbers)
