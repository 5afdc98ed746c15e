"""Job: work in numbered pieces, which any node of a cluster can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class Finished(NamedTuple):
    """Pieces that a node has finished, and their result."""

    pieces: list[int]
    result: Any  # small: it travels to the driver in a message


class Runner(Protocol):
    """A job on one node, with all that it has loaded."""

    def run(self, pieces: list[int]) -> Iterator[Finished]:
        """Do some pieces; yield them when they are finished, each once, in any order."""

    def close(self) -> None:
        """Release everything; idempotent."""


class Job(Protocol):
    """Work in pieces. It is pickled and sent to the nodes, so it holds data only.

    A piece must give the same result wherever and however often it is done.

    Attributes:
        what: Short description of the pieces, such as ``"Episodes"``.
        num_pieces: The pieces have the numbers 0 to num_pieces - 1.
        grain: The number of pieces that a node should have at a time to be busy.
        exclusive: Whether a node does one piece at a time, with all its GPUs, so that pieces do not disturb each other.
    """

    @property
    def what(self) -> str:
        """Short description of the pieces."""

    @property
    def num_pieces(self) -> int:
        """The number of pieces."""

    @property
    def grain(self) -> int:
        """The number of pieces that a node should have at a time to be busy."""

    @property
    def exclusive(self) -> bool:
        """Whether a node does one piece at a time, with all its GPUs."""

    def open(self) -> Runner:
        """Load what the job needs; called on a node, before its first pieces."""
