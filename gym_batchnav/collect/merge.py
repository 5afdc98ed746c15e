"""Checking and merging datasets that collect wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gym_batchnav.collect.dataset import (
    COLLECTION,
    SHARDS,
    DatasetInfo,
    Format,
    ShardRecord,
    all_shards,
    differences,
    write_info,
)
from gym_batchnav.collect.folder import (
    check_files,
    check_together,
    copy_shard,
    finished_shards,
    is_finished,
    locked,
    prepare_folder,
    remove_aside,
)
from gym_batchnav.collect.reading import open_dataset


@dataclass(frozen=True, slots=True)
class Checked:
    """A dataset that has been checked."""

    info: DatasetInfo
    shards: tuple[ShardRecord, ...]  # in order
    missing: tuple[str, ...]  # names of the shards that are not there


def check_dataset(folder: str | Path) -> Checked:
    """Read every file of a dataset, which may come from strangers; ValueError, with its name, if one does not fit."""
    root = Path(folder)
    info, style, records = open_dataset(root)
    for record in records:
        check_files(root, record)
        _read(root, info, style, record)
    return Checked(info, tuple(records), _missing(root, info))


def merge_datasets(out: str | Path, folders: Sequence[str | Path]) -> Checked:
    """Check datasets of the same settings and make one of all their shards; a shard that several have is taken once.

    Files are linked where the file system allows, so that they take no more space.

    Args:
        out: Folder of the new dataset, or of one to which the others are added.
        folders: The datasets, at least one.

    Raises:
        ValueError: They do not fit together, or one is damaged; nothing is written then.
    """
    if isinstance(folders, (str, Path)) or not folders:
        raise ValueError(f"folders={folders!r}: pass a list with at least one dataset")
    root = Path(out)
    given = [Path(folder) for folder in folders]
    if any(folder.resolve() == root.resolve() for folder in given):
        raise ValueError(f"out='{root}' is one of the datasets to merge: name another folder")
    everything = [*given, root] if (root / COLLECTION).exists() else given
    parts = [(folder, *open_dataset(folder)) for folder in everything]
    info, style = parts[0][1:3]
    by_name: dict[str, tuple[Path, ShardRecord]] = {}
    for folder, other, *_ in parts:
        if other.key != info.key:
            text = "; ".join(differences(other, info)) or "the versions of the collection"
            raise ValueError(f"'{folder}' has other settings than '{parts[0][0]}': {text}: merge them separately")
    counts = sorted({part[1].episodes_per_scene for part in parts})
    if any(count % info.episodes_per_shard for count in counts[:-1]):
        raise ValueError(
            f"the datasets have {', '.join(map(str, counts))} episodes per scene, and only the largest number need not "
            f"fill shards of {info.episodes_per_shard}: merge them separately"
        )
    for folder, _, _, records in parts:
        for record in records:
            check_files(folder, record)
            if record.shard.name not in by_name:
                _read(folder, info, style, record)
                by_name[record.shard.name] = (folder, record)
            known = by_name[record.shard.name][1]
            if known.files != record.files or known.episodes != record.episodes:
                raise ValueError(f"shard {record.shard.name} differs between '{by_name[record.shard.name][0]}' and "
                                 f"'{folder}': remove one of its folders")  # fmt: skip
    check_together([record for _, record in by_name.values()])
    scenes = tuple(dict.fromkeys(scene for part in parts for scene in part[1].scenes))
    info = replace(info, scenes=scenes, episodes_per_scene=max(part[1].episodes_per_scene for part in parts))
    prepare_folder(root)
    with locked(root):
        write_info(root, info)
        for name, (folder, record) in by_name.items():
            if not is_finished(root, record.shard):
                copy_shard(folder, root, name)
        style.finish(root, info, finished_shards(root, info))
    remove_aside(root)
    return Checked(info, tuple(finished_shards(root, info)), _missing(root, info))


def _read(root: Path, info: DatasetInfo, style: Format, record: ShardRecord) -> None:
    """Read all episodes of a shard; ValueError if it does not hold what its record says."""
    for _ in style.read(root / SHARDS / record.shard.name, info, record):
        pass


def _missing(root: Path, info: DatasetInfo) -> tuple[str, ...]:
    return tuple(shard.name for shard in all_shards(info) if not is_finished(root, shard))
