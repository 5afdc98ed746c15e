"""The Embree library: its device, the trees that it builds, and the functions of it that are called from Python."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import weakref
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import carray, cfunc, types

from gym_batchnav.render.embree.masks import alpha_filter
from gym_batchnav.render.embree.packet import pointer
from gym_batchnav.render.embree.surface import check_rows, is_masked
from gym_batchnav.scene.scene import MASK, Scene

# Embree 4's enumerations (rtcore_common.h, rtcore_buffer.h, rtcore_geometry.h).
_INDEX, _VERTEX, _UINT3, _FLOAT3, _TRIANGLE_GEOMETRY = 0, 1, 0x5003, 0x9003, 0
_ROBUST = 1 << 2
# Properties of a device (rtcore_device.h): whether it traces packets of so many rays with instructions as wide.
_NATIVE_RAYS = ((16, 34), (8, 33), (4, 32))
_TREE_BYTES = 67  # a triangle, in Embree's memory: rtcSetDeviceMemoryMonitorFunction counts 62 to 67


@dataclass(frozen=True, eq=False)
class RayTree:
    """A committed RTCScene, released with this record."""

    handle: int
    objects: np.ndarray  # [T] int32, semantic ids
    masked: bool  # rays may pass through some triangles
    keeps_alive: tuple[Any, ...]  # what Embree reads in place
    nbytes: int  # of main memory beside the scene's own arrays, Embree's included


class Embree:
    """One device of the Embree library that the package ``embreex`` bundles.

    A tree is built by the thread that asks for it and no other: Embree's pool would ignore the loader's low priority.

    Args:
        config: Further settings for rtcNewDevice; ``"isa=avx2"`` has it do without newer instructions.

    Attributes:
        num_rays: The most rays that the processor traces at once: 16 with AVX-512, 8 with AVX, else 4.
        intersect: Address of the function that traces ``num_rays`` rays. Wider packets work everywhere, but Embree
            then traces them ray by ray.
        alpha_filter: Address of the filter that is asked about hits of masked triangles.

    Raises:
        RuntimeError: There is no such package or library, or Embree cannot run on this processor.
    """

    def __init__(self, config: str = "") -> None:
        self._library = _load_library()
        self._device = self._library.rtcNewDevice(f"threads=1,{config}".encode())
        self._check("making a device")
        native = (rays for rays, number in _NATIVE_RAYS if self._library.rtcGetDeviceProperty(self._device, number))
        self.num_rays = next(native, 4)
        function = getattr(self._library, f"rtcIntersect{self.num_rays}")
        self.intersect = ctypes.cast(function, ctypes.c_void_p).value or 0
        self.alpha_filter: int = alpha_filter().address
        _release_with(self, self._library.rtcReleaseDevice, self._device)

    def build_tree(self, scene: Scene, cull: bool) -> RayTree:
        """The tree of a scene's triangles.

        Args:
            scene: It may have no triangles at all.
            cull: Rays pass single-sided triangles from behind.

        Raises:
            ValueError: A triangle names a vertex or a material that the scene does not have.
            RuntimeError: Embree failed; the message has its reason.
        """
        check_rows(scene, "triangles", scene.triangles, 0, len(scene.vertices))
        check_rows(scene, "triangle_material", scene.triangle_material, 0, len(scene.materials))
        if not len(scene.triangles) == len(scene.triangle_material) == len(scene.triangle_object):
            raise ValueError(f"scene {scene.name!r}: not every triangle has a material and an object")
        vertices = np.full((len(scene.vertices) + 1, 3), np.nan, np.float32)  # Embree reads 16 bytes of the last one
        vertices[:-1] = scene.vertices
        indices = np.ascontiguousarray(scene.triangles, np.uint32)
        single_sided = np.ascontiguousarray(~scene.materials.double_sided[scene.triangle_material])
        objects = np.ascontiguousarray(scene.triangle_object, np.int32)
        lib, what = self._library, f"building the tree of scene {scene.name!r}"
        handle = lib.rtcNewScene(self._device)
        # Two geometries keep the filter from being asked about opaque triangles. Each has all triangles, so that their
        # numbers stay, but those of the other name a vertex that does not exist, and Embree leaves them out.
        masked = scene.materials.alpha_mode[scene.triangle_material] == MASK
        none = np.uint32(len(scene.vertices))
        parts = [(np.where(own[:, None], indices, none), own is masked) for own in (~masked, masked) if own.any()]
        arrays = (vertices, single_sided, *(part for part, _ in parts))
        nbytes = _TREE_BYTES * len(indices) + sum(array.nbytes for array in arrays)
        tree = RayTree(handle, objects, is_masked(scene), (vertices, parts, single_sided, self), nbytes)
        _release_with(tree, lib.rtcReleaseScene, handle)
        for part, passable in parts:
            geometry = lib.rtcNewGeometry(self._device, _TRIANGLE_GEOMETRY)
            try:
                for kind, layout, array, count in (
                    (_VERTEX, _FLOAT3, vertices, len(scene.vertices)),
                    (_INDEX, _UINT3, part, len(part)),
                ):
                    lib.rtcSetSharedGeometryBuffer(geometry, kind, 0, layout, array.ctypes.data, 0, 12, count)
                    self._check(what)
                lib.rtcSetGeometryEnableFilterFunctionFromArguments(geometry, passable)
                if cull and single_sided.any():
                    lib.rtcSetGeometryUserData(geometry, single_sided.ctypes.data)
                    lib.rtcSetGeometryIntersectFilterFunction(geometry, _back_filter().address)
                lib.rtcCommitGeometry(geometry)
                lib.rtcAttachGeometry(handle, geometry)
            finally:
                lib.rtcReleaseGeometry(geometry)  # the tree holds it, if it was attached
        # Else a ray through an edge shared by two triangles may miss both, and level cameras on a grid often aim there.
        lib.rtcSetSceneFlags(handle, _ROBUST)
        lib.rtcCommitScene(handle)
        self._check(what)
        return tree

    def _check(self, what: str) -> None:
        """Raise RuntimeError if Embree has reported an error since the last check."""
        code = self._library.rtcGetDeviceError(self._device)
        if code:
            reason = self._library.rtcGetDeviceLastErrorMessage(self._device) or b"no reason given"
            raise RuntimeError(f"Embree failed in {what}: {reason.decode(errors='replace')} (error {code})")


@cache
def _back_filter() -> Any:
    """Embree's callback on a hit of a tree that culls: reject single-sided triangles seen from behind."""

    @cfunc(types.void(types.CPointer(types.intp)), cache=True)
    def reject_backs(arguments: Any) -> None:
        fields = carray(arguments, (6,))  # RTCFilterFunctionNArguments: valid, user data, context, ray, hit, count
        count = fields[5] & 0xFFFFFFFF
        valid = carray(pointer(fields[0]), (count,), np.int32)
        ray = carray(pointer(fields[3]), (7, count), np.float32)
        normal = carray(pointer(fields[4]), (3, count), np.float32)
        triangle = carray(pointer(fields[4]), (6, count), np.int32)[5]
        for lane in range(count):
            if valid[lane] != 0:
                single_sided = carray(pointer(fields[1]), (triangle[lane] + 1,), np.bool_)
                towards = ray[4, lane] * normal[0, lane] + ray[5, lane] * normal[1, lane]
                towards += ray[6, lane] * normal[2, lane]
                if towards > np.float32(0.0) and single_sided[triangle[lane]]:
                    valid[lane] = 0

    return reject_backs


