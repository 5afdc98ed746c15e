"""The shipped apartments' tables, made ahead of time, so that a run in them compiles no kernel that prepares scenes.

The file ``assets/apartment_*.tables`` is a compressed entry of the disk cache. Large arrays that NumPy derives quickly
are left out: the shortest paths between corners, and from goals to corners. An entry that was made for another navmesh,
geometry, agent or episodes is not used. ``python -m gym_batchnav.library.shipped`` makes the files.
"""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from gym_batchnav.episodes.episode_set import EPISODE_ARRAYS, EpisodeSet, check_episode_arrays
from gym_batchnav.episodes.fitting import fit_episodes
from gym_batchnav.episodes.habitat import read_episodes
from gym_batchnav.library.cache import compose_entry, parse_entry
from gym_batchnav.library.sources import assets_dir, scene_sources, shipped_scenes
from gym_batchnav.navmesh.kernels.layout import Cells, Corners, Drops, Goals
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.navmesh.record import NAVMESH_ARRAYS
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.simplify import digest_of_geometry

_FORMAT = 2
_SUFFIX = ".tables"


@dataclass(frozen=True, slots=True, eq=False)
class ShippedTables:
    """All that preparation computes for a shipped apartment, for Habitat's default agent and its own episodes."""

    corners: Corners
    cells: Cells
    goals: Goals
    drops: Drops
    episodes: EpisodeSet
    start_polygon: np.ndarray  # [E] int32, polygon under the start of every episode


def shipped_tables(scene: Scene, navmesh: NavMesh) -> ShippedTables | None:
    """Return the shipped tables of a scene, or None if there are none for this scene and navmesh."""
    path = Path(str(scene.metadata.get("path", "")))
    if path.parent.absolute() != assets_dir().absolute():
        return None
    try:
        arrays = parse_entry(np.frombuffer(lzma.decompress(path.with_suffix(_SUFFIX).read_bytes()), np.uint8))
        return _tables(arrays, navmesh) if str(arrays["key"]) == _key(scene, navmesh, path) else None
    except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError, TypeError, IndexError):
        return None  # like a damaged entry of the cache, it is computed again


def _key(scene: Scene, navmesh: NavMesh, path: Path) -> str:
    """Return the SHA-256 of all that determines the tables, other than the code."""
    key = hashlib.sha256(f"{_FORMAT} {navmesh.settings!r} {digest_of_geometry(scene)} ".encode())
    for name in NAVMESH_ARRAYS:
        key.update(getattr(navmesh.data, name).tobytes())
    key.update(path.with_suffix(".json.gz").read_bytes())
    return key.hexdigest()


def _tables(arrays: Mapping[str, np.ndarray], navmesh: NavMesh) -> ShippedTables:
    """Return the tables of an entry; ValueError, KeyError, TypeError or IndexError if they do not fit the navmesh."""
    stored = {name: arrays[f"corners.{name}"] for name in Corners._fields if name != "between"}
    between = _between(stored["point"], stored["edge_start"], stored["edges"])
    corners = Corners(**stored, between=between)
    cells = Cells(*(arrays[f"cells.{name}"] for name in Cells._fields))
    drops = Drops(*(arrays[f"drops.{name}"] for name in Drops._fields))
    num_goals = len(arrays["goals.point"])
    goals = Goals(
        arrays["goals.point"],
        arrays["goals.polygon"],
        arrays["goals.aim"],
        np.arange(num_goals + 1, dtype=np.int32),
        _field(arrays["goals.point"], arrays["goals.look_start"], arrays["goals.looks"], stored["point"], between),
        np.unpackbits(arrays["goals.seen"], axis=1, count=navmesh.num_polygons).astype(bool),
        arrays["goals.look_start"],
        arrays["goals.looks"],
    )
    episode_arrays = {name: arrays[f"episodes.{name}"] for name in EPISODE_ARRAYS}
    check_episode_arrays(episode_arrays)
    episodes = EpisodeSet(ids=tuple(arrays["ids"].tolist()), **episode_arrays, categories=())
    start_polygon = arrays["start_polygon"]
    if not (
        len(episodes.ids) == len(episodes) == len(start_polygon)
        and len(episodes.goals) == num_goals
        and start_polygon.dtype == np.int32
        and start_polygon.min() >= 0
        and start_polygon.max() < navmesh.num_polygons
    ):
        raise ValueError("the episodes do not match the navmesh")
    return ShippedTables(corners, cells, goals, drops, episodes, start_polygon)


def _between(points: np.ndarray, edge_start: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the lengths of the shortest paths between all corners [C, C] float32, by the Floyd-Warshall algorithm."""
    count = len(points)
    start = np.repeat(np.arange(count), np.diff(edge_start))
    length = np.full((count, count), np.inf)
    length[start, edges] = np.sqrt(((points[start] - points[edges]) ** 2).sum(axis=1))
    np.fill_diagonal(length, 0.0)
    for corner in range(count):
        np.minimum(length, length[:, corner, None] + length[corner], out=length)
    rounded = length.astype(np.float32)
    return np.minimum(rounded, rounded.T)


def _field(
    goals: np.ndarray, look_start: np.ndarray, looks: np.ndarray, points: np.ndarray, between: np.ndarray
) -> np.ndarray:
    """Return the distances [G, C] float32 of all corners from goals, each of which sees the corners ``looks``."""
    field = np.full((len(goals), len(points)), np.inf, np.float32)
    for goal, (begin, end) in enumerate(pairwise(look_start)):
        seen = looks[begin:end]
        straight = np.sqrt(((points[seen] - goals[goal].astype(np.float64)) ** 2).sum(axis=1))
        field[goal] = (straight[:, None] + between[seen]).min(axis=0, initial=np.inf)
    return field


def make_shipped_tables(path: Path) -> bytes:
    """Compute the tables of a shipped apartment and return the content of their file."""
    (source,) = scene_sources(path.stem)
    scene = source.load()
    assert scene.navmesh is not None
    navmesh = NavMesh(scene.navmesh.data)  # which has no shipped tables
    file = path.with_suffix(".json.gz")
    (listed,) = read_episodes(file).values()
    episodes = fit_episodes(listed, navmesh, str(file))
    tables = navmesh.tables(episodes.goals, navmesh.drops(scene.vertices, scene.triangles))
    _, start_polygon = navmesh.snap_with_polygon(episodes.start)
    goals = tables.goals
    arrays = {
        "key": np.array(_key(scene, navmesh, path)),
        **{f"corners.{name}": array for name, array in tables.corners._asdict().items() if name != "between"},
        **{f"cells.{name}": array for name, array in tables.cells._asdict().items()},
        **{f"drops.{name}": array for name, array in tables.drops._asdict().items()},
        **{f"goals.{name}": getattr(goals, name) for name in ("point", "polygon", "aim", "look_start", "looks")},
        "goals.seen": np.packbits(goals.seen, axis=1),
        **{f"episodes.{name}": array for name, array in episodes.arrays().items()},
        "ids": np.array(episodes.ids),
        "start_polygon": start_polygon,
    }
    return lzma.compress(b"".join(compose_entry(arrays)), preset=9 | lzma.PRESET_EXTREME)


if __name__ == "__main__":
    for scene_path in shipped_scenes().values():
        content = make_shipped_tables(scene_path)
        scene_path.with_suffix(_SUFFIX).write_bytes(content)
        print(f"{scene_path.with_suffix(_SUFFIX)}: {len(content):,} bytes")
