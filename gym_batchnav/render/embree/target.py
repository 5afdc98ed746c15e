"""Targets of the Embree renderer: output buffers, and the addresses that kernels read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import get_num_threads, set_num_threads

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import SENSOR_FORMATS, InFlight, empty_pictures
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.render.checks import check_rigid, check_slots, needs_ray_table
from gym_batchnav.render.embree.bodies import Bodies
from gym_batchnav.render.embree.rays import RayOutput, draw_rays
from gym_batchnav.render.embree.trace import SLOT, Output, Shading, Tracer, Views, draw
from gym_batchnav.render.optics import brightness, camera_optics, light_directions, ray_table
from gym_batchnav.render.textures import SRGB_ENCODE, level_starts, texture_size
from gym_batchnav.system.process import PARALLEL_KERNELS

if TYPE_CHECKING:
    from gym_batchnav.render.embree.renderer import EmbreeRenderer

_SERIAL_PIXELS = 4 * 64 * 64  # up to this number of pixels one thread draws


class EmbreeTarget:
    """A target of the Embree renderer, made by ``EmbreeRenderer.target``; see ``render.api.Target``."""

    def __init__(
        self, renderer: EmbreeRenderer, camera: Camera, sensors: tuple[str, ...], num_views: int, buffers: int
    ) -> None:
        self.num_views = num_views
        self._renderer = renderer
        size = texture_size(camera)
        table = partial(renderer.slot_table, cull=camera.cull_backfaces, size=size, masked_only="rgb" not in sensors)
        self._slots = table(renderer.library)
        self._bodies = None if renderer.bodies is None else table(renderer.bodies)
        self._sets = [empty_pictures(camera, sensors, num_views) for _ in range(buffers)]
        self._next_set = 0
        self._in_flight: InFlight[dict[str, np.ndarray]] = InFlight(buffers)
        self._closed = False
        self._optics = camera_optics(camera, sensors)
        self._table = ray_table(camera, self._optics) if needs_ray_table(camera, sensors) else None
        self._shading = Shading(np.array(brightness(camera), np.float32), size, level_starts(size), SRGB_ENCODE)

    def render(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews | None = None) -> dict[str, Any]:
        """Draw every view; see ``Target.render``."""
        self._check_usable()
        self._in_flight.check_idle("render")
        self._check(slots, views)
        check_rigid(views)
        self.begin(slots, views, bodies)
        return self.finish()

    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews | None = None) -> None:
        """Draw every view, before returning; see ``Target.begin``."""
        self._check_usable()
        self._in_flight.check_space()
        self._check(slots, views)
        bodies = BodyViews.none() if bodies is None else bodies
        self._renderer.follow_library()
        bodies.check(len(slots), len(self._renderer.spheres))
        # Always copy: the kernel would be compiled again for arrays that are read-only or not contiguous.
        slots = np.array(slots, np.int64, order="C")
        views = np.array(views, np.float32, order="C")
        self._slots.check_filled(slots)
        pictures = {sensor: picture[: len(slots)] for sensor, picture in self._sets[self._next_set].items()}
        self._draw(slots, views, bodies, pictures)
        self._next_set = (self._next_set + 1) % len(self._sets)
        self._in_flight.add(pictures)

    def finish(self) -> dict[str, Any]:
        """Return the pictures of the oldest batch in flight; see ``Target.finish``."""
        self._check_usable()
        return self._in_flight.take()

    def close(self) -> None:
        """Release the target; idempotent."""
        self._closed = True
        self._sets = []
        self._in_flight.clear()

    def _check_usable(self) -> None:
        """Raise RuntimeError if the target or its renderer is closed, or if called in another process or thread."""
        self._renderer.check_open()
        if self._closed:
            raise RuntimeError("this EmbreeTarget is closed: make a new one with renderer.target")
        self._renderer.claim.claim_thread("drawing with Embree")

    def _check(self, slots: np.ndarray, views: np.ndarray) -> None:
        """Raise ValueError unless the slots and the shapes and types of both arrays are valid."""
        check_slots(slots, views, self._renderer.library.num_slots, self.num_views)

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
                tracer = Tracer(embree.intersect, embree.num_rays, embree.alpha_filter if masked else 0)
                moving = None if self._bodies is None else self._moving(bodies, len(slots), self._bodies.table)
                shading = self._shading if masked or "rgb" in pictures else None
                drawn = Views(self._slots.table, slots, order, views, light_directions(views))
                if self._table is None:
                    draw(tracer, drawn, moving, optics, shading, bands, _output(pictures, len(slots)))
                else:
                    out = _ray_output(pictures, len(slots))
                    draw_rays(tracer, drawn, moving, self._table, optics, shading, bands, out)
            finally:
                set_num_threads(threads)

    def _moving(self, bodies: BodyViews, num_views: int, table: np.ndarray) -> Bodies:
        """Return the bodies as kernels take them."""
        first = np.searchsorted(bodies.view, np.arange(num_views + 1)).astype(np.int64)
        slot = np.array(bodies.slot, np.int64, order="C")
        pose = np.array(bodies.pose, np.float32, order="C")
        object_id = np.array(bodies.object_id, np.int32, order="C")
        return Bodies(table, self._renderer.spheres, first, slot, pose, object_id)


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
        self.mirror()

    def mirror(self) -> None:
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

    def check_filled(self, slots: np.ndarray) -> None:
        """Raise ValueError if any of the slots [n] is empty."""
        empty = self.table["tree"][slots] == 0
        if empty.any():
            raise ValueError(f"slot {np.asarray(slots)[empty][0]} of the scene library is empty: load a scene into it")


def _output(pictures: dict[str, np.ndarray], num_views: int) -> Output:
    """Return the arrays that the kernel for pinholes writes."""
    pixels = partial(_pixels, pictures, num_views)
    return Output(pixels("depth")[..., 0], pixels("rgb"), pixels("semantic")[..., 0])


def _ray_output(pictures: dict[str, np.ndarray], num_views: int) -> RayOutput:
    """Return the arrays that the kernel for tables of rays writes."""
    pixels = partial(_pixels, pictures, num_views)
    return RayOutput(*_output(pictures, num_views), normals=pixels("normals"), points=pixels("points"))


def _pixels(pictures: dict[str, np.ndarray], num_views: int, sensor: str) -> np.ndarray:
    """Return a sensor's pictures; those of absent sensors have no pixels."""
    dtype, channels = SENSOR_FORMATS[sensor]
    picture = pictures.get(sensor)
    return np.empty((num_views, 0, 0, channels), dtype) if picture is None else picture