def _release_with(owner: Any, function: Any, handle: int) -> None:
    """Release an object of Embree with its owner, but not at exit, when the loader may still build a tree with it."""
    weakref.finalize(owner, _release, function, handle, os.getpid()).atexit = False


def _release(function: Any, handle: int, process: int) -> None:
    """Release an object of Embree, but not in a forked child, which lacks Embree's threads."""
    if os.getpid() == process:
        function(handle)


def _load_library() -> ctypes.CDLL:
    """Embree's C library, with the types of the functions used here."""
    spec = importlib.util.find_spec("embreex")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("renderer='embree' needs the package embreex: pip install 'embreex>=4.4'")
    package = Path(next(iter(spec.submodule_search_locations)))
    folders = (package.parent / "embreex.libs", package / ".dylibs", package)
    found = [file for folder in folders for file in sorted(folder.glob("*embree4*"))]
    if not found:
        raise RuntimeError(f"no libembree4 in {package} or beside it: reinstall it, pip install 'embreex>=4.4'")
    importlib.import_module("embreex.rtcore")  # lets the package find what the library depends on
    library = ctypes.CDLL(str(found[0]))
    address, number = ctypes.c_void_p, ctypes.c_uint
    for name, result, arguments in (
        ("rtcNewDevice", address, (ctypes.c_char_p,)),
        ("rtcReleaseDevice", None, (address,)),
        ("rtcGetDeviceProperty", ctypes.c_ssize_t, (address, ctypes.c_int)),
        ("rtcGetDeviceError", ctypes.c_int, (address,)),
        ("rtcGetDeviceLastErrorMessage", ctypes.c_char_p, (address,)),
        ("rtcNewScene", address, (address,)),
        ("rtcSetSceneFlags", None, (address, ctypes.c_int)),
        ("rtcCommitScene", None, (address,)),
        ("rtcReleaseScene", None, (address,)),
        ("rtcNewGeometry", address, (address, ctypes.c_int)),
        (
            "rtcSetSharedGeometryBuffer",
            None,
            (address, ctypes.c_int, number, ctypes.c_int, address, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t),
        ),
        ("rtcSetGeometryEnableFilterFunctionFromArguments", None, (address, ctypes.c_bool)),
        ("rtcSetGeometryUserData", None, (address, address)),
        ("rtcSetGeometryIntersectFilterFunction", None, (address, address)),
        ("rtcCommitGeometry", None, (address,)),
        ("rtcAttachGeometry", number, (address, address)),
        ("rtcReleaseGeometry", None, (address,)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@cache
def shared_embree() -> Embree:
    """The device that all renderers of this process share; it is made at the first call and kept until exit.

    Raises:
        RuntimeError: Embree is not installed or cannot run here.
    """
    return Embree()


@dataclass(frozen=True, slots=True)
class TreePreparer:
    """Makes the ray trees of scenes; a plain callable for the scene library.

    Attributes:
        embree: The device.
        cull: Rays pass single-sided triangles from behind.
    """

    embree: Embree
    cull: bool

    def __call__(self, scene: Scene) -> RayTree:
        """The tree of one scene; raises as ``Embree.build_tree``."""
        return self.embree.build_tree(scene, self.cull)
