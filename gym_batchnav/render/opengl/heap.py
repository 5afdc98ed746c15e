"""Memory on the device that is shared by slots, and the writes into it that are still to do."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Set

import moderngl
import numpy as np

from gym_batchnav.render.opengl.context import Context

PIECE_BYTES = 1 << 20  # the most that one write takes to the device


def full_size(sizes: np.ndarray) -> int:
    """The items of all slots together, if the empty slots held as many as the others on average.

    Args:
        sizes: [K] int, items that every slot holds.
    """
    return -(-int(sizes.sum()) * len(sizes) // max(int(np.count_nonzero(sizes)), 1))


class SlotHeap:
    """Buffers in which every slot holds one range of items; all buffers of a heap are laid out alike.

    A scene that fits where another was is placed there. Where none does, the slots are moved together within the
    buffers. Only when these are too small, or far too large, are new ones made, which takes memory for both for a
    moment. What the other slots hold is copied on the device, so that it is never sent again.

    Args:
        context: Where the buffers live.
        num_slots: K.
        item_sizes: Name of every buffer and the bytes of one of its items.
        limit: The most items for which room is kept ahead of later scenes.

    Attributes:
        start: [K] int64, first item of every slot.
        size: [K] int64, items of every slot.
        capacity: Items that the buffers have room for.
        layout: Grows by one whenever the buffers are new ones.
    """

    def __init__(self, context: Context, num_slots: int, item_sizes: Mapping[str, int], limit: int) -> None:
        self._context, self._item_sizes, self._limit = context, dict(item_sizes), limit
        self._buffers: dict[str, moderngl.Buffer] = {}
        self.start, self.size = np.zeros(num_slots, np.int64), np.zeros(num_slots, np.int64)
        self.capacity = 0
        self.layout = 0

    def buffer(self, name: str) -> moderngl.Buffer:
        """One of the buffers."""
        return self._buffers[name]

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.size for buffer in self._buffers.values())

    def place(self, sizes: Mapping[int, int]) -> None:
        """Give slots other ranges, whose contents are undefined until they are written; all others keep theirs.

        Args:
            sizes: Items of every slot that changes, 0 to free what it held.

        Raises:
            RuntimeError: The device has no memory for them; every slot then keeps its range.
        """
        wanted = self.size.copy()
        wanted[list(sizes)] = list(sizes.values())
        spacious = self.capacity > 4 * full_size(wanted)
        if spacious or not self._buffers or wanted.sum() > self.capacity:
            self._repack(wanted, set(sizes))
            return
        start = self._fit(sizes)
        self.start = self._compact(wanted, set(sizes)) if start is None else start
        self.size = wanted

    def write(self, name: str, slot: int, contents: np.ndarray) -> Iterator[int]:
        """Write a slot's items piece by piece, yielding the bytes of each; the slot may be moved in between."""
        bytes_in = contents.reshape(-1).view(np.uint8)
        for first in range(0, len(bytes_in), PIECE_BYTES):
            piece = bytes_in[first : first + PIECE_BYTES]
            at = int(self.start[slot]) * self._item_sizes[name] + first
            self._buffers[name].write(piece, offset=at)
            yield len(piece)

    def release(self) -> None:
        """Release the memory; idempotent."""
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers = {}

    def _fit(self, sizes: Mapping[int, int]) -> np.ndarray | None:
        """[K] int64: the first item of every slot once those that change lie in gaps; None if a gap is missing."""
        start, size = self.start.copy(), self.size.copy()
        size[list(sizes)] = 0
        for slot, items in sizes.items():
            used = np.argsort(start + (size == 0) * self.capacity)[: np.count_nonzero(size)]
            begins = np.append(0, start[used] + size[used])
            fits = np.append(start[used], self.capacity) - begins >= items
            if not fits.any():
                return None
            start[slot], size[slot] = begins[np.argmax(fits)], items
        return start

    def _compact(self, size: np.ndarray, changed: Set[int]) -> np.ndarray:
        """Move the slots that do not change to the front of the buffers and return the first items of all, [K] int64.

        Args:
            size: [K] int64, items of every slot; together at most the capacity.
            changed: Slots whose contents are not kept.
        """
        kept = [slot for slot in np.argsort(self.start, kind="stable").tolist() if size[slot] and slot not in changed]
        order = [*kept, *sorted(set(range(len(size))) - set(kept))]
        start = np.empty_like(self.start)
        start[order] = np.cumsum(size[order]) - size[order]
        scratch = self._context.moderngl.buffer(reserve=PIECE_BYTES)
        try:
            self._context.check("making room for scenes")
            for slot in kept:
                for name, item_size in self._item_sizes.items():
                    read, write, nbytes = (int(n[slot]) * item_size for n in (self.start, start, size))
                    self._move(self._buffers[name], read, write, nbytes, scratch)
        finally:
            scratch.release()
        return start

    def _move(self, buffer: moderngl.Buffer, read: int, write: int, nbytes: int, scratch: moderngl.Buffer) -> None:
        """Move bytes towards the front of their buffer, piece by piece, as OpenGL copies no overlapping ranges."""
        copy = self._context.moderngl.copy_buffer
        for first in range(0, nbytes if write < read else 0, PIECE_BYTES):
            piece = min(PIECE_BYTES, nbytes - first)
            if read - write >= piece:
                copy(buffer, buffer, piece, read_offset=read + first, write_offset=write + first)
            else:
                copy(scratch, buffer, piece, read_offset=read + first)
                copy(buffer, scratch, piece, write_offset=write + first)

    def _repack(self, size: np.ndarray, changed: Set[int]) -> None:
        """Make new buffers, slot after slot without gaps, and copy what the slots that do not change hold."""
        start, room = np.cumsum(size) - size, full_size(size)
        capacity = max(min(room + room // 8 if self._buffers else room, self._limit), int(size.sum()), 1)
        buffers = self._allocate(capacity)
        for name, old in self._buffers.items():
            for slot in set(np.flatnonzero(size).tolist()) - changed:
                read, write, nbytes = (int(n[slot]) * self._item_sizes[name] for n in (self.start, start, size))
                self._context.moderngl.copy_buffer(buffers[name], old, nbytes, read_offset=read, write_offset=write)
            old.release()
        self._buffers, self.start, self.size, self.capacity = buffers, start, size, capacity
        self.layout += 1

    def _allocate(self, capacity: int) -> dict[str, moderngl.Buffer]:
        """Buffers for ``capacity`` items: all of them, or an error and none."""
        buffers: dict[str, moderngl.Buffer] = {}
        try:
            for name, item_size in self._item_sizes.items():
                buffers[name] = self._context.moderngl.buffer(reserve=capacity * item_size)
            self._context.check("making room for scenes")
        except Exception:  # ModernGL raises its own
            for buffer in buffers.values():
                buffer.release()
            raise
        return buffers


class Uploads:
    """The writes to the device that are still to do, slot by slot."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, Hashable], Iterator[int]] = {}

    def put(self, slot: int, owner: Hashable, pieces: Iterator[int] | None) -> None:
        """Replace the owner's writes for a slot by ``pieces``, which writes a piece per step and yields its bytes."""
        self._pending.pop((slot, owner), None)
        if pieces is not None:
            self._pending[slot, owner] = pieces

    def finish(self, slots: Iterable[int]) -> None:
        """Do all writes of the given slots."""
        wanted = set(slots)
        for key in [key for key in self._pending if key[0] in wanted]:
            for _ in self._pending.pop(key):
                pass

    def advance(self, budget: int) -> None:
        """Do writes of at most ``budget`` bytes, in the order in which they were put."""
        while self._pending and budget >= PIECE_BYTES:
            key = next(iter(self._pending))
            written = next(self._pending[key], None)
            if written is None:
                del self._pending[key]
            else:
                budget -= written
