"""The renderer that needs no GPU: Embree's trees, traced and shaded by Numba kernels."""

from __future__ import annotations

import platform
from functools import partial
from pathlib import Path

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
from gym_batchnav.render.records import SurfacePreparer
from gym_batchnav.render.target import Drawing, Preparations, Target, check_main_memory, check_target, closed_error
from gym_batchnav.render.textures import SRGB_ENCODE, level_starts, texture_size
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.process import PARALLEL_KERNELS, Claim, claim_process

_SERIAL_PIXELS = 4 * 64 * 64  # up to this number of pixels one thread draws


class EmbreeRenderer:
    """A renderer of one library's scenes by ray tracing; see ``render.api.Renderer``.

    Args:
        library: The scenes.
        semantic_ids: What the sensor ``"semantic"`` draws; the ids of objects by default.
        bodies: The shapes of moving bodies, one per slot; None for none.

    Attributes:
        spheres: [S, 4] float32, the bounding spheres of the bodies.

    Raises:
        RuntimeError: If Embree is not installed or cannot run here.
    """

    name = "embree"

    def __init__(
        self, library: SceneLibrary, semantic_ids: SemanticIds | None = None, bodies: SceneLibrary | None = None
    ) -> None:
        claim_process("the Embree renderer")
        self.library = library
        self.semantic_ids = semantic_ids or SemanticIds()
        self.bodies = bodies
        self.claim = Claim("this Embree renderer")
        self.embree = shared_embree()
        self.device = processor_name()
        self._closed = False
        self._preparations = Preparations()
        self._tables: dict[tuple[SceneLibrary, int, int], SlotTable] = {}
        self._generations = self._current_generations()  # at which the tables were filled
        self.spheres = _spheres(bodies)

    def target(
        self,
        camera: Camera,
        sensors: tuple[str, ...] = ("depth",),
        num_views: int = 1,
        device: str = "cpu",
        buffers: int = 2,
    ) -> Target:
        """Make a target; see ``Renderer.target``."""
        self.check_open()
        check_target(sensors, num_views, buffers)
        check_main_memory(device, "Embree")
        return Target(self, _EmbreeDrawing(self, camera, sensors, num_views, buffers), num_views, buffers)

    def slot_table(self, library: SceneLibrary, cull: bool, size: int, masked_only: bool) -> SlotTable:
        """Return the table of slots that kernels read, shared by targets with the same requirements.

        Args:
            library: The scenes, or the bodies.
            cull: Whether rays pass through single-sided triangles from behind.
            size: Texels per side of the textures.
            masked_only: Whether only scenes with masked materials need surfaces.
        """
        full = SurfacePreparer(size, masked_only=False)
        surfaces = full if self._preparations.has(library, full) else SurfacePreparer(size, masked_only)
        tree, surface = self._preparations.keys(library, self._tree_preparer(library, cull), surfaces)
        key = (library, tree, surface)
        if key not in self._tables:
            self._tables[key] = SlotTable(library, tree, surface)
        return self._tables[key]

    def sync(self) -> None:
        """Update the tables of scenes and of bodies, and release what has left the libraries."""
        generations = self._current_generations()
        if self._generations != generations:
            for table in self._tables.values():
                table.sync()
            self.spheres = _spheres(self.bodies)
            self._generations = generations

    def _current_generations(self) -> tuple[int, ...]:
        return tuple(one.generation for one in (self.library, self.bodies) if one is not None)

    def _tree_preparer(self, library: SceneLibrary, cull: bool) -> TreePreparer:
        """Return the preparer of ray trees; a body's triangles need no ids, since the whole body has one."""
        return TreePreparer(self.embree, cull, self.semantic_ids if library is self.library else SemanticIds())

    def check_open(self) -> None:
        """Raise RuntimeError once the renderer is closed."""
        if self._closed:
            raise closed_error(self)

    def close(self) -> None:
        """Release every scene; targets of this renderer can no longer draw. Idempotent."""
        self._closed = True
        self._preparations.release()
        for table in self._tables.values():
            table.clear()  # targets may keep the tables
        self._tables.clear()


