"""The Embree library: its device, its acceleration trees, and the functions that are called from Python."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import weakref
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import carray, cfunc, types

from gym_batchnav.render.embree.packet import pointer
from gym_batchnav.render.records import is_masked
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.scene.scene import MASK, Scene
from gym_batchnav.system.progress import report_stage

# Embree 4's enumerations (rtcore_common.h, rtcore_buffer.h, rtcore_geometry.h).
_INDEX = 0
_VERTEX = 1
_UINT3 = 0x5003
_FLOAT3 = 0x9003
_TRIANGLE_GEOMETRY = 0
_ROBUST = 1 << 2
# Packet sizes with the device property (rtcore_device.h) that tells whether the device traces them natively.
_NATIVE_RAYS = ((16, 34), (8, 33), (4, 32))
_LOW_QUALITY = 0
MANY_TRIANGLES = 1_000_000  # from here on a tree is built in a third of the time; rays then take 5 to 10% longer
TREE_BYTES = 67  # per triangle in Embree's memory; rtcSetDeviceMemoryMonitorFunction counts 62 to 67
FAST_TREE_BYTES = 74  # for large scenes


@dataclass(frozen=True, eq=False)
class RayTree:
    """A committed RTCScene, released with this record."""

    handle: int
    objects: np.ndarray  # [T] int32, numbers that the sensor "semantic" draws
    masked: bool  # whether rays may pass through some triangles
    keeps_alive: tuple[Any, ...]  # objects that Embree reads in place
    nbytes: int  # main memory in bytes, including Embree's but without the scene's own arrays


class Embree:
    """One device of the Embree library that the package ``embreex`` bundles.

    A tree is built entirely in the calling thread, since Embree's thread pool would ignore the loader's low priority.
    ``config`` has further settings for rtcNewDevice; ``"isa=avx2"`` avoids newer instructions.

    Raises:
        RuntimeError: If the package or library is missing, or Embree cannot run on this processor.
    """

    num_rays: int  # that the processor traces at once: 16 with AVX-512, 8 with AVX, else 4
    # Address of the function for that number. Wider packets work everywhere, but Embree then traces them ray by ray.
    intersect: int

    def __init__(self, config: str = "") -> None:
        self._library = _load_library()
        self._device = self._library.rtcNewDevice(f"threads=1,{config}".encode())
        self._check("creating a device")
        native = (rays for rays, number in _NATIVE_RAYS if self._library.rtcGetDeviceProperty(self._device, number))
        self.num_rays = next(native, 4)
        function = getattr(self._library, f"rtcIntersect{self.num_rays}")
        self.intersect = ctypes.cast(function, ctypes.c_void_p).value or 0
        _release_with(self, self._library.rtcReleaseDevice, self._device)

    def build_tree(self, scene: Scene, cull: bool, semantic_ids: SemanticIds | None = None) -> RayTree:
        """Build the tree of a scene's triangles; with ``cull`` rays pass through single-sided ones from behind.

        Raises:
            ValueError: If a triangle refers to a vertex or a material that the scene does not have.
            RuntimeError: If Embree fails; the message has its reason.
        """
        scene.check()
        vertices = np.full((len(scene.vertices) + 1, 3), np.nan, np.float32)  # Embree reads 16 bytes of the last one
        vertices[:-1] = scene.vertices
        indices = np.ascontiguousarray(scene.triangles, np.int32).view(np.uint32)
        single_sided = np.ascontiguousarray(~scene.materials.double_sided[scene.triangle_material])
        objects = np.ascontiguousarray((semantic_ids or SemanticIds()).of_triangles(scene), np.int32)
        report_stage(f"{scene.name}: tree of rays")
        lib = self._library
        is_large = len(indices) >= MANY_TRIANGLES
        action = f"building the tree of scene {scene.name!r}"
        handle = lib.rtcNewScene(self._device)
        if is_large:
            lib.rtcSetSceneBuildQuality(handle, _LOW_QUALITY)
        # With two geometries Embree does not call the filter for opaque triangles. Both hold all triangles, so that the
        # numbers of triangles agree, but those of the other kind refer to a vertex that does not exist, and Embree
        # ignores them.
        parts = [(indices, False)]
        if is_masked(scene):
            masked = scene.materials.alpha_mode[scene.triangle_material] == MASK
            none = np.uint32(len(scene.vertices))
            parts = [(np.where(own[:, None], indices, none), own is masked) for own in (~masked, masked) if own.any()]
        arrays = (vertices, single_sided, *(part for part, _ in parts))
        nbytes = (FAST_TREE_BYTES if is_large else TREE_BYTES) * len(indices) + sum(array.nbytes for array in arrays)
        nbytes += 0 if objects is scene.triangle_object else objects.nbytes
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
                    self._check(action)
                if is_large:
                    lib.rtcSetGeometryBuildQuality(geometry, _LOW_QUALITY)
                lib.rtcSetGeometryEnableFilterFunctionFromArguments(geometry, passable)
                if cull and single_sided.any():
                    lib.rtcSetGeometryUserData(geometry, single_sided.ctypes.data)
                    lib.rtcSetGeometryIntersectFilterFunction(geometry, _back_filter().address)
                lib.rtcCommitGeometry(geometry)
                lib.rtcAttachGeometry(handle, geometry)
            finally:
                lib.rtcReleaseGeometry(geometry)  # the tree keeps it alive if it was attached
        # Otherwise a ray through an edge shared by two triangles may miss both, and level cameras often aim at edges.
        lib.rtcSetSceneFlags(handle, _ROBUST)
        lib.rtcCommitScene(handle)
        self._check(action)
        return tree

    def _check(self, action: str) -> None:
        """Raise RuntimeError if Embree has reported an error since the last check."""
        code = self._library.rtcGetDeviceError(self._device)
        if code:
            reason = self._library.rtcGetDeviceLastErrorMessage(self._device) or b"no reason given"
            raise RuntimeError(f"Embree failed in {action}: {reason.decode(errors='replace')} (error {code})")


@cache
def _back_filter() -> Any:
    """Return Embree's callback for hits in trees that cull, which rejects single-sided triangles hit from behind."""

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
    """Release an Embree object together with its owner, but not at exit, since the loader may still be using it."""
    process = os.getpid()

    def release() -> None:
        if os.getpid() == process:  # a forked child lacks Embree's threads
            function(handle)

    weakref.finalize(owner, release).atexit = False


