"""Work on the processor in shards of environments, one per thread, each of which computes with one thread.

Threads that each do a whole shard need no synchronisation within operations, most of which are too small to be divided.
What is computed does not depend on their number: the shards and the order in which results are added are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

T = TypeVar("T")


class Shards:
    """Threads that work on shards of at most ``acting`` environments in one step, and ``learning`` in a rollout.

    With fewer environments, matrix products would be less efficient, and threads would wait for Python's lock.
    """

    def __init__(self, num_threads: int, acting: int = 128, learning: int = 32) -> None:
        self._acting = acting
        self._learning = learning
        self._threads = ThreadPoolExecutor(num_threads, "shard", partial(torch.set_num_threads, 1))

    def map(self, function: Callable[[slice], T], num_rows: int) -> list[T]:
        """Return the results of a function of one step for consecutive slices of environments."""
        return self._map(function, num_rows, self._acting)

    def backward(
        self,
        parameters: Sequence[nn.Parameter],
        loss: Callable[[slice], tuple[Tensor, dict[str, Tensor]]],
        num_rows: int,
        size: int | None = None,
    ) -> dict[str, Tensor]:
        """Set the gradients of parameters to those of the mean loss of all rows, and return its mean terms.

        ``loss`` returns the mean loss of a slice of rows, and its terms without gradients.
        """

        def gradients(rows: slice) -> tuple[list[Tensor | None], dict[str, Tensor]]:
            share = (rows.stop - rows.start) / num_rows
            with torch.enable_grad():
                value, terms = loss(rows)
                found = torch.autograd.grad(value * share, parameters, allow_unused=True)
            return list(found), {name: one * share for name, one in terms.items()}

        shards = self._map(gradients, num_rows, size or self._learning)
        for parameter, *found in zip(parameters, *(one for one, _ in shards), strict=True):
            parts = [one for one in found if one is not None]
            parameter.grad = sum(parts[1:], parts[0]) if parts else None
        return {name: sum((terms[name] for _, terms in shards[1:]), one) for name, one in shards[0][1].items()}

    def _map(self, function: Callable[[slice], T], num_rows: int, size: int) -> list[T]:
        """Return the results of a function for consecutive slices of at most ``size`` rows, as equal as possible."""
        count = -(-num_rows // size)
        edges = [num_rows * index // count for index in range(count + 1)]
        return list(self._threads.map(function, [slice(first, last) for first, last in pairwise(edges)]))
