"""The style choices of an apartment, and prototypes with their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gym_batchnav.homes.build import Builder
from gym_batchnav.homes.layout import Prototype


def prototype(build: Callable[..., None], **options: Any) -> Prototype:
    """Return the prototype of a furniture function with its options, which together are its key."""
    key = build.__name__ + "".join(f":{name}={value}" for name, value in options.items())

    def make(b: Builder) -> None:
        build(b, **options)

    return Prototype(key, make)


class Style:
    """The choices one apartment makes once: which chair, which lamp, which arms.

    Args:
        rng: Random stream.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        def pick(*options: str) -> str:
            return options[int(rng.integers(len(options)))]

        self.chair = pick("slats", "padded", "shell")
        self.table = pick("oblong", "oblong", "round")
        self.coffee = pick("oblong", "round")
        self.arms = pick("block", "slim")
        self.lamp = pick("pendant", "disc")
        self.open_shelf = bool(rng.random() < 0.4)
