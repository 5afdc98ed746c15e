"""Memory on the device that is shared by slots, and what has still to be written into it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

import moderngl
import numpy as np

from gym_batchnav.render.opengl.context import Context

PIECE_BYTES = 1 << 20  # the most that one write takes to the device


def full_size(sizes: np.ndarray) -> int:
    """What all slots will hold together once those that are empty hold what the others do on average.

    Args:
        sizes: [K] int, items that every slot holds.
    """
    return -(-int(sizes.sum()) * len(sizes) // max(int(np.count_nonzero(sizes)), 1))


class SlotHeap:
    """Buffers in which every slot holds one range of items; all buffers of a heap are laid out alike.

    A scene that fits where another was is placed there. Where none does, new buffers are made, and what the other
    slots hold is copied on the device, so that it is never sent again.

    Args:
        context: Where the buffers live.
        num_slots: K.
        item_sizes: Name of every buffer and the bytes of one of its items.
        limit: Items beyond which no room is kept for scenes to come.

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

    def place(self, sizes: Mapping[int, int]) -> None:
        """Give slots other ranges, whose contents are undefined until they are written; all others keep theirs.

        Args:
            sizes: Items of every slot that changes, 0 to free what it held.
        """
        wanted = self.size.copy()
        wanted[list(sizes)] = list(sizes.values())
        self.size[list(sizes)] = 0
        spacious = self.capacity > 4 * full_size(wanted)
        for slot, size in sizes.items():
            gap = None if spacious or not self._buffers else self._gap(size)
            if gap is None:
                self._repack(sizes)
                return
            self.start[slot], self.size[slot] = gap, size

    def write(self, name: str, slot: int, contents: np.ndarray) -> Iterator[int]:
        """Write a slot's items piece by piece; yields the bytes of each. The slot may be moved in between."""
        bytes_in = contents.reshape(-1).view(np.uint8)
        for first in range(0, len(bytes_in), PIECE_BYTES):
            piece = bytes_in[first : first + PIECE_BYTES]
            at = int(self.start[slot]) * self._item_sizes[name] + first
            self._buffers[name].write(piece, offset=at)
            yield len(piece)

    def release(self) -> None:
        """Give the memory back; safe twice."""
        for buffer in self._buffers.values():
            buffer.release()
        self._buffers = {}

    def _gap(self, size: int) -> int | None:
        """The first item of the first gap that holds ``size`` items, None if there is none."""
        order = np.argsort(self.start + (self.size == 0) * self.capacity)
        used = order[: np.count_nonzero(self.size)]
        begins = np.append(0, self.start[used] + self.size[used])
        fits = np.append(self.start[used], self.capacity) - begins >= size
        return int(begins[np.argmax(fits)]) if fits.any() else None

    def _repack(self, sizes: Mapping[int, int]) -> None:
        """Make new buffers, slot after slot without gaps, and copy what the slots that do not change hold."""
        old_start, grows = self.start.copy(), bool(self._buffers)
        self.size[list(sizes)] = list(sizes.values())
        self.start = np.cumsum(self.size) - self.size
        room = full_size(self.size)
        self.capacity = max(min(room + room // 8 if grows else room, self._limit), int(self.size.sum()), 1)
        for name, item_size in self._item_sizes.items():
            new = self._context.moderngl.buffer(reserve=self.capacity * item_size)
            old = self._buffers.get(name)
            if old is not None:
                for slot in np.flatnonzero(self.size):
                    if slot not in sizes:
                        start, end, nbytes = (
                            int(n) * item_size for n in (old_start[slot], self.start[slot], self.size[slot])
                        )
                        self._context.moderngl.copy_buffer(new, old, nbytes, read_offset=start, write_offset=end)
                old.release()
            self._buffers[name] = new
        self.layout += 1


class Uploads:
    """What has still to be written to the device, slot by slot."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, Hashable], Iterator[int]] = {}

    def put(self, slot: int, owner: Hashable, pieces: Iterator[int] | None) -> None:
        """Have ``pieces`` written, each step of which writes one and yields its bytes, instead of the owner's last."""
        self._pending.pop((slot, owner), None)
        if pieces is not None:
            self._pending[slot, owner] = pieces

    def finish(self, slots: Iterable[int]) -> None:
        """Write all that is missing in the given slots."""
        wanted = set(slots)
        for key in [key for key in self._pending if key[0] in wanted]:
            for _ in self._pending.pop(key):
                pass

    def advance(self, budget: int) -> None:
        """Write at most ``budget`` bytes of whatever is missing, first come first served."""
        while self._pending and budget >= PIECE_BYTES:
            key = next(iter(self._pending))
            written = next(self._pending[key], None)
            if written is None:
                del self._pending[key]
            else:
                budget -= written
