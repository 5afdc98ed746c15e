"""Episodes and their description, made of random numbers, and a small engine: shards are written, then finished."""

import hashlib
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

from gym_batchnav.collect.api import SHARDS, DatasetInfo, Episode, EpisodeRecord, Shard, ShardRecord

HEIGHT, WIDTH = 32, 40


def make_info(fmt, metres=False, **changes):
    highest = np.inf if metres else 1.0
    space = {
        "rgb": Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8),
        "depth": Box(0, highest, (HEIGHT, WIDTH, 1), np.float32),
        "rear/semantic": Box(0, 2**31 - 1, (HEIGHT, WIDTH, 1), np.int32),
        "normals": Box(-1, 1, (HEIGHT, WIDTH, 3), np.float32),
        "pointgoal_with_gps_compass": Box(-np.inf, np.inf, (2,), np.float32),
        "category": Discrete(21),
    }
    info = {
        "format": fmt.name,
        "format_options": fmt.options(),
        "observation_space": Dict(space),
        "action_space": Discrete(4),
        "images": {"rgb": "rgb", "depth": "depth", "rear/semantic": "semantic", "normals": "normals"},
        "depth_range": {"depth": None if metres else (0.0, 10.0)},
        "step_seconds": 0.1,
        "task": "PointNav",
        "policy": "random",
        "seed": 5,
        "episodes_per_scene": 5,
        "episodes_per_shard": 3,
        "scenes": ("attic", "cellar"),
        "env": {"sensors": ["rgb", "depth"]},
        "card": {"protocol": "", "checksum": "0123"},
        "key": "k" * 16,
    }
    return DatasetInfo(**{**info, **changes})


def make_episode(scene, number, num_steps, metres=False, continuous=False):
    """One episode; images are smooth, so that lossy video can be held to them."""
    rng = np.random.default_rng([len(scene), number])
    frames = num_steps + 1
    ramp = np.arange(frames)[:, None, None] + np.arange(HEIGHT)[:, None] + 2 * np.arange(WIDTH)
    rgb = np.stack([ramp % 200, (ramp + 40 * number) % 200, 255 - ramp % 200], -1).astype(np.uint8)
    ended = np.zeros(num_steps, bool)
    ended[-1:] = True
    cut = number % 2 == 1
    observations = {
        "rgb": rgb,
        "depth": (rng.random((frames, HEIGHT, WIDTH, 1)) * (12 if metres else 1)).astype(np.float32),
        "rear/semantic": rng.integers(0, 2**31, (frames, HEIGHT, WIDTH, 1)).astype(np.int32),
        "normals": rng.normal(size=(frames, HEIGHT, WIDTH, 3)).astype(np.float32),
        "pointgoal_with_gps_compass": rng.normal(size=(frames, 2)).astype(np.float32),
        "category": rng.integers(0, 21, frames),
    }
    actions = rng.normal(size=(num_steps, 2)).astype(np.float32) if continuous else rng.integers(0, 4, num_steps)
    return Episode(
        scene=scene,
        number=number,
        id=f"{scene}-{number}",
        observations=observations,
        actions=actions,
        rewards=rng.normal(size=num_steps),
        terminated=ended & (not cut),
        truncated=ended & cut,
        position=rng.normal(size=(frames, 3)).astype(np.float32),
        heading=rng.normal(size=frames).astype(np.float32),
        pitch=np.zeros(frames, np.float32),
        distance=rng.random(frames).astype(np.float32),
        goal=np.tile(np.array([3, 0, -4], np.float32), (frames, 1)),
        start_distance=5.5,
        category="chair" if number == 0 else "",
        measures={"success": bool(number % 2), "spl": 0.25 * number},
    )


LENGTHS = {("attic", 0): 7, ("attic", 1): 1, ("attic", 2): 12, ("attic", 3): 3, ("cellar", 0): 5, ("cellar", 1): 9}
SHARDED = [("attic", 0, 3), ("attic", 3, 1), ("cellar", 0, 2)]


def make_episodes(**kwargs):
    """All episodes by scene and number."""
    return {(scene, number): make_episode(scene, number, steps, **kwargs) for (scene, number), steps in LENGTHS.items()}


def write_shards(root, fmt, info, episodes, which=SHARDED):
    """Write shards below ``root``; return their records."""
    records = []
    for scene, first, count in which:
        shard = Shard(f"{info.scenes.index(scene):03d}-{first:03d}-abc", scene, first, count)
        folder = Path(root) / SHARDS / shard.name
        folder.mkdir(parents=True)
        writer = fmt.open_shard(folder, info, shard)
        chosen = [episodes[scene, number] for number in range(first, first + count)]
        for one in chosen:
            writer.add(one)
        writer.close()
        writer.abandon()
        records.append(ShardRecord(shard, info.key, tuple(map(record_of, chosen))))
    return records


def record_of(one):
    total = float(one.rewards.sum())
    return EpisodeRecord(one.number, one.id, one.num_steps, total, one.start_distance, one.category, one.measures)


def write_dataset(root, fmt, info, episodes, which=SHARDED):
    """Write and finish a dataset; return the records of its shards."""
    fmt.check(info)
    records = write_shards(root, fmt, info, episodes, which)
    fmt.finish(Path(root), info, records)
    return records


def in_order(episodes, which=SHARDED):
    """The episodes of a dataset, in order."""
    return [episodes[scene, number] for scene, first, count in which for number in range(first, first + count)]


def checksums(folder):
    """The SHA-256 of every file below a folder, by path."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
