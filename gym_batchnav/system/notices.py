"""Warnings that refer to the line of the user's program that caused them."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_THREADS = ("threading", "concurrent.futures.thread")  # modules in which the stack of a thread ends


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that refers to the innermost line outside this package; in its own threads, to the caller."""
    caller = frame = sys._getframe(1)
    level = 2
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    if frame.f_globals.get("__name__") in _THREADS:
        warnings.warn_explicit(message, category, caller.f_code.co_filename, caller.f_lineno)
    else:
        warnings.warn(message, category, stacklevel=level)
