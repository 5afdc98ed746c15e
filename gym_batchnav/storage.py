"""Writing files so that nothing partial is ever left on disk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file aside and rename it: it appears whole or not at all, also to other processes.

    Raises:
        FileNotFoundError: there is no such folder to write in.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(path.parent)!r} to write {path.name!r} in: make it first")
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        aside.write_bytes(data)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
