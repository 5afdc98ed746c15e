"""Pace: keeps work within a share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """Says when work is due, so that it takes at most a share of the time.

    After work of t seconds, none is due for t / share - t seconds. Work that has become slower is done less often.

    Args:
        share: The share of the time that the work may take, above 0 and at most 1.
        period: Seconds from the beginning of one work to that of the next, at least.
        clock: Returns seconds.
    """

    def __init__(self, share: float, period: float = 0.0, clock: Callable[[], float] = time.perf_counter) -> None:
        self.share = share
        self._period = period
        self._clock = clock
        self._next = -float("inf")

    @property
    def wait(self) -> float:
        """Seconds until work is due; 0 if it is due now."""
        return max(0.0, self._next - self._clock())

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measure the work that is done inside, even if it raises."""
        begun = self._clock()
        try:
            yield
        finally:
            self._next = begun + max(self._period, (self._clock() - begun) / self.share)
