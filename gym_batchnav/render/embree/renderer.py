"""The renderer that needs no GPU: Embree's trees, traced and shaded by Numba kernels."""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads
from typing_extensions import override

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import SENSOR_FORMATS, empty_pictures, needs_ray_table
from gym_batchnav.render.bodies import BodyViews, body_spheres
from gym_batchnav.render.embree.bodies import Bodies
from gym_batchnav.render.embree.device import TreePreparer, shared_embree
from gym_batchnav.render.embree.masks import alpha_filter
from gym_batchnav.render.embree.trace import SLOT, Output, Rays, Shading, Tracer, Views, draw
from gym_batchnav.render.optics import brightness, camera_optics, light_directions, ray_table
from gym_batchnav.render.target import Drawing, RayTracer
from gym_batchnav.render.textures import SRGB_ENCODE, level_starts, texture_size
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.process import PARALLEL_KERNELS, claim_process

_SERIAL_PIXELS = 4 * 64 * 64  # up to this number of pixels one thread draws


class EmbreeRenderer(RayTracer):
    """A renderer of one library's scenes by ray tracing."""

    name = "embree"

    def __init__(
        self, library: SceneLibrary, semantic_ids: SemanticIds | None = None, bodies: SceneLibrary | None = None
    ) -> None:
        claim_process("the Embree renderer")
        super().__init__(library, semantic_ids, bodies)
        self.embree = shared_embree()
        self.device = processor_name()

    @override
    def drawing(self, camera: Camera, sensors: tuple[str, ...], num_views: int, device: str, buffers: int) -> Drawing:
        return _EmbreeDrawing(self, camera, sensors, num_views, buffers)

    @override
    def geometry_preparer(self, semantic_ids: SemanticIds, cull: bool) -> TreePreparer:
        return TreePreparer(self.embree, cull, semantic_ids)

    @override
    def fill_table(self, library: SceneLibrary, cull: bool, size: int, rows: list[tuple[Any, Any]]) -> SlotTable:
        table = np.zeros(len(rows), SLOT)
        for row, (tree, surface) in zip(table, rows, strict=True):
            if tree is not None:
                row["tree"] = tree.handle
                row["objects"] = tree.objects.ctypes.data
                row["num_triangles"] = len(tree.objects)
            if tree is not None and surface is not None:
                row["triangles"] = surface.triangles.ctypes.data
                row["materials"] = surface.materials.ctypes.data
                row["texels"] = surface.pool.flat.ctypes.data
                row["num_materials"] = len(surface.materials)
                row["num_textures"] = len(surface.pool)
                row["masked"] = tree.masked
        bounds = np.zeros((len(rows) if library is self.bodies else 0, 2, 3), np.float32)
        for slot in np.flatnonzero(table["tree"][: len(bounds)]).tolist():
            bounds[slot] = library.scene(slot).bounds
        spheres = body_spheres(bounds)
        return SlotTable(table, bool(table["masked"].any()), spheres, rows)


@dataclass(frozen=True, eq=False)
class SlotTable:
    """The addresses of a library's trees and surfaces, for kernels."""

    table: np.ndarray  # [K] SLOT, all zero for an empty slot
    masked: bool  # whether rays may pass through some triangles of any slot
    spheres: np.ndarray  # [K, 4] float32, bounding spheres of bodies; [0, 4] for scenes
    keeps_alive: list[Any]  # what the addresses point to


class _EmbreeDrawing(Drawing):
    """The Embree renderer's part of a target."""

    def __init__(
        self, renderer: EmbreeRenderer, camera: Camera, sensors: tuple[str, ...], num_views: int, buffers: int
    ) -> None:
        self._renderer = renderer
        size = texture_size(camera)
        self._needs = camera.cull_backfaces, size, "rgb" not in sensors
        for library in filter(None, (renderer.library, renderer.bodies)):
            renderer.slot_table(library, *self._needs)  # so that scenes are prepared and refused now
        self._sets = [empty_pictures(camera, sensors, num_views) for _ in range(buffers)]
        self._next_set = 0
        self._optics = camera_optics(camera, sensors)
        self._table = ray_table(camera, self._optics) if needs_ray_table(camera, sensors) else None
        self._shading = Shading(np.array(brightness(camera), np.float32), size, level_starts(size), SRGB_ENCODE)

    @override
    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews) -> dict[str, np.ndarray]:
        pictures = {sensor: picture[: len(slots)] for sensor, picture in self._sets[self._next_set].items()}
        self._draw(slots, views, bodies, pictures)
        self._next_set = (self._next_set + 1) % len(self._sets)
        return pictures

    @override
    def finish(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return batch

    @override
    def close(self) -> None:
        self._sets = []

    def _draw(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews, pictures: dict[str, np.ndarray]) -> None:
        """Draw all views, on one thread if they are small and else on all."""
        threads = get_num_threads()
        optics = self._optics
        # For a few small pictures, waking threads takes longer than drawing, even more so if they are busy.
        few = len(slots) * optics.width * optics.height <= _SERIAL_PIXELS
        parts = 1 if few else 4 * threads
        bands = max(1, min(-(-optics.height // 4), parts // len(slots)))
        renderer = self._renderer
        scenes = renderer.slot_table(renderer.library, *self._needs)
        shapes = None if renderer.bodies is None else renderer.slot_table(renderer.bodies, *self._needs)
        # Draw scene by scene, so that the scene's data stay in the processor's caches.
        order = np.argsort(slots, kind="stable")
        with PARALLEL_KERNELS:
            set_num_threads(1 if few else threads)
            try:
                masked = scenes.masked or (shapes is not None and shapes.masked)
                hit_filter = int(alpha_filter().address) if masked else 0
                tracer = Tracer(renderer.embree.intersect, renderer.embree.num_rays, hit_filter)
                moving = None if shapes is None else _moving(bodies, len(slots), shapes)
                shading = self._shading if masked or "rgb" in pictures else None
                drawn = Views(scenes.table, slots, order, views, light_directions(views))
                pixels = partial(_pixels, pictures, len(slots))
                rays = None if self._table is None else Rays(self._table, pixels("normals"), pixels("points"))
                out = Output(pixels("depth")[..., 0], pixels("rgb"), pixels("semantic")[..., 0])
                draw(tracer, drawn, moving, rays, optics, shading, bands, out)
            finally:
                set_num_threads(threads)


def _moving(bodies: BodyViews, num_views: int, shapes: SlotTable) -> Bodies:
    first = np.searchsorted(bodies.view, np.arange(num_views + 1)).astype(np.int64)
    slot = np.array(bodies.slot, np.int64, order="C")
    pose = np.array(bodies.pose, np.float32, order="C")
    object_id = np.array(bodies.object_id, np.int32, order="C")
    return Bodies(shapes.table, shapes.spheres, first, slot, pose, object_id)


def _pixels(pictures: dict[str, np.ndarray], num_views: int, sensor: str) -> np.ndarray:
    """Return a sensor's pictures; those of absent sensors have no pixels."""
    dtype, channels = SENSOR_FORMATS[sensor]
    picture = pictures.get(sensor)
    return np.empty((num_views, 0, 0, channels), dtype) if picture is None else picture


def processor_name() -> str:
    """Return the processor's name as the operating system reports it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
