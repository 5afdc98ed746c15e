"""The work of a collection: the list of its shards, and their names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from gym_batchnav.collect.api import DatasetInfo, Shard

_DIGITS = 12  # hexadecimal
_READABLE = 60  # characters of a scene's name


def all_shards(info: DatasetInfo) -> list[Shard]:
    """Return the shards of a dataset, by scene and first episode."""
    size = info.episodes_per_shard
    return [
        make_shard(info.key, scene, first, min(size, info.episodes_per_scene - first))
        for scene in info.scenes
        for first in range(0, info.episodes_per_scene, size)
    ]


def make_shard(key: str, scene: str, first: int, count: int) -> Shard:
    """Return the shard of some episodes.

    Its name begins with the scene's, as far as file systems allow, and the first episode, and ends with a checksum of
    everything on which its content depends: the key of the dataset, the scene's full name and the episodes.
    """
    text = json.dumps([key, scene, first, count])
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    readable = re.sub(r"[^A-Za-z0-9]+", "_", scene).strip("_").lower()[:_READABLE] or "scene"
    return Shard(f"{readable}-{first:06d}-{digest}", scene, first, count)


def in_groups(shards: Sequence[Shard], num_scenes: int) -> list[list[Shard]]:
    """Return shards in groups with at most ``num_scenes`` scenes each, in order."""
    scenes = list(dict.fromkeys(shard.scene for shard in shards))
    group = {scene: index // num_scenes for index, scene in enumerate(scenes)}
    groups: list[list[Shard]] = [[] for _ in range(-(-len(scenes) // num_scenes))]
    for shard in shards:
        groups[group[shard.scene]].append(shard)
    return groups
