"""Progress of slow work: a bar on a terminal, log lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 2.0  # seconds before progress is shown
INTERVAL = 15.0  # seconds between two log lines
_REFRESH = 0.2  # seconds between two looks at the stage of the work

_stages: list[str] = []  # the last word of ``report_stage``; work in several threads takes turns

Done = Callable[..., None]  # to be called after each piece of work, or with the number of finished pieces


def report_stage(words: str) -> None:
    """Say what is being done now, in all progress that is shown, for example "attic: textures"; any thread may call it.

    A progress shows the last stage that was reported since it began or a piece of its work was done.
    """
    _stages[:] = [words]


def late_progress(what: str, total: int) -> AbstractContextManager[Done]:
    """Show the progress of work on standard error once it has taken two seconds.

    On a terminal, and in a notebook with ipywidgets, progress is a bar, which disappears when the work is done;
    elsewhere it is a line such as ``Loading scenes: 12 of 16 after 32 s (attic: textures)``, and another every fifteen
    seconds. The words in brackets are those of ``report_stage``. The context yields a function to call after each of
    the ``total`` pieces of work, from any thread.
    """
    from rich.console import Console  # imported late, so that importing the package stays fast

    console = Console(stderr=True)
    # Without ipywidgets, rich warns in notebooks and its bar does not disappear.
    watched = find_spec("ipywidgets") is not None if console.is_jupyter else console.is_terminal
    return _bar(what, total, console) if watched else _lines(what, total)


@contextmanager
def share_progress(what: str) -> Iterator[Callable[..., None]]:
    """Show a bar on standard error at once, for work with a known fraction done; only on a terminal.

    Yields:
        A function to call with the fraction done, from 0 to 1, and optionally a new description.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)

        def show(share: float, words: str = what) -> None:
            bar.update(task, completed=share, description=words)

        yield show


@contextmanager
def _bar(what: str, total: int, console: Console) -> Iterator[Done]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(what, total=total)
    _stages.clear()
    ended = threading.Event()

    def follow_stages() -> None:
        if not ended.wait(PATIENCE):
            bar.start()
        while not ended.wait(_REFRESH):
            bar.update(task, description=what + _stage_in_brackets())

    def advance(pieces: int = 1) -> None:
        _stages.clear()
        bar.advance(task, pieces)

    follower = threading.Thread(target=follow_stages, name="progress", daemon=True)
    follower.start()
    try:
        yield advance
    finally:
        ended.set()
        follower.join()
        if bar.live.is_started:
            bar.stop()


@contextmanager
def _lines(what: str, total: int) -> Iterator[Done]:
    done: list[int] = []  # appending to a list is thread-safe, adding to a number is not
    started = time.monotonic()
    _stages.clear()
    ended = threading.Event()

    def report() -> None:
        pause = PATIENCE
        while not ended.wait(pause):
            seconds = time.monotonic() - started
            share = f"{sum(done):,} of {total:,} after {seconds:.0f} s{_stage_in_brackets()}"
            print(f"{what}: {share}", file=sys.stderr, flush=True)
            pause = INTERVAL

    def advance(pieces: int = 1) -> None:
        _stages.clear()
        done.append(pieces)

    reporter = threading.Thread(target=report, name="progress", daemon=True)
    reporter.start()
    try:
        yield advance
    finally:
        ended.set()
        reporter.join()


def _stage_in_brackets() -> str:
    """Return the last stage that was reported, in brackets after a space; "" if there is none."""
    return "".join(f" ({words})" for words in _stages[:1])
