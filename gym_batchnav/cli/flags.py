"""Options and checks that several commands share, and the imports for training."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from gym_batchnav.system.extras import needs_extra

RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Run on a Ray cluster: auto (the one of this machine), HOST:PORT of its head, or local (this machine "
        "alone). Needs the extra \\[ray].",
        metavar="ADDRESS",
    ),
]


def check_one_division(shard: str | None, ray: str | None) -> None:
    """Raise ValueError if work is to be divided both into shards and over a cluster."""
    if shard is not None and ray is not None:
        raise ValueError(f"shard={shard} with ray={ray}: a cluster divides the work itself: pass one of them")


def refuse_options(context: typer.Context, allowed: Sequence[str], why: str) -> None:
    """Raise ValueError if other options than those named in ``allowed`` were given, which would have no effect."""
    given = [
        one.opts[0]
        for one in context.command.params
        if one.name not in allowed and (source := context.get_parameter_source(one.name or "")) is not None
        if source.name == "COMMANDLINE"
    ]
    if given:
        raise ValueError(f"{', '.join(given)} has no effect {why}: leave it out")


def listed(text: str) -> tuple[str, ...]:
    """Return the names in a list that commas separate."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


@contextmanager
def train_extra() -> Iterator[None]:
    """Wrap the imports of ``gym_batchnav.train``.

    OpenMP reads its settings when torch or Numba loads it. By default its threads spin while they wait, which made
    training with two threads up to twenty times slower when another process occupied a core.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with needs_extra("train", "this command"):
        yield
