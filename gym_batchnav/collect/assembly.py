"""A dataset is put together aside and moved into place, so that no kill leaves one that looks complete and is not."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gym_batchnav.collect.api import DatasetInfo, ShardRecord
from gym_batchnav.collect.info import to_json
from gym_batchnav.system.storage import replace_path


@contextmanager
def assembled(root: Path, folders: Sequence[str]) -> Iterator[Path]:
    """Yield an empty folder aside, whose folders then replace those of the same names in ``root``.

    Readers find nothing while folders are replaced: the last one, without which there is no dataset, goes first and
    comes last. After a kill the next call makes all of it again.

    Args:
        root: Folder of the dataset.
        folders: Names of the folders; all must be made.
    """
    aside = root / f".{folders[-1]}.aside"
    _remove(aside)
    aside.mkdir(parents=True)
    try:
        yield aside
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    for name in reversed(folders):
        if (root / name).exists():
            replace_path(root / name, aside / f"{name}.before")
    for name in folders:
        replace_path(aside / name, root / name)
    _remove(aside)


def provenance(info: DatasetInfo, shards: Sequence[ShardRecord]) -> dict[str, Any]:
    """Return what a reader needs to collect the same again, and to check that it is the same, as JSON has it."""
    values = {**to_json(info), "scene_cards": {record.shard.scene: dict(record.scene_card) for record in shards}}
    return json.loads(json.dumps(values, sort_keys=True))  # keys are sorted where the info was read from a file


def _remove(folder: Path) -> None:
    """Delete a folder if it exists."""
    if folder.exists():
        shutil.rmtree(folder)
