"""Memory on the device that slots share, and the pending writes to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set

import moderngl
import numpy as np

from gym_batchnav.render.opengl.context import Context

PIECE_BYTES = 1 << 20  # limit of one write to the device


def full_size(sizes: np.ndarray) -> int:
    """Return the number of items if all slots were filled, each with the mean of those that are: ``sizes`` [K] int."""
    return -(-int(sizes.sum()) * len(sizes) // max(int(np.count_nonzero(sizes)), 1))


class SlotHeap:
    """Buffers in which every slot has one range of items, the same in all buffers of a heap.

    A scene is placed in a gap that others have left if it fits. Otherwise, or if the buffers are too small or far too
    large, new buffers are made; old and new ones then exist at the same time. The contents of other slots are copied on
    the device, so that they are never uploaded again.

    ``item_sizes`` is the size of an item in bytes, by name of the buffer. Space is reserved in advance for at most
    ``limit`` items.
    """

    def __init__(self, context: Context, num_slots: int, item_sizes: Mapping[str, int], limit: int) -> None:
        self._context, self._item_sizes, self._limit = context, dict(item_sizes), limit
        self._buffers: dict[str, moderngl.Buffer] = {}
        self.start = np.zeros(num_slots, np.int64)  # [K], first item of every slot
        self.size = np.zeros(num_slots, np.int64)  # [K], items of every slot
        self.capacity = 0  # number of items that fit into the buffers
        self.layout = 0  # increases whenever the buffers are replaced

    def buffer(self, name: str) -> moderngl.Buffer:
        """Return the buffer of a name."""
        return self._buffers[name]

    def place(self, sizes: Mapping[int, int]) -> None:
        """Move slots to new ranges, whose contents are undefined until they are written; all other slots keep theirs.

        ``sizes`` is the number of items of every slot that changes, 0 to free its range. All slots keep their ranges if
        the device lacks the memory, a RuntimeError.
        """
        requested = self.size.copy()
        requested[list(sizes)] = list(sizes.values())
        spacious = self.capacity > 4 * full_size(requested)
        renewed = spacious or not self._buffers or requested.sum() > self.capacity
        start = None if renewed else self._fit(sizes)
        if start is None:
            self._repack(requested, set(sizes))
        else:
            self.start, self.size = start, requested

    def write(self, name: str, slot: int, contents: np.ndarray) -> Iterator[int]:
        """Write a slot's items piece by piece, yielding the bytes of each; the slot may be moved in between."""
        bytes_in = contents.reshape(-1).view(np.uint8)
        for first in range(0, len(bytes_in), PIECE_BYTES):
            piece = bytes_in[first : first + PIECE_BYTES]
            at = int(self.start[slot]) * self._item_sizes[name] + first
            self._buffers[name].write(piece, offset=at)
            yield len(piece)

    def _fit(self, sizes: Mapping[int, int]) -> np.ndarray | None:
        """Return the first item of every slot [K] int64 with changed slots placed in gaps; None if they do not fit."""
        start = self.start.copy()
        size = self.size.copy()
        size[list(sizes)] = 0
        for slot, items in sizes.items():
            used = np.argsort(start + (size == 0) * self.capacity)[: np.count_nonzero(size)]
            begins = np.append(0, start[used] + size[used])
            fits = np.append(start[used], self.capacity) - begins >= items
            if not fits.any():
                return None
            start[slot] = begins[np.argmax(fits)]
            size[slot] = items
        return start

    def _repack(self, size: np.ndarray, changed: Set[int]) -> None:
        """Make new buffers without gaps, and copy the contents of the slots that do not change."""
        start = np.cumsum(size) - size
        room = full_size(size)
        capacity = max(min(room + room // 8 if self._buffers else room, self._limit), int(size.sum()), 1)
        made = self._context.allocate(
            (self._context.moderngl.buffer(reserve=capacity * item_size) for item_size in self._item_sizes.values()),
            f"scenes with {capacity:,} items",
            "keep fewer scenes resident, or choose renderer='embree'",
        )
        buffers = dict(zip(self._item_sizes, made, strict=True))
        for name, old in self._buffers.items():
            for slot in set(np.flatnonzero(size).tolist()) - changed:
                read, write, nbytes = (int(n[slot]) * self._item_sizes[name] for n in (self.start, start, size))
                self._context.moderngl.copy_buffer(buffers[name], old, nbytes, read_offset=read, write_offset=write)
            old.release()
        self._buffers = buffers
        self.start = start
        self.size = size
        self.capacity = capacity
        self.layout += 1


class Uploads:
    """The pending writes to the device, by slot."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, Hashable], Iterator[int]] = {}

    def put(self, slot: int, owner: Hashable, pieces: Iterator[int] | None) -> None:
        """Replace an owner's writes for a slot by ``pieces``, which writes one piece per step and yields its size."""
        self._pending.pop((slot, owner), None)
        if pieces is not None:
            self._pending[slot, owner] = pieces

    def finish(self, slots: Iterable[int]) -> None:
        """Perform all writes of the given slots."""
        requested = set(slots)
        for key in [key for key in self._pending if key[0] in requested]:
            for _ in self._pending.pop(key):
                pass

    def advance(self, budget: int) -> None:
        """Perform writes of at most ``budget`` bytes in total, in the order in which they were added."""
        while self._pending and budget >= PIECE_BYTES:
            key = next(iter(self._pending))
            written = next(self._pending[key], None)
            if written is None:
                del self._pending[key]
            else:
                budget -= written