def _load_library() -> ctypes.CDLL:
    """Load Embree's C library and declare the types of the functions used here."""
    spec = importlib.util.find_spec("embreex")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("renderer='embree' needs the package embreex: pip install 'embreex>=4.4'")
    package = Path(next(iter(spec.submodule_search_locations)))
    folders = (package.parent / "embreex.libs", package / ".dylibs", package)
    found = [file for folder in folders for file in sorted(folder.glob("*embree4*"))]
    if not found:
        raise RuntimeError(f"no libembree4 in or next to {package}: reinstall it, pip install 'embreex>=4.4'")
    try:
        importlib.import_module("embreex.rtcore")  # makes the package load the library's dependencies
    except ImportError as error:
        raise RuntimeError(f"embreex cannot be imported ({error}): reinstall it, pip install 'embreex>=4.4'") from error
    library = ctypes.CDLL(str(found[0]))
    address = ctypes.c_void_p
    number = ctypes.c_uint
    size = ctypes.c_size_t
    for name, result, arguments in (
        ("rtcNewDevice", address, (ctypes.c_char_p,)),
        ("rtcReleaseDevice", None, (address,)),
        ("rtcGetDeviceProperty", ctypes.c_ssize_t, (address, ctypes.c_int)),
        ("rtcGetDeviceError", ctypes.c_int, (address,)),
        ("rtcGetDeviceLastErrorMessage", ctypes.c_char_p, (address,)),
        ("rtcNewScene", address, (address,)),
        ("rtcSetSceneFlags", None, (address, ctypes.c_int)),
        ("rtcSetSceneBuildQuality", None, (address, ctypes.c_int)),
        ("rtcCommitScene", None, (address,)),
        ("rtcReleaseScene", None, (address,)),
        ("rtcNewGeometry", address, (address, ctypes.c_int)),
        ("rtcSetSharedGeometryBuffer", None, (address, ctypes.c_int, number, ctypes.c_int, address, size, size, size)),
        ("rtcSetGeometryBuildQuality", None, (address, ctypes.c_int)),
        ("rtcSetGeometryEnableFilterFunctionFromArguments", None, (address, ctypes.c_bool)),
        ("rtcSetGeometryUserData", None, (address, address)),
        ("rtcSetGeometryIntersectFilterFunction", None, (address, address)),
        ("rtcCommitGeometry", None, (address,)),
        ("rtcAttachGeometry", number, (address, address)),
        ("rtcReleaseGeometry", None, (address,)),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


@cache
def shared_embree() -> Embree:
    """Return the device that all renderers of this process share; the first call creates it."""
    return Embree()


@dataclass(frozen=True, slots=True)
class TreePreparer:
    """A callable that builds the ray trees of scenes, for the scene library; see ``Embree.build_tree``."""

    embree: Embree
    cull: bool
    semantic_ids: SemanticIds = field(default=SemanticIds())

    def __call__(self, scene: Scene) -> RayTree:
        """Build the tree of a scene."""
        return self.embree.build_tree(scene, self.cull, self.semantic_ids)
