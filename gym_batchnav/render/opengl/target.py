"""Drawing into targets with OpenGL: a framebuffer of tiles, and the pictures gathered from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import moderngl
import numpy as np
from typing_extensions import override

from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import SENSOR_FORMATS, SENSORS, empty_pictures
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.render.opengl.culling import VIEW_RECORD, GrowingBuffer, passes
from gym_batchnav.render.opengl.pipeline import Kind, Pipeline
from gym_batchnav.render.opengl.textures import TextureMirror
from gym_batchnav.render.optics import brightness, light_directions
from gym_batchnav.render.target import Drawing, most_in_flight

if TYPE_CHECKING:
    from gym_batchnav.render.opengl.renderer import OpenGLRenderer

# Pixels along the longest side of a framebuffer. OpenGL 4 guarantees 16,384. Smaller is more precise, since depth is
# interpolated in single precision: software does so from the corner of the framebuffer and loses digits far from it.
MAX_SIDE = 4096
MAX_SIDE_SOFTWARE = 512
_NO_FAR_PLANE = 1e30  # metres
_BINDINGS = {"depth": 1, "rgb": 2, "semantic": 3}
_PACK_PIXELS = 4 * 128  # pixels per work group of the packing program
_Buffers = dict[str, moderngl.Buffer]  # one per sensor


def grid_shape(camera: Camera, num_views: int, max_side: int) -> tuple[int, int]:
    """Return the columns and rows of tiles of a nearly square framebuffer for at most ``num_views`` views."""
    most_columns = max(max_side // camera.width, 1)
    most_rows = max(max_side // camera.height, 1)
    columns = min(max(math.isqrt(num_views - 1) + 1, -(-num_views // most_rows)), most_columns)
    return columns, min(-(-num_views // columns), most_rows)


def picture_bytes(camera: Camera, sensor: str) -> int:
    """Return the size of one picture in bytes."""
    dtype, channels = SENSOR_FORMATS[sensor]
    return camera.height * camera.width * channels * dtype.itemsize


class DeviceObjects:
    """The device objects of a target."""

    def __init__(
        self, pipeline: Pipeline, camera: Camera, sensors: tuple[str, ...], num_views: int, num_sets: int
    ) -> None:
        context = pipeline.context
        self.grid = grid_shape(camera, num_views, MAX_SIDE_SOFTWARE if context.software else MAX_SIDE)
        size = (self.grid[0] * camera.width, self.grid[1] * camera.height)
        self.attachments = {"depth": context.depth_texture(size)}
        if "rgb" in sensors:
            self.attachments["rgb"] = context.moderngl.texture(size, 4)
        if "semantic" in sensors:
            self.attachments["semantic"] = context.moderngl.texture(size, 1, dtype="i4")
        for texture in self.attachments.values():
            texture.filter = (moderngl.NEAREST, moderngl.NEAREST)
        colors = [texture for name, texture in self.attachments.items() if name != "depth"]
        self.framebuffer = context.moderngl.framebuffer(colors, self.attachments["depth"])
        self.views = GrowingBuffer(context)
        per_page = self.grid[0] * self.grid[1]
        # The first view and the view after the last of every run of views that fills the framebuffer once.
        self.pages = [(first, min(first + per_page, num_views)) for first in range(0, num_views, per_page)]
        groups = -(-min(per_page, num_views) * camera.width * camera.height // 4)  # of four pixels
        sizes = {sensor: picture_bytes(camera, sensor) for sensor in sensors}
        pixels = camera.width * camera.height
        # The pictures of one page, before they are appended to those of the batch.
        self.gathered: _Buffers = {
            sensor: context.moderngl.buffer(reserve=4 * groups * size // pixels) for sensor, size in sizes.items()
        }
        # Pictures of batches: one set is read while the next batch is drawn into another.
        self.pictures: list[_Buffers] = [
            {sensor: context.moderngl.buffer(reserve=num_views * size) for sensor, size in sizes.items()}
            for _ in range(most_in_flight(num_sets))
        ]


class OpenGLDrawing(Drawing):
    """The OpenGL renderer's part of a target."""

    def __init__(
        self, renderer: OpenGLRenderer, camera: Camera, sensors: tuple[str, ...], num_views: int, buffers: int,
        textures: TextureMirror, body_textures: TextureMirror | None,
    ) -> None:  # fmt: skip
        self._renderer = renderer
        self._camera = camera
        self._num_views = num_views
        self._textures = textures
        self._body_textures = body_textures
        self._sensors = tuple(sensor for sensor in SENSORS if sensor in sensors)
        self._sets = [empty_pictures(camera, self._sensors, num_views) for _ in range(buffers)]
        self._objects: DeviceObjects | None = None
        self._num_begun = 0  # batches so far
        depth_only = self._sensors == ("depth",)
        self._far = camera.max_depth if depth_only and camera.depth_miss == "far" else _NO_FAR_PLANE

    @override
    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews) -> tuple[int, int]:
        pipeline = self._renderer.pipeline()
        with pipeline.context:
            pipeline.scenes.sync(pipeline.context, slots)
            if len(bodies):
                self._renderer.pipeline(of_bodies=True).scenes.sync(pipeline.context, np.asarray(bodies.slot, np.int64))
            if self._objects is None:
                made = DeviceObjects(pipeline, self._camera, self._sensors, self._num_views, len(self._sets))
                self._objects = made
            pictures = self._objects.pictures[self._num_begun % len(self._objects.pictures)]
            for first, last in self._objects.pages:
                part = slice(first, last)
                if first < len(slots):
                    self._draw_page(pipeline, self._objects, slots[part], views[part], bodies.of_views(first, last))
                    self._pack(pipeline, self._objects, len(slots[part]))
                    for sensor, buffer in self._objects.gathered.items():
                        size = picture_bytes(self._camera, sensor)
                        copied = size * len(slots[part])
                        pipeline.context.moderngl.copy_buffer(
                            pictures[sensor], buffer, copied, write_offset=first * size
                        )
            pipeline.context.flush()
        batch = (self._num_begun, len(slots))
        self._num_begun += 1
        return batch

    @override
    def finish(self, batch: tuple[int, int]) -> dict[str, np.ndarray]:
        assert self._objects is not None
        number, count = batch
        images = {sensor: picture[:count] for sensor, picture in self._sets[number % len(self._sets)].items()}
        buffers = self._objects.pictures[number % len(self._objects.pictures)]
        context = self._renderer.pipeline().context
        with context:
            context.check("drawing")  # reading from a lost or exhausted device would crash
            try:
                for sensor, image in images.items():
                    buffers[sensor].read_into(image, image.nbytes)
            except moderngl.Error:  # the buffer cannot be mapped
                context.check("reading images")
                raise
        return images

    @override
    def close(self) -> None:
        if self._objects is not None:
            self._objects = None
            self._renderer.pipeline().context.collect()

    def _draw_page(
        self, pipeline: Pipeline, objects: DeviceObjects, slots: np.ndarray, views: np.ndarray, bodies: BodyViews
    ) -> None:
        """Draw one page of views, and the bodies in them, into the tiles of the framebuffer."""
        objects.framebuffer.use()
        objects.framebuffer.clear(depth=0.0)  # the packer reads the other attachments only where depth was written
        records = np.zeros(len(views), VIEW_RECORD)
        records["rows"] = views[:, :3]
        records["light"][:, :3] = light_directions(views)
        records["offsets"][:, 0] = pipeline.scenes.first_material[slots]
        records["offsets"][:, 1] = slots
        records["offsets"][:, 2] = np.arange(len(views))
        self._draw(pipeline, objects, self._textures, records)
        if not len(bodies):
            return
        assert self._body_textures is not None
        pipeline = self._renderer.pipeline(of_bodies=True)
        of_bodies = np.zeros(len(bodies), VIEW_RECORD)
        of_bodies["rows"] = np.matmul(views[bodies.view], bodies.pose)[:, :3]
        of_bodies["light"][:, :3] = np.einsum("eik,ei->ek", bodies.pose[:, :3, :3], records["light"][bodies.view, :3])
        of_bodies["offsets"][:, 0] = pipeline.scenes.first_material[bodies.slot]
        of_bodies["offsets"][:, 1] = bodies.slot
        of_bodies["offsets"][:, 2] = bodies.view
        of_bodies["offsets"][:, 3] = bodies.object_id + 1
        self._draw(pipeline, objects, self._body_textures, of_bodies)

    def _draw(self, pipeline: Pipeline, objects: DeviceObjects, textures: TextureMirror, records: np.ndarray) -> None:
        """Draw scenes or bodies, given [N] VIEW_RECORD."""
        context = pipeline.context.moderngl
        camera = self._camera
        by_slot = np.argsort(records["offsets"][:, 1], kind="stable")  # so that a pass draws the chunks of few slots
        records = records[by_slot]
        objects.views.write(records).bind_to_storage_buffer(0)
        slots = records["offsets"][:, 1]
        for first, last in passes(pipeline.scenes, slots):
            draws = pipeline.culler.cull(pipeline.scenes, slots, camera, self._far, first, last)
            pipeline.scenes.buffer("triangles").bind_to_storage_buffer(1)
            pipeline.scenes.buffer("materials").bind_to_storage_buffer(2)
            textures.bind()
            context.depth_func = ">"
            for kind, (start, count) in enumerate(draws):
                if count:
                    masked, double_sided = divmod(kind, 2)
                    culled = camera.cull_backfaces and not double_sided
                    context.enable_only(moderngl.DEPTH_TEST | (moderngl.CULL_FACE if culled else 0))
                    array = self._vertex_array(pipeline, objects, textures, bool(masked))
                    array.render_indirect(pipeline.culler.commands.buffer, moderngl.TRIANGLES, count, start)

    def _vertex_array(
        self, pipeline: Pipeline, objects: DeviceObjects, textures: TextureMirror, masked: bool
    ) -> moderngl.VertexArray:
        """Set the camera of the program for opaque or masked chunks and return the program's vertex array."""
        kind = Kind("rgb" in self._sensors, "semantic" in self._sensors, masked)
        if (kind.rgb or masked) and len(textures.pages) > 1:
            kind = kind._replace(num_pages=len(textures.pages), page_layers=textures.page_layers)
        program = pipeline.program(kind)
        camera = self._camera
        program["tan_half"] = camera.tan_half_width, camera.tan_half_height
        program["near"] = camera.near
        program["clip_control"] = pipeline.context.clip_control
        program["grid"] = objects.grid
        if "texture_size" in program:
            program["texture_size"] = textures.size
        if "brightness" in program:
            program["brightness"] = brightness(camera)
        return pipeline.vertex_array(kind)

    def _pack(self, pipeline: Pipeline, objects: DeviceObjects, num_views: int) -> None:
        """Gather the first ``num_views`` tiles of the framebuffer into pictures."""
        camera = self._camera
        encoding = camera.depth_encoding
        pixels = num_views * camera.width * camera.height
        packer = pipeline.packer(self._sensors)
        packer["size"] = camera.width, camera.height
        packer["columns"] = objects.grid[0]
        packer["num_pixels"] = pixels
        if "depth" in self._sensors:
            packer["near_scaled"] = camera.near / encoding.unit
            packer["depth_offset"] = encoding.offset / encoding.unit
            packer["depth_range"] = encoding.low, encoding.high
            packer["depth_miss"] = encoding.miss
        for unit_index, sensor in enumerate(SENSORS):
            if sensor in objects.attachments:
                objects.attachments[sensor].use(unit_index)
        for sensor, buffer in objects.gathered.items():
            buffer.bind_to_storage_buffer(_BINDINGS[sensor])
        pipeline.context.moderngl.memory_barrier()  # otherwise the packer does not see a clear without draws
        packer.run(-(-pixels // _PACK_PIXELS))
        pipeline.context.moderngl.memory_barrier()
