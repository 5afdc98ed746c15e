"""Loggers, which get the lines of a learning curve in addition to its file."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from gym_batchnav.system.extras import MissingExtraError, install_command, needs_extra
from gym_batchnav.system.numbers import check_choice
from gym_batchnav.system.storage import write_atomically

TENSORBOARD = "tensorboard"
WANDB = "wandb"
JSONL = "jsonl"
LOGGERS = (TENSORBOARD, WANDB, JSONL)
_EXTRAS = {TENSORBOARD: "train", WANDB: "wandb"}  # by the module of a logger


class TensorBoardLogger:
    """Writes event files for TensorBoard into a folder; lines after ``frames`` of an earlier process are hidden."""

    def __init__(self, folder: Path, frames: int) -> None:
        with needs_extra("train", "logger 'tensorboard'"):
            from torch.utils.tensorboard import SummaryWriter
        self._writer = SummaryWriter(str(folder), purge_step=frames + 1)

    def log(self, numbers: Mapping[str, float], frames: int) -> None:
        """Write numbers by name."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, frames)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class WandbLogger:
    """Sends numbers to Weights & Biases, by its own settings (``WANDB_PROJECT``, ``WANDB_MODE=offline``, ...).

    A resumed run continues the same run there, which has the name of its folder.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        with needs_extra("wandb", "logger 'wandb'"):
            import wandb
        name = folder.resolve().name
        self._run = wandb.init(dir=folder, name=name, config=dict(settings), resume="allow", id=_identity(folder))

    def log(self, numbers: Mapping[str, float], frames: int) -> None:
        """Send numbers by name."""
        self._run.log({**numbers, "frames": frames}, step=frames)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()


Logger: TypeAlias = TensorBoardLogger | WandbLogger


def check_loggers(names: Sequence[str]) -> None:
    """Raise ValueError for a logger that is unknown, and MissingExtraError for one that is not installed."""
    for name in names:
        check_choice("logger", name, LOGGERS)
        if name in _EXTRAS and find_spec(name) is None:
            raise MissingExtraError(
                f"logger={name!r} needs the extra [{_EXTRAS[name]}]: {install_command(_EXTRAS[name])}"
            )


def make_loggers(names: Sequence[str] | None, out: Path, settings: Mapping[str, Any], frames: int) -> list[Logger]:
    """Make the loggers, some of ``LOGGERS`` or TensorBoard if it is installed, of a run that resumes after ``frames``.

    Every run writes its curve as JSON lines; ``"jsonl"`` alone writes nothing else.

    Raises:
        MissingExtraError: The package of a logger is not installed.
    """
    if names is None:
        names = (TENSORBOARD,) if find_spec("tensorboard") is not None else ()
    loggers: list[Logger] = []
    with ExitStack() as undo:
        if TENSORBOARD in names:
            loggers.append(TensorBoardLogger(out / "tensorboard", frames))
            undo.callback(loggers[0].close)
        if WANDB in names:
            loggers.append(WandbLogger(out, settings))
        undo.pop_all()
    return loggers


def _identity(folder: Path) -> str:
    """Return the id of a run at Weights & Biases, which its folder keeps."""
    file = folder / "wandb_id"
    if not file.is_file():
        write_atomically(file, secrets.token_hex(8).encode())
    return file.read_text(encoding="utf-8")
