"""Habitat's ObjectNav datasets: episodes, categories, objects and their view points as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

import numpy as np

from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.episodes.habitat import (
    Size,
    beginning_of,
    check_file_names,
    content_of,
    id_of,
    names_of,
    numbers_of,
    read_document,
    rows_of,
    scene_parts,
    text_of,
    write_dataset,
    yaw_of,
)
from gym_batchnav.episodes.objects import ObjectInstance

MAX_PAIRS = 2**29  # of an episode and a view point of its category, in one scene; each takes about 20 ns
_OTHER_NAMES = {"tv_monitor": "tv"}  # names of categories in generated homes, by those in Habitat's datasets
_IDS = ("category_to_task_category_id", "category_to_scene_annotation_category_id")


class _Set(NamedTuple):
    """The view points of all objects of a category in a scene."""

    points: np.ndarray  # [V, 3] float32, metres
    targets: np.ndarray  # [V, 3] float32, metres; centre of the object that each sees


class _Row(NamedTuple):
    """One episode."""

    name: str
    start: list[float]  # metres
    heading: float  # radians
    distance: float  # metres; NaN if the file does not state it
    category: str
    key: str  # of its view points


def read_object_episodes(
    path: str | Path, categories: Sequence[str] | None = None, scene: str | None = None
) -> dict[str, EpisodeSet]:
    """Read the episodes of a Habitat ObjectNav dataset.

    The file may hold several scenes. If it has no episodes, the files in the folder ``content/`` next to it are read.

    Args:
        path: A ``.json`` or ``.json.gz`` file.
        categories: The task's categories, which number those of the episodes; None for those of the episodes in order.
        scene: The only scene to read from ``content/``, as the stem of its file there; all by default. If it is
            given, a dataset without episodes is not an error.

    Returns:
        One EpisodeSet per scene, by the scene's name; see ``habitat.read_episodes``. Habitat's ``tv_monitor`` counts as
        ``tv`` if only that is one of the categories. Distances are those of the file, or NaN; the first view point of a
        category stands for the nearest one.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: If the file is not an ObjectNav dataset, is too large, has a category that is not one of
            ``categories``, holds no episode, or has episodes that share too many view points; the message names the
            row and the field.
    """
    path = Path(path)
    found: dict[tuple[str, ...], list[tuple[_Row, _Set]]] = {}
    size = _read_file(path, Size(0, 0), categories, found)
    if not found:
        for part in content_of(path, scene):
            size = _read_file(part, size, categories, found)
    if not found and scene is None:
        raise ValueError(
            f"{path}: neither this file nor a folder content/ next to it has episodes: download that folder, or pass "
            "another file"
        )
    categories = categories or list(dict.fromkeys(row.category for rows in found.values() for row, _ in rows))
    names = names_of(path, list(found))
    merged: dict[str, list[tuple[_Row, _Set]]] = {}
    for parts, rows in found.items():
        merged.setdefault(names[parts], []).extend(rows)
    for name, rows in merged.items():
        num_pairs = sum(len(one.points) for _, one in rows)
        if num_pairs > MAX_PAIRS:
            raise ValueError(
                f"{path}: the {len(rows):,} episodes in scene {name!r} have {num_pairs:,} view points to compare, the "
                f"limit is {MAX_PAIRS:,}: divide the episodes among several files, or leave view points out"
            )
    return {name: _episode_set(rows, categories) for name, rows in merged.items()}


def _read_file(
    path: Path, before: Size, categories: Sequence[str] | None, found: dict[tuple[str, ...], list[tuple[_Row, _Set]]]
) -> Size:
    """Add the episodes of one file to those found, by scene, and return the amount read."""
    document, size = read_document(path, before)
    goals = document.get("goals_by_category", {})
    if not isinstance(goals, dict):
        raise ValueError(f"{path}: goals_by_category is {beginning_of(goals)}: give an object of lists of goals")
    sets: dict[Any, _Set] = {}  # by scene and category, or by episode if it has its own
    for index, row in enumerate(document["episodes"]):
        try:
            one = _parse_row(row, index)
            parts = scene_parts(row)
            if categories is not None and one.category not in categories:
                one = one._replace(category=_OTHER_NAMES.get(one.category, one.category))
            own = row.get("goals")
            key = index if own else (parts, one.key)
            if key not in sets:
                field = "goals" if own else f"goals_by_category[{one.key!r}]"
                sets[key] = _parse_goals(own or goals.get(one.key), field)
        except (TypeError, KeyError, ValueError, OverflowError, AttributeError) as error:
            raise ValueError(f"{path}: episode {index} is malformed: {shorten(str(error), 200)}") from error
        if categories is not None and one.category not in categories:
            raise ValueError(f"{path}: episode {index}: {_other_category(document, one.category, categories)}")
        found.setdefault(parts, []).append((one, sets[key]))
    return size


def _other_category(document: Mapping[str, Any], category: str, categories: Sequence[str]) -> str:
    """Return the error of an episode whose category is not one of the task's."""
    listed = document.get(_IDS[0])
    in_rows = (row.get("object_category") for row in document["episodes"])
    named = [repr(name) for name in (*(listed if isinstance(listed, dict) else ()), *in_rows) if isinstance(name, str)]
    theirs = ", ".join(dict.fromkeys(named))
    return (
        f"object_category {category!r} is not one of the task's ({', '.join(categories)}): pass "
        f"task=ObjectNav(categories=...) with the categories of the file: {shorten(theirs, 400)}"
    )


