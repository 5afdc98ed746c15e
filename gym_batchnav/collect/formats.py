"""The formats by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gym_batchnav.collect.api import Format
from gym_batchnav.collect.lerobot import LeRobot
from gym_batchnav.collect.minari import Minari
from gym_batchnav.collect.rrd import Rrd
from gym_batchnav.collect.webdataset import WebDataset
from gym_batchnav.collect.zarr_format import Zarr

FORMATS = ("zarr", "webdataset", "lerobot", "minari", "rrd")


def make_format(name: str, **options: Any) -> Format:
    """Return the format of a name.

    Args:
        name: One of ``FORMATS``.
        options: Options of the format; None stands for the default.

    Raises:
        ValueError: There is no such format, it has no such option, or an option has a wrong value.
    """
    given = {key: value for key, value in options.items() if value is not None}
    makers: dict[str, Any] = {
        "zarr": Zarr, "webdataset": WebDataset, "lerobot": LeRobot, "minari": Minari, "rrd": Rrd,
    }  # fmt: skip
    if name not in makers:
        raise ValueError(f"to={name!r}: choose one of {', '.join(makers)}")
    known = {one.name for one in fields(makers[name])}
    for key, value in given.items():
        if key not in known:
            raise ValueError(f"to={name!r} has no option {key}: leave out {key}={value!r}")
    return makers[name](**given)
