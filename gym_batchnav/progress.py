"""A progress bar for work that may take long, for people who watch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds


@contextmanager
def late_progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on the terminal or in the notebook if the work takes longer than two seconds.

    Args:
        what: What is being done, in a few words.
        total: Pieces of work.

    Yields:
        To be called after each piece.
    """
    from rich.console import Console  # late: importing the package stays quick
    from rich.progress import Progress

    console = Console(stderr=True)
    bar = Progress(console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter))
    task = bar.add_task(what, total=total)
    patience = threading.Timer(PATIENCE, bar.start)
    patience.daemon = True
    patience.start()
    try:
        yield lambda: bar.advance(task)
    finally:
        patience.cancel()
        patience.join()
        if bar.live.is_started:
            bar.stop()
