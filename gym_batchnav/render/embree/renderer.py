"""The renderer that needs no GPU: Embree's trees, traced and shaded by Numba kernels."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.bodies import body_spheres
from gym_batchnav.render.checks import check_main_memory, check_target, closed_error
from gym_batchnav.render.embree.device import TreePreparer, shared_embree
from gym_batchnav.render.embree.target import EmbreeTarget, SlotTable
from gym_batchnav.render.preparations import Preparations
from gym_batchnav.render.records import SurfacePreparer
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.process import Claim, claim_process


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
    nbytes = 0  # on a graphics device; trees and surfaces count as the library's memory

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
    ) -> EmbreeTarget:
        """Make a target for up to ``num_views`` views at a time.

        Args:
            camera: The camera of every view.
            sensors: Any of ``"depth"``, ``"rgb"``, ``"semantic"``, ``"normals"`` and ``"points"``.
            num_views: N.
            device: ``"cpu"``.
            buffers: Number of sets of pictures that take turns as results.

        Raises:
            ValueError: If a sensor or a number is wrong, or the device is not ``"cpu"``.
            RuntimeError: If the renderer is closed.
        """
        self.check_open()
        check_target(sensors, num_views, buffers)
        check_main_memory(device, "Embree")
        return EmbreeTarget(self, camera, sensors, num_views, buffers)

    def tree_key(self, cull: bool) -> int:
        """Return the library's key of the ray trees."""
        return self._preparations.keys(self.library, self._tree_preparer(self.library, cull))[0]

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

    def follow_library(self) -> None:
        """Update the tables of scenes and of bodies, and release what has left the libraries."""
        generations = self._current_generations()
        if self._generations != generations:
            for table in self._tables.values():
                table.mirror()
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
