"""SampleMemory: a bounded memory of samples, filled frame by frame and drawn from at random."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from gym_batchnav.system.limits import available_memory

Columns: TypeAlias = dict[str, np.ndarray]
Format: TypeAlias = Mapping[str, tuple[tuple[int, ...], np.dtype]]  # shape and dtype of one frame, by name
Empty: TypeAlias = Callable[[tuple[int, ...], np.dtype], np.ndarray]


class SampleMemory:
    """A memory of C samples, each T successive frames of one environment.

    N samples begin together (``begin``), receive their T frames (``put``) and then count (``end``).

    Args:
        columns: Shape and dtype of one frame, by name.
        capacity: C.
        num_steps: T.
        reservoir: Keep each sample that has ever been added with the same probability, instead of the newest ones.
        rng: Random numbers, of the reservoir and of ``draw``.

    Attributes:
        added: Samples added so far.

    Raises:
        ValueError: It would not fit into the main memory that is available.
    """

    def __init__(
        self, columns: Format, capacity: int, num_steps: int, reservoir: bool, rng: np.random.Generator
    ) -> None:
        one = num_steps * sum(math.prod(shape) * dtype.itemsize for shape, dtype in columns.values())
        available = available_memory()
        if available is not None and capacity * one > available:
            raise ValueError(
                f"capacity={capacity}: these samples need {capacity * one / 2**30:,.1f} GiB ({one:,} bytes each), but "
                f"only {available / 2**30:,.1f} GiB of main memory are available: pass at most "
                f"capacity={available // one}"
            )
        self.capacity = capacity
        self.num_steps = num_steps
        self.added = 0
        self._reservoir = reservoir
        self._rng = rng
        self._arrays = {
            name: np.zeros((capacity, num_steps, *shape), dtype) for name, (shape, dtype) in columns.items()
        }
        self._kept = np.zeros(0, np.int64)  # the samples under way that have a place, and their places
        self._places = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def begin(self, count: int) -> None:
        """Choose places for ``count`` new samples, at most C, which replace those there; some may get no place."""
        numbers = self.added + np.arange(count)
        places = numbers % self.capacity
        if self._reservoir:
            drawn = self._rng.integers(0, numbers + 1)
            places = np.where(numbers < self.capacity, numbers, drawn)
        # Of several samples with one place the last would have replaced the others.
        _, last = np.unique(places[::-1], return_index=True)
        kept = np.sort(count - 1 - last)
        self._kept = kept[places[kept] < self.capacity]
        self._places = places[self._kept]

    def put(self, step: int, rows: Mapping[str, np.ndarray]) -> None:
        """Write some columns [N, ...] of frame ``step`` of the samples under way."""
        for name, values in rows.items():
            everything = len(self._kept) == len(values)
            self._arrays[name][self._places, step] = values if everything else values[self._kept]

    def end(self, count: int) -> None:
        """Let the ``count`` samples under way be drawn from now on."""
        self.added += count

    def draw(self, count: int, empty: Empty = np.empty) -> Columns:
        """Return ``count`` different samples, at most ``len(self)``, in random order.

        They are arrays [count, T, ...], or [count, ...] if T is 1.

        Args:
            count: Number of samples.
            empty: Makes an array of a shape and dtype.
        """
        chosen = self._rng.choice(len(self), count, replace=False)
        batch = {}
        for name, values in self._arrays.items():
            batch[name] = empty((count, *values.shape[1:]), values.dtype)
            np.take(values, chosen, axis=0, out=batch[name], mode="clip")  # other modes copy twice
        return {name: values[:, 0] for name, values in batch.items()} if self.num_steps == 1 else batch
