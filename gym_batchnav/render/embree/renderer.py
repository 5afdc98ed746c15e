"""The renderer that needs no GPU: Embree's trees, traced and shaded inside Numba kernels."""

from __future__ import annotations

import platform
from pathlib import Path

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.checks import check_target
from gym_batchnav.render.embree.device import TreePreparer, shared_embree
from gym_batchnav.render.embree.surface import SurfacePreparer
from gym_batchnav.render.embree.target import EmbreeTarget, SlotTable
from gym_batchnav.system.process import Claim, claim_process


class EmbreeRenderer:
    """Scenes of one library, ready for rays.

    Args:
        library: The scenes; the trees of all resident ones are built now.

    Raises:
        RuntimeError: Embree is not installed or cannot run here.
    """

    name = "embree"
    nbytes = 0  # on a graphics device; the library counts trees and surfaces

    def __init__(self, library: SceneLibrary) -> None:
        claim_process("the Embree renderer")
        self.library = library
        self.claim = Claim("this Embree renderer")
        self.embree = shared_embree()
        self.device = processor_name()
        self._closed = False
        self._keys: dict[TreePreparer | SurfacePreparer, int] = {}
        self._tables: dict[tuple[int, int], SlotTable] = {}
        self._generation = library.generation  # of the library, when the tables were filled
        self.tree_key(cull=False)

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
            sensors: Any of ``"depth"``, ``"rgb"`` and ``"semantic"``.
            num_views: N.
            device: ``"cpu"``.
            buffers: Sets of pictures that take turns as results.

        Raises:
            ValueError: A sensor or a number is wrong, or the device is not the processor.
            RuntimeError: The renderer is closed.
        """
        self.check_open()
        check_target(sensors, num_views, buffers)
        if device != "cpu":
            raise ValueError(f"device={device!r}: Embree draws into main memory; give 'cpu', or renderer='opengl'")
        return EmbreeTarget(self, camera, sensors, num_views, buffers)

    def tree_key(self, cull: bool) -> int:
        """The library's key of the ray trees."""
        return self._prepare(TreePreparer(self.embree, cull))

    def slot_table(self, cull: bool, size: int, masked_only: bool) -> SlotTable:
        """The slots of the library as kernels read them, shared by the targets that need the same.

        Args:
            cull: Rays pass single-sided triangles from behind.
            size: Texels along a side of the textures.
            masked_only: Only scenes with masked materials need surfaces.
        """
        full = SurfacePreparer(size, masked_only=False)
        surfaces = full if full in self._keys else SurfacePreparer(size, masked_only)
        keys = self.tree_key(cull), self._prepare(surfaces)
        if keys not in self._tables:
            self._tables[keys] = SlotTable(self.library, *keys)
        return self._tables[keys]

    def follow_library(self) -> None:
        """Update all slot tables, so that scenes that have left the library are released."""
        if self._generation != self.library.generation:
            for table in self._tables.values():
                table.mirror()
            self._generation = self.library.generation

    def _prepare(self, preparer: TreePreparer | SurfacePreparer) -> int:
        """Have the library prepare something once for all targets; returns its key."""
        if preparer not in self._keys:
            self._keys[preparer] = self.library.add_preparer(preparer)
        return self._keys[preparer]

    def check_open(self) -> None:
        """Raise RuntimeError once the renderer is closed."""
        if self._closed:
            raise RuntimeError("this EmbreeRenderer is closed: make another with make_renderer")

    def close(self) -> None:
        """Release every scene; targets of this renderer cannot draw any more; idempotent."""
        self._closed = True
        for key in self._keys.values():
            self.library.remove_preparer(key)
        for table in self._tables.values():
            table.clear()  # targets still hold the tables
        self._keys.clear()
        self._tables.clear()


def processor_name() -> str:
    """The processor's name as the operating system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
