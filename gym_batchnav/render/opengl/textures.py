"""The textures of all slots on the device."""

from __future__ import annotations

from collections.abc import Iterator

import moderngl
import numpy as np

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.opengl.context import Context
from gym_batchnav.render.opengl.heap import SlotHeap, Uploads, full_size
from gym_batchnav.render.opengl.prepare import PreparedTextures, TexturePreparer

MAX_PAGES = 8  # arrays that shaders can access at once; OpenGL guarantees 16 texture units


class TextureMirror:
    """The textures of all slots, for one texture size, in a few arrays called pages.

    Any texture may be in any layer; a table holds the layer of each material, counted across all pages. There is
    more than one page only if the driver's limit of layers (2,048 is usual) requires it.

    Texels are not compressed: with its mips a texture of 256 x 256 takes 350 KB, so that 32 scenes of 50 textures
    take 560 MB and graphics cards hold hundreds of such scenes. BC7 would take a quarter of that, but change
    texels by more than the renderers may differ, and take seconds per scene to encode.

    If ``masks_only``, it holds only textures of masked materials.
    """

    def __init__(self, library: SceneLibrary, size: int, masks_only: bool) -> None:
        self.size = size  # texels per side of level 0
        self._library = library
        (self._key,) = library.add_preparers([TexturePreparer(size, masks_only)])
        self._held: list[PreparedTextures | None] = [None] * library.num_slots
        self._layers: list[np.ndarray] = [np.zeros(0, np.int64)] * library.num_slots  # of every slot's textures
        self.pages: list[moderngl.TextureArray] = []
        self._capacity = 0
        self._table: moderngl.Buffer | None = None
        self.page_layers = 1  # number of layers of every page except the last

    def follow(self, context: Context, uploads: Uploads, materials: SlotHeap) -> None:
        """Update all slots; to be called only when the slots or the places of materials have changed."""
        held = [self._library.prepared(slot, self._key) for slot in range(self._library.num_slots)]
        changed = [slot for slot, textures in enumerate(held) if textures is not self._held[slot]]
        self.page_layers = context.moderngl.info["GL_MAX_ARRAY_TEXTURE_LAYERS"]
        counts = np.array([0 if textures is None else len(textures.pool) for textures in held])
        total = int(counts.sum())
        room = full_size(counts)
        limit = MAX_PAGES * self.page_layers
        if total > limit:
            raise RuntimeError(
                f"the resident scenes have {total} textures, but {context.device} holds {limit}: "
                "keep fewer scenes resident, or choose renderer='embree'"
            )
        if not self.pages or total > self._capacity or self._capacity > 4 * max(room, 1):
            self._resize(context, room)
            changed = list(range(len(held)))
        for slot in changed:
            self._layers[slot] = np.zeros(0, np.int64)
        free = np.setdiff1d(np.arange(self._capacity), np.concatenate(self._layers))
        for slot in changed:
            textures = held[slot]
            self._layers[slot], free = free[: counts[slot]], free[counts[slot] :]
            uploads.put(slot, self, None if textures is None else self._pieces(context, slot, textures))
        self._held = held
        self._write_table(context, materials)

    def bind(self) -> None:
        """Bind the pages to texture units from 0 on and the table to storage buffer 3."""
        for unit, page in enumerate(self.pages):
            page.use(unit)
        assert self._table is not None
        self._table.bind_to_storage_buffer(3)

    def forget(self) -> None:
        """Remove the preparer from the library; to be called once, since other renderers may share it."""
        self._library.remove_preparer(self._key)
        self._held = []
        self.pages = []  # targets may keep the textures
        self._table = None

    def _pieces(self, context: Context, slot: int, textures: PreparedTextures) -> Iterator[int]:
        """Write a slot's textures level by level, and yield the size of each."""
        for index in range(len(textures.pool)):
            for level, texels in enumerate(textures.pool.levels):
                page, layer = divmod(int(self._layers[slot][index]), self.page_layers)
                context.write_layers(self.pages[page], level, layer, texels[index : index + 1])
                yield texels[index].nbytes

    def _resize(self, context: Context, room: int) -> None:
        """Make new pages for at least ``room`` textures, all of which must be written again."""
        limit = MAX_PAGES * self.page_layers
        capacity = max(min(room + room // 8 if self.pages else room, limit), 1)
        fulls, rest = divmod(capacity, self.page_layers)
        depths = [self.page_layers] * fulls + [rest] * (rest > 0)
        pages = context.allocate(
            (context.srgb_texture_array(self.size, depth) for depth in depths),
            f"textures of {self.size} pixels",
            "pass a smaller texture_size=, or keep fewer scenes resident",
        )
        for page in self.pages:
            page.release()
        self.pages = pages
        self._capacity = capacity

    def _write_table(self, context: Context, materials: SlotHeap) -> None:
        """Write the table of the layers of all materials of all slots, -1 for none."""
        table = np.full(materials.capacity, -1, np.int32)
        for textures, layers, first in zip(self._held, self._layers, materials.start, strict=True):
            if textures is not None and len(layers):
                shown = np.where(textures.layers >= 0, layers[textures.layers], -1)
                table[first : first + len(shown)] = shown
        if self._table is None or self._table.size != table.nbytes:
            self._table = context.moderngl.buffer(reserve=table.nbytes)
        self._table.write(table)
