"""What a caller draws into with rays: output buffers, and the addresses that the kernels take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import get_num_threads, set_num_threads

from gym_batchnav.geometry import Camera
from gym_batchnav.process import claim_process
from gym_batchnav.render.api import AMBIENT, DIFFUSE, check_views, light_directions
from gym_batchnav.render.surface import Surface
from gym_batchnav.render.textures import SRGB_DECODE, SRGB_ENCODE, texture_size
from gym_batchnav.render.trace import (
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
    shade,
    trace,
)
from gym_batchnav.scene.library import SceneLibrary

if TYPE_CHECKING:
    from gym_batchnav.render.embree import EmbreeRenderer

_SERIAL_PIXELS = 4 * 64 * 64  # up to here one thread draws


@dataclass(frozen=True, eq=False)
class RayTree:
    """A committed RTCScene, released with this record."""

    handle: int
    objects: np.ndarray  # [T] int32, semantic ids
    masked: bool  # rays may pass through some triangles
    keeps_alive: tuple[Any, ...]  # what Embree reads in place


class EmbreeTarget:
    """What one caller draws into; made by ``EmbreeRenderer.target``."""

    def __init__(
        self, renderer: EmbreeRenderer, camera: Camera, sensors: tuple[str, ...], num_views: int, buffers: int
    ) -> None:
        self.num_views = num_views
        self._renderer, self._camera = renderer, camera
        self._shaded = "rgb" in sensors
        self._size = texture_size(camera)
        self._tree_key = renderer.tree_key(camera.cull_backfaces)
        self._surface_key = renderer.surface_key(self._size, masked_only=not self._shaded)
        self._slots = _SlotTable()
        shapes = {"depth": (1, np.float32), "rgb": (3, np.uint8), "semantic": (1, np.int32)}
        self._sets = [
            {
                sensor: np.zeros((num_views, camera.height, camera.width, shapes[sensor][0]), shapes[sensor][1])
                for sensor in sensors
            }
            for _ in range(buffers)
        ]
        self._next_set = 0
        self._begun: dict[str, np.ndarray] | None = None
        self._closed = False
        self._lens = _lens(camera, sensors)
        self._brightness = np.array((AMBIENT, DIFFUSE) if camera.lit else (1, 0), np.float32)

    def render(self, slots: np.ndarray, views: np.ndarray) -> dict[str, Any]:
        """Draw every view; see ``gym_batchnav.render.api.Target.render``.

        Raises:
            ValueError: The slots or views are wrong.
            RuntimeError: The target or its renderer is closed, or the process was forked.
        """
        self.begin(slots, views)
        return self.finish()

    def begin(self, slots: np.ndarray, views: np.ndarray) -> None:
        """The first half of ``render``; here it does all of the work."""
        self._check_open()
        claim_process("drawing with Embree")
        library = self._renderer.library
        check_views(slots, views, library.num_slots, self.num_views)
        self._slots.mirror(library, self._tree_key, self._surface_key)
        pictures = {sensor: picture[: len(slots)] for sensor, picture in self._sets[self._next_set].items()}
        self._next_set = (self._next_set + 1) % len(self._sets)
        self._draw(np.asarray(slots, np.int64), np.ascontiguousarray(views, np.float32), pictures)
        self._begun = pictures

    def finish(self) -> dict[str, Any]:
        """The second half of ``render``: the pictures that ``begin`` drew."""
        self._check_open()
        if self._begun is None:
            raise RuntimeError("finish() without begin(): call begin(slots, views) first")
        pictures, self._begun = self._begun, None
        return dict(pictures)

    def close(self) -> None:
        """Release the target; safe twice."""
        self._closed = True
        self._sets, self._begun = [], None
        self._slots = _SlotTable()

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
        """Call ``shade`` where colours or transparent texels are looked at, else ``trace``."""
        depth = pictures["depth"][..., 0] if "depth" in pictures else np.empty((1, 0, 0), np.float32)
        semantic = pictures["semantic"][..., 0] if "semantic" in pictures else np.empty((1, 0, 0), np.int32)
        table, lens = self._slots.table, self._lens
        function, arguments = self._renderer.embree.intersect16, self._renderer.embree.arguments
        if not self._shaded and not table[:, MASKED].any():
            trace(function, arguments, table, slots, views, lens, bands, depth, semantic)
            return
        shade(
            function,
            arguments,
            table,
            slots,
            views,
            lens,
            light_directions(views),
            self._brightness,
            self._size,
            SRGB_DECODE,
            SRGB_ENCODE,
            bands,
            depth,
            pictures.get("rgb", np.empty((1, 0, 0, 3), np.uint8)),
            semantic,
        )


class _SlotTable:
    """The addresses of what a library holds in its slots, for the kernels."""

    def __init__(self) -> None:
        self.table = np.zeros((0, SLOT_FIELDS), np.int64)  # [K, SLOT_FIELDS], see trace.py
        self._records: list[tuple[RayTree, Surface | None]] = []  # alive as long as their addresses are here
        self._generation: int | None = None

    def mirror(self, library: SceneLibrary, tree_key: int, surface_key: int) -> None:
        """Follow the library if its slots have changed."""
        if self._generation == library.generation:
            return
        slots = range(library.num_slots)
        self._records = [(library.prepared(k, tree_key), library.prepared(k, surface_key)) for k in slots]
        self.table = np.zeros((library.num_slots, SLOT_FIELDS), np.int64)
        for row, (tree, surface) in zip(self.table, self._records, strict=True):
            row[[TREE, OBJECTS, NUM_TRIANGLES]] = tree.handle, tree.objects.ctypes.data, len(tree.objects)
            if surface is not None:
                row[[TRIANGLES, MATERIALS]] = surface.triangles.ctypes.data, surface.materials.ctypes.data
                row[[TEXELS, NUM_MATERIALS]] = surface.pool.flat.ctypes.data, len(surface.materials)
                row[[NUM_TEXTURES, MASKED]] = len(surface.pool), tree.masked
        self._generation = library.generation


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
