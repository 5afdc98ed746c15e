"""Ctrl+C and the signals of schedulers, where a command does not just end with an error."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130  # exit status
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))


class Interruption:
    """Context manager in which the first signal sets a flag and the second ends the process at once.

    The signals are SIGINT, SIGTERM and, where it exists, SIGUSR1, which schedulers send before a time limit.
    """

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interruption:
        self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            os._exit(INTERRUPTED)  # does not wait for the threads that load and write
        self.requested = True
        # Written to the descriptor, because the console may be in the middle of a line.
        os.write(2, b"\nFinishing this iteration and saving; interrupt again to exit at once\n")


class RememberedInterrupt:
    """Context manager in which Ctrl+C raises KeyboardInterrupt as usual, and is remembered.

    A command that waits until it is interrupted needs the memory: where Python runs a destructor when the signal
    arrives, such as one of the compiler that makes kernels, KeyboardInterrupt is printed and lost.

    A process that ignores Ctrl+C, as programs in the background of a shell do, continues to ignore it.
    """

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> RememberedInterrupt:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        raise KeyboardInterrupt
