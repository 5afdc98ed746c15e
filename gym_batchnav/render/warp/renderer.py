"""The renderer that traces rays in CUDA by NVIDIA Warp, without any graphics driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import warp as wp
from typing_extensions import override

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import SENSOR_FORMATS
from gym_batchnav.render.bodies import BodyViews, body_spheres
from gym_batchnav.render.optics import brightness, camera_optics, light_directions, ray_table
from gym_batchnav.render.records import Surface, is_masked
from gym_batchnav.render.target import Drawing, RayTracer
from gym_batchnav.render.textures import SRGB_DECODE, SRGB_ENCODE, texture_size
from gym_batchnav.render.warp import kernels
from gym_batchnav.render.warp.device import stream, warp_device
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.scene.scene import MASK, Scene
from gym_batchnav.system.process import claim_process
from gym_batchnav.system.progress import late_progress

# Of the trees and blocks tried on an NVIDIA H200, these draw the most frames; see benchmarks/RESULTS.md.
_GPU_TREE = "cubql"
_BLOCK = 64  # threads


@dataclass(frozen=True, eq=False)
class Geometry:
    """The triangles of a scene as Warp takes them."""

    points: np.ndarray  # [V, 3] float32, metres
    triangles: np.ndarray  # [3 T] int32; those that rays may pass have no area
    passable: np.ndarray  # [P] int32, the numbers of triangles that rays may pass
    corners: np.ndarray  # [P, 3, 3] float32, their corners
    objects: np.ndarray  # [T] int32, numbers that the sensor "semantic" draws
    single_sided: np.ndarray  # [T] uint8
    masked: bool  # whether rays may pass through some triangles
    bounds: np.ndarray  # [2, 3], metres


@dataclass(frozen=True, slots=True)
class GeometryPreparer:
    """A callable that checks the triangles of scenes and copies them, for the scene library."""

    semantic_ids: SemanticIds  # what the sensor "semantic" draws
    cull: bool  # whether rays pass through single-sided triangles from behind

    def __call__(self, scene: Scene) -> Geometry:
        """Return the triangles of a scene, or one without an area if it has none."""
        scene.check()
        points = np.ascontiguousarray(scene.vertices, np.float32)
        triangles = np.array(scene.triangles, np.int32)
        single_sided = ~scene.materials.double_sided[scene.triangle_material]
        passes = scene.materials.alpha_mode[scene.triangle_material] == MASK
        passes |= single_sided & self.cull
        corners = points[triangles[passes]]
        triangles[passes, 1:] = triangles[passes, :1]
        if not len(triangles):
            points = np.zeros((3, 3), np.float32)
            triangles = np.arange(3, dtype=np.int32)[None]
        objects = np.ascontiguousarray(self.semantic_ids.of_triangles(scene), np.int32)
        return Geometry(
            points,
            triangles.reshape(-1),
            np.flatnonzero(passes).astype(np.int32),
            corners,
            objects,
            single_sided.astype(np.uint8),
            is_masked(scene),
            np.stack([points.min(axis=0), points.max(axis=0)]),
        )


@dataclass(frozen=True, eq=False)
class _Shape:
    """A scene or body on the device: its trees, and fields of ``kernels.Slot``."""

    geometry: Geometry
    mesh: wp.Mesh
    passable: wp.Bvh | None
    fields: dict[str, Any]
    surfaces: dict[int, dict[str, Any]] = field(default_factory=dict)  # by the texels per side of the textures


class WarpRenderer(RayTracer):
    """A renderer of one library's scenes by ray tracing on an NVIDIA device.

    Without an NVIDIA device it draws on one thread of the processor, which is meant for tests.
    """

    name = "warp"

    def __init__(
        self, library: SceneLibrary, semantic_ids: SemanticIds | None = None, bodies: SceneLibrary | None = None
    ) -> None:
        claim_process("the Warp renderer")
        super().__init__(library, semantic_ids, bodies)
        self.warp_device = warp_device()
        self.device = f"{self.warp_device.name} with Warp"
        # They live as long as a table has them.
        self._shapes: WeakValueDictionary[tuple[SceneLibrary, int, bool], _Shape] = WeakValueDictionary()

    @override
    def drawing(self, camera: Camera, sensors: tuple[str, ...], num_views: int, device: str, buffers: int) -> Drawing:
        if device not in ("cpu", "cuda"):
            raise ValueError(f"device={device!r}: choose 'cpu' or 'cuda'")
        if device == "cuda" and not self.warp_device.is_cuda:
            raise RuntimeError("device='cuda': Warp finds no NVIDIA device: use device='cpu'")
        return _WarpDrawing(self, camera, sensors, num_views, device, buffers)

    @override
    def geometry_preparer(self, semantic_ids: SemanticIds, cull: bool) -> GeometryPreparer:
        return GeometryPreparer(semantic_ids, cull)

    @override
    def fill_table(self, library: SceneLibrary, cull: bool, size: int, rows: list[tuple[Any, Any]]) -> _Table:
        shapes = [self._shape(library, slot, cull, geometry) for slot, (geometry, _) in enumerate(rows)]
        records = [self._row(shape, size, surface) for shape, (_, surface) in zip(shapes, rows, strict=True)]
        slots = wp.array(records, dtype=kernels.Slot, device=self.warp_device)
        bounds = np.stack([np.zeros((2, 3)) if shape is None else shape.geometry.bounds for shape in shapes])
        return _Table(slots, body_spheres(bounds), shapes)

    def _shape(self, library: SceneLibrary, slot: int, cull: bool, geometry: Geometry | None) -> _Shape | None:
        """Return the scene in a slot on the device, or None if the slot is empty."""
        shape = self._shapes.get((library, slot, cull))
        if geometry is None or (shape is not None and shape.geometry is geometry):
            return None if geometry is None else shape
        points, triangles = self.upload(geometry.points, wp.vec3), self.upload(geometry.triangles, wp.int32)
        mesh = wp.Mesh(points, triangles, bvh_constructor=_GPU_TREE if self.warp_device.is_cuda else "sah")
        fields = {"mesh": mesh.id, "objects": self.upload(geometry.objects, wp.int32), "masked": int(geometry.masked)}
        if cull and geometry.single_sided.any():
            fields["single_sided"] = self.upload(geometry.single_sided, wp.uint8)
        tree = None
        if len(geometry.corners):
            low, high = (self.upload(bound(geometry.corners, axis=1), wp.vec3) for bound in (np.min, np.max))
            tree = wp.Bvh(low, high)
            fields["passable"] = tree.id
            fields["faces"] = self.upload(geometry.passable, wp.int32)
            fields["corners"] = self.upload(geometry.corners, wp.vec3)
        shape = self._shapes[library, slot, cull] = _Shape(geometry, mesh, tree, fields)
        return shape

    def _row(self, shape: _Shape | None, size: int, surface: Surface | None) -> Any:
        row = kernels.Slot()
        if shape is None:
            return row
        if surface is not None and size not in shape.surfaces:
            shape.surfaces[size] = {
                "triangles": self._upload_rows(surface.triangles, kernels.Triangle),
                "materials": self._upload_rows(surface.materials, kernels.Material),
                "texels": self.upload(surface.pool.flat.view(np.uint32), wp.uint32),
                "num_textures": len(surface.pool),
            }
        for name, value in (shape.fields | (shape.surfaces[size] if surface is not None else {})).items():
            setattr(row, name, value)
        return row

    def _upload_rows(self, records: np.ndarray, struct: Any) -> wp.array:
        """Copy records to the device as rows of the struct that kernels read, which has the same words."""
        return wp.array(records.view(struct.numpy_dtype()), dtype=struct, device=self.warp_device)

    def upload(self, array: np.ndarray, kind: Any) -> wp.array:
        """Copy an array to the device."""
        numbers = np.ascontiguousarray(array, wp.dtype_to_numpy(getattr(kind, "_wp_scalar_type_", kind)))
        return wp.array(numbers, dtype=kind, device=self.warp_device)


@dataclass(frozen=True, eq=False)
class _Table:
    """The slots of a library as the kernel reads them."""

    slots: wp.array  # [K] kernels.Slot
    spheres: np.ndarray  # [K, 4] float32, bounding spheres
    keeps_alive: list[_Shape | None]


class _WarpDrawing(Drawing):
    """The Warp renderer's part of a target.

    With ``device="cuda"`` all work is queued on torch's current stream, and neither ``begin`` nor ``finish`` waits for
    it. A reader on another stream must have finished, or the current stream must wait for it, before the ring comes
    round to the tensors that it reads.
    """

    def __init__(
        self,
        renderer: WarpRenderer,
        camera: Camera,
        sensors: tuple[str, ...],
        num_views: int,
        device: str,
        buffers: int,
    ) -> None:
        self._renderer = renderer
        self._camera = camera
        self._sensors = sensors
        self._to_torch = device == "cuda"
        for library in filter(None, (renderer.library, renderer.bodies)):
            self._table(library)  # so that scenes are prepared and refused now
        self._lens = _lens(camera, sensors, renderer.warp_device)
        self._kernel = kernels.draw_kernel("rgb" in sensors, renderer.bodies is not None)
        with late_progress("Compiling kernels of Warp once for this machine", total=1):
            wp.load_module(self._kernel.module, renderer.warp_device)
        shape = (num_views, camera.height, camera.width)
        self._sets = [
            {sensor: _empty(sensor, shape, renderer.warp_device) for sensor in sensors} for _ in range(buffers)
        ]
        # Page-locked memory, into which the device copies while the processor does something else.
        self._copies: list[dict[str, wp.array]] = []
        if renderer.warp_device.is_cuda and not self._to_torch:
            self._copies = [
                {sensor: _empty(sensor, shape, "cpu", pinned=True) for sensor in sensors} for _ in range(buffers)
            ]
        self._next_set = 0

    @override
    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews) -> tuple[int, int, Any]:
        with stream(self._renderer.warp_device, self._to_torch):
            self._draw(slots, views, bodies)
            event = None
            if self._copies:
                for sensor, picture in self._sets[self._next_set].items():
                    wp.copy(self._copies[self._next_set][sensor], picture, count=len(slots) * picture[0].size)
                event = wp.get_stream(self._renderer.warp_device).record_event()
        batch = (self._next_set, len(slots), event)
        self._next_set = (self._next_set + 1) % len(self._sets)
        return batch

    @override
    def finish(self, batch: tuple[int, int, Any]) -> dict[str, Any]:
        turn, count, event = batch
        if self._to_torch:
            return {sensor: _with_channels(wp.to_torch(one)[:count]) for sensor, one in self._sets[turn].items()}
        if event is not None:
            wp.synchronize_event(event)
        pictures = self._copies[turn] if self._copies else self._sets[turn]
        return {sensor: _with_channels(picture.numpy()[:count]) for sensor, picture in pictures.items()}

    @override
    def close(self) -> None:
        self._sets = []
        self._copies = []

    def _table(self, library: SceneLibrary) -> _Table:
        """Return the slots of a library as this target's kernel reads them."""
        camera = self._camera
        return self._renderer.slot_table(
            library, camera.cull_backfaces, texture_size(camera), "rgb" not in self._sensors
        )

    def _draw(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews) -> None:
        renderer = self._renderer
        camera = self._camera
        scenes = self._table(renderer.library)
        shapes = scenes
        moving = kernels.Bodies()
        if renderer.bodies is not None:
            shapes = self._table(renderer.bodies)
            moving = self._moving(bodies, len(slots), shapes.spheres)
        pictures = kernels.Pictures()
        for sensor, picture in self._sets[self._next_set].items():
            setattr(pictures, sensor, picture)
        rows, columns = kernels.TILE
        wp.launch(
            self._kernel,
            (len(slots), -(-camera.height // rows), -(-camera.width // columns), rows * columns),
            [scenes.slots, shapes.slots, self._views(slots, views), moving, self._lens, pictures],
            device=renderer.warp_device,
            block_dim=_BLOCK,
        )

    def _views(self, slots: np.ndarray, matrices: np.ndarray) -> Any:
        upload = self._renderer.upload
        matrices = np.asarray(matrices, np.float32)
        wide = matrices.astype(np.float64)
        views = kernels.Views()
        views.slot = upload(slots, wp.int32)
        views.matrix = upload(matrices, wp.mat44)
        views.eye = upload(-np.einsum("nij,ni->nj", wide[:, :3, :3], wide[:, :3, 3]), wp.vec3)
        views.light = upload(light_directions(matrices), wp.vec3)
        return views

    def _moving(self, bodies: BodyViews, num_views: int, spheres: np.ndarray) -> Any:
        upload = self._renderer.upload
        moving = kernels.Bodies()
        moving.spheres = upload(spheres, wp.vec4)
        moving.first = upload(np.searchsorted(bodies.view, np.arange(num_views + 1)), wp.int32)
        moving.slot = upload(bodies.slot, wp.int32)
        moving.pose = upload(bodies.pose, wp.mat44)
        moving.object_id = upload(bodies.object_id, wp.int32)
        return moving


def _lens(camera: Camera, sensors: tuple[str, ...], device: Any) -> Any:
    optics = camera_optics(camera, sensors)
    table = ray_table(camera, optics)
    size = texture_size(camera)
    lens = kernels.Lens()
    lens.rays = wp.array(table.rays, dtype=kernels.RAY, device=device)
    lens.axes = wp.array(table.axes, dtype=wp.vec3, device=device)
    lens.width, lens.height = camera.width, camera.height
    lens.parallel = table.parallel
    for name in ("near", "miss", "min_depth", "max_depth", "offset", "unit"):
        setattr(lens, name, getattr(optics, name))
    lens.ambient, lens.diffuse = brightness(camera)
    lens.side = size
    lens.last_level = size.bit_length() - 1
    lens.decode = wp.array(SRGB_DECODE, dtype=wp.float32, device=device)
    lens.encode = wp.array(SRGB_ENCODE, dtype=wp.uint8, device=device)
    return lens


def _empty(sensor: str, shape: tuple[int, ...], device: Any, pinned: bool = False) -> wp.array:
    """Return pictures of undefined contents, with a last axis for the bytes of colours alone."""
    dtype, channels = SENSOR_FORMATS[sensor]
    if sensor == "rgb":
        shape = (*shape, channels)
    kind = wp.vec3 if sensor in ("normals", "points") else wp.dtype_from_numpy(dtype)
    return wp.empty(shape, dtype=kind, device=device, pinned=pinned)


def _with_channels(picture: Any) -> Any:
    return picture if picture.ndim == 4 else picture[..., None]
