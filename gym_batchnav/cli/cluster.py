"""The options that all commands share which run on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

RayAddress = Annotated[
    str | None,
    typer.Option(
        help="Run on a Ray cluster: auto (the one of this machine), HOST:PORT of its head, or local (this machine "
        "alone; extra \\[ray]).",
        metavar="ADDRESS",
    ),
]

RayCpus = Annotated[
    int | None,
    typer.Option(help="Processors that each worker of --ray takes (default: all of its node, divided by GPUs).", min=1),
]


def check_one_division(shard: str | None, ray: str | None, ray_cpus: int | None = None) -> None:
    """Raise ValueError if work is to be divided both into shards and over a cluster, or processors have no cluster."""
    if ray is None and ray_cpus is not None:
        raise ValueError(f"ray_cpus={ray_cpus} without ray=: it says how much of a cluster's node a worker takes")
    if shard is not None and ray is not None:
        raise ValueError(f"shard={shard} with ray={ray}: a cluster divides the work itself: pass one of them")
