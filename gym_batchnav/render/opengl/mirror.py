"""The library's scenes on the device: geometry and materials in a few large buffers with one range per slot."""

from __future__ import annotations

from collections.abc import Iterator

import moderngl
import numpy as np

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.opengl.context import Context
from gym_batchnav.render.opengl.heap import SlotHeap, Uploads
from gym_batchnav.render.opengl.prepare import DEVICE_BUFFERS, NUM_CLASSES, TRIANGLE_RECORD, MeshPreparer, PreparedMesh
from gym_batchnav.render.opengl.textures import TextureMirror
from gym_batchnav.scene.categories import SemanticIds

UPLOAD_BYTES = 4 << 20  # per batch, for scenes that are not visible in any of its views

# One indirect draw. Culling writes instance_count and base_instance; the rest is constant while a scene is resident.
DRAW_COMMAND = np.dtype(
    [(name, np.uint32) for name in ("count", "instance_count", "first_index", "base_vertex", "base_instance")]
)
# A chunk as the culling shader reads it; half are half the sides of its bounding box.
CHUNK_RECORD = np.dtype(
    [("center", np.float32, 3), ("triangle", np.uint32), ("half", np.float32, 3), ("unused", np.uint32)]
)


class SceneMirror:
    """The geometry, materials and textures of all slots, divided into chunks for culling.

    Chunks are numbered across all slots, sorted by class (chunks that are drawn alike) and then by slot. Command c
    draws chunk c.
    """

    commands: np.ndarray  # [C] DRAW_COMMAND, without instances
    chunks: np.ndarray  # [C] CHUNK_RECORD
    slot_lists: np.ndarray  # [K + 1 + C] int32: where the list of every slot begins and ends, then the chunks by slot
    group_start: np.ndarray  # [NUM_CLASSES * K + 1] int64, first chunk of every group
    num_chunks: np.ndarray  # [K] int64, chunks of every slot

    def __init__(self, library: SceneLibrary, semantic_ids: SemanticIds) -> None:
        self._library = library
        (self._key,) = library.add_preparers([MeshPreparer(semantic_ids)])
        self._held: list[PreparedMesh | None] = [None] * library.num_slots
        self._generation: int | None = None
        self._textures: dict[tuple[int, bool], TextureMirror] = {}
        self._heaps: dict[str, SlotHeap] = {}
        self._uploads = Uploads()
        self.revision = 0  # increases whenever the chunks are renumbered

    def textures(self, size: int, masks_only: bool) -> TextureMirror:
        """Return the textures that a target needs; a full set also serves targets that need only masks."""
        masks_only = masks_only and (size, False) not in self._textures
        if (size, masks_only) not in self._textures:
            self._textures[size, masks_only] = TextureMirror(self._library, size, masks_only)
            self._generation = None
        return self._textures[size, masks_only]

    def buffer(self, name: str) -> moderngl.Buffer:
        """Return a buffer: positions, attributes, indices, triangles or materials."""
        return next(heap.buffer(name) for heap_name, heap in self._heaps.items() if name in DEVICE_BUFFERS[heap_name])

    @property
    def layout(self) -> int:
        """Counter that increases whenever buffers are replaced."""
        return sum(heap.layout for heap in self._heaps.values())

    @property
    def first_material(self) -> np.ndarray:
        """[K] int64: the first material of every slot."""
        return self._heaps["materials"].start

    def sync(self, context: Context, slots: np.ndarray) -> None:
        """Update the device: the slots [N] int64 of views at once, other slots a part at a time."""
        if self._generation != self._library.generation:
            generation = self._library.generation
            self._follow(context)
            self._generation = generation
        self._uploads.finish(np.flatnonzero(np.bincount(slots)).tolist())
        self._uploads.advance(UPLOAD_BYTES)

    def _follow(self, context: Context) -> None:
        """Update all slots: reserve space for new scenes and free that of scenes that have left the library."""
        held = [self._library.prepared(slot, self._key) for slot in range(self._library.num_slots)]
        changed = {slot: mesh for slot, mesh in enumerate(held) if mesh is not self._held[slot]}
        triangles = sum(len(mesh.triangles) for mesh in held if mesh is not None)
        limit = context.moderngl.info["GL_MAX_SHADER_STORAGE_BLOCK_SIZE"] // TRIANGLE_RECORD.itemsize
        if triangles > limit:
            raise RuntimeError(
                f"the resident scenes have {triangles} triangles, but {context.device} holds {limit} in one buffer: "
                "keep fewer scenes resident, or choose renderer='embree'"
            )
        if not self._heaps:
            self._heaps = {name: SlotHeap(context, len(held), sizes, limit) for name, sizes in DEVICE_BUFFERS.items()}
        if changed or not self.revision:
            for name, heap in self._heaps.items():
                item = next(iter(DEVICE_BUFFERS[name]))
                heap.place({slot: 0 if mesh is None else len(getattr(mesh, item)) for slot, mesh in changed.items()})
            self._held = held
            self._number_chunks()
            for slot, mesh in changed.items():
                self._uploads.put(slot, self, None if mesh is None else self._pieces(slot, mesh))
        for textures in self._textures.values():
            textures.follow(context, self._uploads, self._heaps["materials"])

    def _pieces(self, slot: int, mesh: PreparedMesh) -> Iterator[int]:
        """Write a slot's geometry and materials in pieces, and yield the size of each."""
        for heap_name, heap in self._heaps.items():
            for name in DEVICE_BUFFERS[heap_name]:
                yield from heap.write(name, slot, getattr(mesh, name))

    def _number_chunks(self) -> None:
        """Number the chunks of all slots by group and make their draw commands."""
        sizes = [0 if mesh is None else len(mesh.chunk_class) for mesh in self._held]
        slots = np.repeat(np.arange(len(sizes)), sizes)

        def gather(name: str, empty: np.ndarray) -> np.ndarray:
            return np.concatenate([empty, *(getattr(mesh, name) for mesh in self._held if mesh is not None)])

        groups = gather("chunk_class", np.zeros(0, np.int64)) * len(sizes) + slots
        order = np.argsort(groups, kind="stable")
        slots = slots[order]
        first = gather("chunk_first", np.zeros(0, np.int64))[order] + self._heaps["triangles"].start[slots]
        self.commands = np.zeros(len(slots), DRAW_COMMAND)
        self.commands["count"] = 3 * gather("chunk_count", np.zeros(0, np.int64))[order]
        self.commands["first_index"] = 3 * first
        self.commands["base_vertex"] = self._heaps["vertices"].start[slots]
        bounds = gather("chunk_bounds", np.zeros((0, 6), np.float32))[order]
        self.chunks = np.zeros(len(slots), CHUNK_RECORD)
        self.chunks["center"] = bounds[:, :3]
        self.chunks["half"] = bounds[:, 3:]
        self.chunks["triangle"] = first
        self.slot_lists = np.concatenate([[0], np.cumsum(sizes), np.argsort(order)]).astype(np.int32)
        self.group_start = np.append(0, np.cumsum(np.bincount(groups, minlength=NUM_CLASSES * len(sizes))))
        self.num_chunks = np.array(sizes, np.int64)
        self.revision += 1

    def forget(self) -> None:
        """Remove the preparers from the library; to be called once, since other renderers may share them."""
        self._library.remove_preparer(self._key)
        self._held = []
        for textures in self._textures.values():
            textures.forget()
        self._uploads = Uploads()
        self._heaps = {}