class SlotTable:
    """The addresses of a library's trees and surfaces, for kernels.

    Args:
        library: The scenes.
        tree_key: The library's key of the ray trees.
        surface_key: The library's key of the surfaces.

    Attributes:
        table: [K] SLOT, all zero for an empty slot.
        masked: Whether rays may pass through some triangles of any slot.
    """

    def __init__(self, library: SceneLibrary, tree_key: int, surface_key: int) -> None:
        self._library = library
        self._keys = (tree_key, surface_key)
        self.sync()

    def sync(self) -> None:
        """Update the table: add new scenes and release those that have left the library."""
        slots = range(self._library.num_slots)
        # They must stay alive as long as their addresses are in the table.
        self._records = [tuple(self._library.prepared(slot, key) for key in self._keys) for slot in slots]
        self.table = np.zeros(len(slots), SLOT)
        for row, (tree, surface) in zip(self.table, self._records, strict=True):
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
        self.masked = bool(self.table["masked"].any())

    def clear(self) -> None:
        """Release all scenes."""
        self._records = []
        self.table = np.zeros_like(self.table)


class _EmbreeDrawing(Drawing):
    """The Embree renderer's part of a target."""

    def __init__(
        self, renderer: EmbreeRenderer, camera: Camera, sensors: tuple[str, ...], num_views: int, buffers: int
    ) -> None:
        self._renderer = renderer
        size = texture_size(camera)
        table = partial(renderer.slot_table, cull=camera.cull_backfaces, size=size, masked_only="rgb" not in sensors)
        self._slots = table(renderer.library)
        self._bodies = None if renderer.bodies is None else table(renderer.bodies)
        self._sets = [empty_pictures(camera, sensors, num_views) for _ in range(buffers)]
        self._next_set = 0
        self._optics = camera_optics(camera, sensors)
        self._table = ray_table(camera, self._optics) if needs_ray_table(camera, sensors) else None
        self._shading = Shading(np.array(brightness(camera), np.float32), size, level_starts(size), SRGB_ENCODE)

    @override
    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews) -> dict[str, np.ndarray]:
        self._renderer.sync()
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
        embree = self._renderer.embree
        # Draw scene by scene, so that the scene's data stay in the processor's caches.
        order = np.argsort(slots, kind="stable")
        with PARALLEL_KERNELS:
            set_num_threads(1 if few else threads)
            try:
                masked = self._slots.masked or (self._bodies is not None and self._bodies.masked)
                tracer = Tracer(embree.intersect, embree.num_rays, int(alpha_filter().address) if masked else 0)
                moving = None if self._bodies is None else self._moving(bodies, len(slots), self._bodies.table)
                shading = self._shading if masked or "rgb" in pictures else None
                drawn = Views(self._slots.table, slots, order, views, light_directions(views))
                pixels = partial(_pixels, pictures, len(slots))
                rays = None if self._table is None else Rays(self._table, pixels("normals"), pixels("points"))
                out = Output(pixels("depth")[..., 0], pixels("rgb"), pixels("semantic")[..., 0])
                draw(tracer, drawn, moving, rays, optics, shading, bands, out)
            finally:
                set_num_threads(threads)

    def _moving(self, bodies: BodyViews, num_views: int, table: np.ndarray) -> Bodies:
        """Return the bodies as kernels take them."""
        first = np.searchsorted(bodies.view, np.arange(num_views + 1)).astype(np.int64)
        slot = np.array(bodies.slot, np.int64, order="C")
        pose = np.array(bodies.pose, np.float32, order="C")
        object_id = np.array(bodies.object_id, np.int32, order="C")
        return Bodies(table, self._renderer.spheres, first, slot, pose, object_id)


def _pixels(pictures: dict[str, np.ndarray], num_views: int, sensor: str) -> np.ndarray:
    """Return a sensor's pictures; those of absent sensors have no pixels."""
    dtype, channels = SENSOR_FORMATS[sensor]
    picture = pictures.get(sensor)
    return np.empty((num_views, 0, 0, channels), dtype) if picture is None else picture


def _spheres(bodies: SceneLibrary | None) -> np.ndarray:
    """Return the bounding spheres [S, 4] float32 of a library of bodies."""
    if bodies is None:
        return np.zeros((0, 4), np.float32)
    return body_spheres(np.stack([bodies.scene(slot).bounds for slot in range(bodies.num_slots)]))


def processor_name() -> str:
    """Return the processor's name as the operating system reports it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