def _parse_row(row: Mapping[str, Any], index: int) -> _Row:
    start = numbers_of("start_position", row.get("start_position"), 3)
    heading = yaw_of(numbers_of("start_rotation", row.get("start_rotation"), 4))
    category = row.get("object_category")
    if not isinstance(category, str):
        raise ValueError(f"object_category is {beginning_of(category)}: the file is not an ObjectNav dataset, pass one")
    info = row.get("info") or {}
    length = info.get("geodesic_distance") if isinstance(info, dict) else None
    distance = float("nan") if length is None else float(length)
    key = _key(text_of(row.get("scene_id") or ""), category)
    return _Row(id_of(row, index), start, heading, distance, category, key)


def _key(scene_id: str, category: str) -> str:
    """Return the key of ``goals_by_category`` for a category in a scene: the name of its file, and the category."""
    file = scene_id.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{file}_{category}"


def _parse_goals(goals: Any, field: str) -> _Set:
    """Parse the objects of one category in a scene, from a field of the file."""
    if not isinstance(goals, list) or not goals:
        raise ValueError(f"{field} is {beginning_of(goals)}: give a list of objects")
    points = []
    targets = []
    for goal in goals:
        center = numbers_of("position of a goal", goal.get("position"), 3)
        for view in goal.get("view_points") or ():
            points.append(numbers_of("position of a view point", view["agent_state"]["position"], 3))
            targets.append(center)
    if not points:
        raise ValueError(f"{field} has no view points: give some to its goals")
    return _Set(np.array(points, np.float32), np.array(targets, np.float32))


def _episode_set(rows: list[tuple[_Row, _Set]], categories: Sequence[str]) -> EpisodeSet:
    """Return the episodes of one scene as arrays."""
    sets: dict[int, _Set] = {id(one): one for _, one in rows}
    numbers = {identity: number for number, identity in enumerate(sets)}
    first_goal = np.cumsum([0, *(len(one.points) for one in sets.values())]).astype(np.int32)
    goal_set = np.array([numbers[id(one)] for _, one in rows], np.int32)
    return EpisodeSet(
        ids=tuple(row.name for row, _ in rows),
        start=np.array([row.start for row, _ in rows], np.float32),
        heading=np.array([row.heading for row, _ in rows], np.float32),
        goals=np.concatenate([one.points for one in sets.values()]),
        targets=np.concatenate([one.targets for one in sets.values()]),
        first_goal=first_goal,
        tour=goal_set[:, None],
        leg_distance=np.array([[row.distance] for row, _ in rows], np.float32),
        nearest_goal=first_goal[goal_set],
        view_index=first_goal[goal_set],
        category=np.array([categories.index(row.category) for row, _ in rows], np.int32),
        categories=tuple(categories),
    )


def write_object_episodes(
    by_scene: Mapping[str, tuple[EpisodeSet, Sequence[ObjectInstance]]], path: str | Path
) -> None:
    """Write ObjectNav episodes in Habitat's format, atomically.

    Args:
        by_scene: By ``scene_id``, episodes to any object of a category, and all objects of their categories.
        path: A file, ``.json`` or ``.json.gz``, or a folder; see ``write_dataset``.

    Raises:
        ValueError: If the path has another ending, two scenes have the same file name, or the folder has another
            dataset.
    """
    check_file_names(by_scene)
    names = tuple(dict.fromkeys(name for episodes, _ in by_scene.values() for name in episodes.categories))
    write_dataset(by_scene, lambda some: object_document(some, names), path)


def object_document(
    by_scene: Mapping[str, tuple[EpisodeSet, Sequence[ObjectInstance]]], categories: Sequence[str]
) -> dict[str, Any]:
    """Return the document of some scenes, whose categories are numbered in the given order."""
    ids = {name: number for number, name in enumerate(categories)}
    rows = []
    goals: dict[str, list[dict[str, Any]]] = {}
    for scene_id, (episodes, instances) in by_scene.items():
        straight = np.linalg.norm(episodes.goal - episodes.start, axis=1).tolist()
        for index, row in enumerate(rows_of(scene_id, episodes)):
            target = episodes.target[index]
            closest = min(instances, key=lambda one: float(np.abs(one.center - target).sum()))
            row["object_category"] = episodes.categories[episodes.category[index]]
            row["goals"] = []
            row["info"] |= {"euclidean_distance": straight[index], "closest_goal_object_id": closest.object_id}
            rows.append(row)
        for one in instances:
            goals.setdefault(_key(scene_id, one.category), []).append(_goal_of(one, ids[one.category]))
    return {"episodes": rows, **dict.fromkeys(_IDS, ids), "goals_by_category": goals}


def _goal_of(instance: ObjectInstance, category_id: int) -> dict[str, Any]:
    """Return an object as one of Habitat's goals; every view point looks towards its centre."""
    offset = instance.center - instance.points
    half = np.arctan2(-offset[:, 0], -offset[:, 2]).astype(np.float64) / 2
    views = zip(instance.points.tolist(), np.sin(half).tolist(), np.cos(half).tolist(), strict=True)
    return {
        "position": instance.center.tolist(),
        "radius": None,
        "object_id": instance.object_id,
        "object_name": instance.name,
        "object_name_id": category_id,
        "object_category": instance.category,
        "room_id": None,
        "room_name": None,
        "view_points": [
            {"agent_state": {"position": point, "rotation": [0.0, sin, 0.0, cos]}, "iou": coverage}
            for (point, sin, cos), coverage in zip(views, instance.coverage.tolist(), strict=True)
        ],
    }
