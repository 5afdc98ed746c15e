"""The library's scenes on the device: a few big buffers and texture arrays with a range for every slot."""

from __future__ import annotations

from functools import partial

import moderngl
import numpy as np

from gym_batchnav.render.opengl.context import Context
from gym_batchnav.render.opengl.prepare import (
    MATERIAL_RECORD,
    NUM_CLASSES,
    TRIANGLE_RECORD,
    VERTEX_ATTRIBUTES,
    PreparedMesh,
    PreparedTextures,
    prepare_mesh,
    prepare_textures,
)
from gym_batchnav.scene.library import SceneLibrary

# One indirect draw: the first three never change while a scene is resident, culling fills in the other two.
DRAW_COMMAND = np.dtype(
    [
        ("count", np.uint32),
        ("instance_count", np.uint32),
        ("first_index", np.uint32),
        ("base_vertex", np.int32),
        ("base_instance", np.uint32),
    ]
)


class _Ranges:
    """Ranges of one buffer, one a slot; they never shrink, so that rotating scenes seldom moves them."""

    def __init__(self) -> None:
        self.offsets = np.zeros(1, np.int64)  # [K + 1] items; the last is the total
        self._capacity = np.zeros(0, np.int64)

    def fit(self, sizes: list[int], limit: float = np.inf) -> bool:
        """Make room for ``sizes`` [K] items, no more than ``limit`` together; returns whether any range moved."""
        capacity, wanted = self._capacity, np.array(sizes, np.int64)
        if len(capacity) == len(wanted) and (wanted <= capacity).all():
            return False
        if len(capacity) == len(wanted):  # a scene larger than any before: leave room for the next
            roomy = np.maximum(capacity, wanted + wanted // 8)
            wanted = roomy if roomy.sum() <= limit else wanted
        self._capacity = wanted
        self.offsets = np.concatenate([[0], np.cumsum(wanted)])
        return True


class SlotBuffer:
    """A buffer of items with a range for every slot.

    Args:
        context: Where the buffer lives.
        item_size: Bytes of one item.
    """

    def __init__(self, context: Context, item_size: int) -> None:
        self._context, self._item_size = context, item_size
        self._ranges = _Ranges()
        self.buffer: moderngl.Buffer | None = None

    @property
    def offsets(self) -> np.ndarray:
        """[K + 1] int64: the first item of every slot, and the end."""
        return self._ranges.offsets

    def update(self, contents: list[np.ndarray], changed: list[int]) -> bool:
        """Write the slots that changed; returns whether the buffer is a new one, with every slot written.

        Args:
            contents: [K] arrays, each of whole items.
            changed: Slots whose contents are new.
        """
        moved = self._ranges.fit([array.nbytes // self._item_size for array in contents])
        if moved:
            self.release()
            size = max(int(self.offsets[-1]), 1) * self._item_size
            self.buffer = self._context.moderngl.buffer(reserve=size)
        assert self.buffer is not None
        for slot in range(len(contents)) if moved else changed:
            if contents[slot].nbytes:
                self.buffer.write(contents[slot], offset=int(self.offsets[slot]) * self._item_size)
        return moved

    def release(self) -> None:
        """Give the memory back; safe twice."""
        if self.buffer is not None:
            self.buffer.release()
            self.buffer = None


class TextureMirror:
    """The textures of all slots in one array, for one size of texture.

    Attributes:
        size: Texels along a side of level 0.
        masks_only: Whether only the textures that cut holes are held.
    """

    def __init__(self, library: SceneLibrary, size: int, masks_only: bool) -> None:
        self.size, self.masks_only = size, masks_only
        self._library = library
        self._key = library.add_preparer(partial(prepare_textures, size=size, masks_only=masks_only))
        self._held: list[PreparedTextures] = []
        self._ranges = _Ranges()
        self._array: moderngl.TextureArray | None = None
        self._layers: SlotBuffer | None = None

    def sync(self, context: Context, material_offsets: np.ndarray) -> None:
        """Bring the device up to date; called only when the library has changed."""
        held = [self._library.prepared(slot, self._key) for slot in range(self._library.num_slots)]
        changed = _changed(held, self._held)
        sizes, limit = [len(textures.pool) for textures in held], context.moderngl.info["GL_MAX_ARRAY_TEXTURE_LAYERS"]
        if sum(sizes) > limit:
            raise RuntimeError(
                f"the resident scenes hold {sum(sizes)} textures and {context.device} takes {limit} in one array: "
                "keep fewer scenes resident, or choose renderer='embree'"
            )
        if self._ranges.fit(sizes, limit):
            if self._array is not None:
                self._array.release()
            self._array = context.srgb_texture_array(self.size, max(int(self._ranges.offsets[-1]), 1))
            changed = list(range(len(held)))
        assert self._array is not None
        for slot in changed:
            for level, texels in enumerate(held[slot].pool.levels):
                if len(texels):
                    context.write_layers(self._array, level, int(self._ranges.offsets[slot]), texels)
        self._write_layer_table(context, held, material_offsets)
        self._held = held

    def _write_layer_table(self, context: Context, held: list[PreparedTextures], material_offsets: np.ndarray) -> None:
        """Tell the shader which layer of the array each material of each slot shows."""
        table = np.full(max(int(material_offsets[-1]), 1), -1, np.int32)
        for textures, first, layer in zip(held, material_offsets, self._ranges.offsets, strict=False):
            shown = np.where(textures.layers >= 0, textures.layers + layer, -1)
            table[first : first + len(shown)] = shown
        if self._layers is None:
            self._layers = SlotBuffer(context, 4)
        self._layers.update([table], [0])

    def bind(self) -> None:
        """Bind the array to texture unit 0 and the layer table to storage buffer 3."""
        assert self._array is not None and self._layers is not None and self._layers.buffer is not None
        self._array.use(0)
        self._layers.buffer.bind_to_storage_buffer(3)

    def forget(self) -> None:
        """Have the library forget the preparer; safe twice."""
        self._library.remove_preparer(self._key)
        self._held = []

    def release(self) -> None:
        """Give the memory on the device back; safe twice."""
        if self._array is not None:
            self._array.release()
            self._array = None
        if self._layers is not None:
            self._layers.release()
            self._layers = None


class SceneMirror:
    """The geometry and materials of all slots, and the chunks they are culled by.

    Chunks are numbered through all slots, first by class (how they are drawn), then by slot; chunk c is drawn by
    command c.

    Attributes:
        layout: Grows by one whenever the vertex or index buffers are new ones.
        revision: Grows by one whenever the chunks are numbered anew.
        commands: [C] DRAW_COMMAND, without instances.
        chunk_bounds: [C, 6] float32, metres: centre and half the sides of the box around the chunk.
        chunk_slot: [C] int32.
        chunk_triangle: [C] uint32, first record in ``triangles``.
        class_start: [NUM_CLASSES + 1] int64, first chunk of every class.
        slot_chunks: [C] int32, the chunks slot after slot.
        slot_start: [K + 1] int64, where each slot starts in ``slot_chunks``.
    """

    def __init__(self, library: SceneLibrary) -> None:
        self._library = library
        self._key = library.add_preparer(prepare_mesh)
        self._held: list[PreparedMesh] = []
        self._generation: int | None = None
        self._textures: dict[tuple[int, bool], TextureMirror] = {}
        self._buffers: dict[str, SlotBuffer] = {}
        self.layout = 0
        self.revision = 0

    def textures(self, size: int, masks_only: bool) -> TextureMirror:
        """The textures that a target needs; full sets serve those who want masks only."""
        full = self._textures.get((size, False))
        if masks_only and full is not None:
            return full
        if (size, masks_only) not in self._textures:
            self._textures[size, masks_only] = TextureMirror(self._library, size, masks_only)
            self._generation = None
        return self._textures[size, masks_only]

    def buffer(self, name: str) -> moderngl.Buffer:
        """One of positions, attributes, indices, triangles, materials."""
        buffer = self._buffers[name].buffer
        assert buffer is not None
        return buffer

    @property
    def material_offsets(self) -> np.ndarray:
        """[K + 1] int64: the first material of every slot, and the end."""
        return self._buffers["materials"].offsets

    def sync(self, context: Context) -> None:
        """Bring the device up to date with the library, if it has changed."""
        if self._generation == self._library.generation:
            return
        generation = self._library.generation
        if not self._buffers:
            sizes = {"positions": 12, "attributes": VERTEX_ATTRIBUTES.itemsize, "indices": 12}
            sizes |= {"triangles": TRIANGLE_RECORD.itemsize, "materials": MATERIAL_RECORD.itemsize}
            self._buffers = {name: SlotBuffer(context, size) for name, size in sizes.items()}
        held = [self._library.prepared(slot, self._key) for slot in range(self._library.num_slots)]
        triangles, limit = sum(len(mesh.triangles) for mesh in held), _most_triangles(context)
        if triangles > limit:
            raise RuntimeError(
                f"the resident scenes hold {triangles} triangles and {context.device} takes {limit} in one buffer: "
                "keep fewer scenes resident, or choose renderer='embree'"
            )
        changed = _changed(held, self._held)
        moved = [
            buffer.update([getattr(mesh, name) for mesh in held], changed) for name, buffer in self._buffers.items()
        ]
        self.layout += any(moved)
        self._held = held
        self._number_chunks()
        self.revision += 1
        for textures in self._textures.values():
            textures.sync(context, self.material_offsets)
        self._generation = generation

    def _number_chunks(self) -> None:
        """Lay the chunks of all slots out class by class, with their draw commands."""
        held = self._held
        slot = np.repeat(np.arange(len(held)), [len(mesh.chunk_first) for mesh in held])
        kind = np.concatenate([mesh.chunk_class for mesh in held])
        order = np.argsort(kind, kind="stable")
        slot = slot[order]
        first = np.concatenate([mesh.chunk_first for mesh in held])[order]
        first += self._buffers["triangles"].offsets[slot]
        bounds = np.concatenate([np.hstack([mesh.chunk_center, mesh.chunk_half]) for mesh in held])
        self.commands = np.zeros(len(order), DRAW_COMMAND)
        self.commands["count"] = 3 * np.concatenate([mesh.chunk_count for mesh in held])[order]
        self.commands["first_index"] = 3 * first
        self.commands["base_vertex"] = self._buffers["positions"].offsets[slot]
        self.chunk_bounds = np.ascontiguousarray(bounds[order], np.float32)
        self.chunk_slot = slot.astype(np.int32)
        self.chunk_triangle = first.astype(np.uint32)
        self.class_start = np.searchsorted(kind[order], np.arange(NUM_CLASSES + 1))
        self.slot_chunks = np.argsort(slot, kind="stable").astype(np.int32)
        self.slot_start = np.searchsorted(slot[self.slot_chunks], np.arange(len(held) + 1))

    def forget(self) -> None:
        """Have the library forget the preparers; safe twice."""
        self._library.remove_preparer(self._key)
        for textures in self._textures.values():
            textures.forget()
        self._held = []

    def release(self) -> None:
        """Give the memory on the device back; safe twice."""
        for textures in self._textures.values():
            textures.release()
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers = {}


def _most_triangles(context: Context) -> int:
    """How many triangles fit the largest buffer that shaders can read, the room left for growth included."""
    return context.moderngl.info["GL_MAX_SHADER_STORAGE_BLOCK_SIZE"] * 8 // 9 // TRIANGLE_RECORD.itemsize


def _changed(new: list, old: list) -> list[int]:
    """Slots that hold another record than before."""
    return [slot for slot, record in enumerate(new) if slot >= len(old) or record is not old[slot]]
