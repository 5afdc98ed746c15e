"""One display of the progress of all nodes."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from gym_batchnav.system.wording import counted

LINE_SECONDS = 15.0  # between two lines if there is no terminal


class NodesDisplay:
    """A bar for all pieces and a line per node on a terminal, a line every fifteen seconds elsewhere.

    Args:
        what: Short description of the pieces.
        total: Their number.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done: dict[str, int] = {}  # pieces, by node
        self._console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(
            *columns,
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._all = self._bar.add_task(what, total=total)
        self._started = time.monotonic()
        self._last = self._started

    def __enter__(self) -> NodesDisplay:
        """Show the bar."""
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the bar and say which node did how much."""
        self._bar.stop()
        if kind is None:
            self.say(self._line())

    def joined(self, node: str) -> None:
        """Show a node that takes part."""
        self._done.setdefault(node, 0)
        if node not in self._tasks:
            self._tasks[node] = self._bar.add_task(f"  {node}", total=self._total)

    def finished(self, node: str, pieces: int) -> None:
        """Count pieces that a node has finished."""
        self._done[node] += pieces
        self._bar.advance(self._all, pieces)
        self._bar.advance(self._tasks[node], pieces)

    def lost(self, node: str, pieces: int) -> None:
        """Say that a worker was lost, with so many unfinished pieces."""
        self._bar.update(self._tasks[node], description=f"  {node} (lost)")
        self.say(f"Lost a worker on {node}: {counted(pieces, 'unfinished piece')} to be done again")

    def refresh(self) -> None:
        """Print a line now and then if there is no terminal."""
        now = time.monotonic()
        if not self._console.is_terminal and now - self._last > LINE_SECONDS:
            self._last = now
            self.say(self._line())

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, soft_wrap=True)

    def _line(self) -> str:
        shares = ", ".join(f"{node} {done:,}" for node, done in self._done.items())
        seconds = time.monotonic() - self._started
        return f"{self._what}: {sum(self._done.values()):,} of {self._total:,} after {seconds:.0f} s ({shares})"
