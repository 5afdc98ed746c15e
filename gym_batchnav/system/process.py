"""Which process may run parallel kernels and OpenGL.

Threads and OpenGL contexts do not survive a fork: a parallel kernel or an OpenGL call in a forked child hangs or kills
it without a word. That is a property of the whole process, hence the one module-level variable of this package.
"""

from __future__ import annotations

import os

_owner: int | None = None


def claim_process(what: str) -> None:
    """Note that this process runs parallel kernels or OpenGL; to be called before each of them.

    Raises:
        RuntimeError: a parent of this process did so before it forked.
    """
    global _owner
    current = os.getpid()
    if _owner is None:
        _owner = current
    elif _owner != current:
        raise RuntimeError(
            f"{what} in a forked process: its parent has run gym_batchnav before the fork, whose threads and OpenGL "
            'context are lost here. Start processes with context="spawn" '
            '(multiprocessing.get_context("spawn"), AsyncVectorEnv(..., context="spawn")).'
        )
