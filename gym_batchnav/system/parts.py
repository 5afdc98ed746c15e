"""Parts: the one rule by which independent processes divide a list of work, as ``--shard i/n`` names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

MAX_PARTS = 999_999

Work = TypeVar("Work", np.ndarray, list[Any])


@dataclass(frozen=True, slots=True)
class Part:
    """Part ``number`` of ``count``: every count-th piece of work, from the number-th on.

    The parts 1/n to n/n of a list are disjoint, together they are the list, and their sizes differ by at most one.
    Neighbours in the list, such as the episodes of a scene, are spread over all parts.

    Attributes:
        number: From 1 to ``count``.
        count: The number of parts.

    Raises:
        ValueError: The number is not from 1 to ``count``.
    """

    number: int = 1
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= MAX_PARTS:
            raise ValueError(f"shard={self}: pass i/n with i from 1 to n, such as 2/8")

    @classmethod
    def parse(cls, text: str | None) -> Part:
        """Return the part that is written as ``"i/n"``; the only one, 1/1, for None.

        It is read from nothing else. Variables such as SLURM_ARRAY_TASK_COUNT would be wrong when only the failed tasks
        of an array are submitted again.

        Raises:
            ValueError: The string has another form, or i is not from 1 to n.
        """
        if text is None:
            return cls()
        match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", str(text))
        if match is None:
            raise ValueError(f"shard={text!r}: pass i/n with i from 1 to n, such as 2/8")
        return cls(int(match[1]), int(match[2]))

    def of(self, work: Work) -> Work:
        """Return this part of a list or of the rows of an array, in the same order."""
        return work[self.number - 1 :: self.count]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


def all_parts(count: int) -> list[Part]:
    """Return the parts 1/count to count/count."""
    return [Part(number, count) for number in range(1, count + 1)]
