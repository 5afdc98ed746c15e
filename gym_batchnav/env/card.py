"""ProtocolCard: everything needed to reproduce a result."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.env.cameras import AgentCameras
from gym_batchnav.env.config import EnvConfig, autoreset_mode_of
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.episodes.samplers import floors_of
from gym_batchnav.geometry import Camera
from gym_batchnav.protocols import protocol_of
from gym_batchnav.system.extras import installed_version
from gym_batchnav.system.nested import class_of, described
from gym_batchnav.worlds.api import ALONE

_PACKAGES = ("gym-batchnav", "gymnasium", "numpy", "numba", "moderngl", "embreex", "trimesh")
_OF_SCENES = ("texture_size", "max_triangles", "resident", "rotate_every", "deterministic_rotation")
_DIGITS = 16  # hexadecimal, of a checksum


@dataclass(frozen=True)
class SceneCard:
    """One scene of a batch, with checksums."""

    name: str
    scene: str  # of its triangles, materials and textures
    navmesh: str
    episodes: str
    num_episodes: int


@dataclass(frozen=True)
class ProtocolCard:
    """Everything needed to reproduce a result."""

    protocol: str  # name, or "" if none was named
    source: str  # of its values
    notes: str  # differences from the source, and values that it leaves open
    changed: dict[str, tuple[str, str]]  # the protocol's value and this batch's, as strings, where they differ
    settings: dict[str, Any]  # the values of all settings on which results depend, by name, as JSON has them
    scenes: tuple[SceneCard, ...]  # that are resident now
    num_scenes: int  # that were listed; those that are not resident are not loaded
    episode_order: str  # "random" or "once"
    geodesic: str  # how distances are computed
    renderer: str  # and its device; "" for blind agents
    seeds: str  # of the environments, such as "0 to 63"
    versions: dict[str, str]  # of Python and packages
    checksum: str = ""  # of all values above but ``versions`` and ``renderer``

    def to_json(self) -> str:
        """Return all values as a JSON object."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        named = f"{self.protocol} ({self.source})" if self.protocol else "none"
        lines = [f"protocol   {named}"]
        lines += [f"  note     {self.notes}"] if self.notes else []
        for name, (theirs, ours) in self.changed.items():
            lines += [f"  changed  {name}: {ours}", f"           instead of {theirs}"]
        lines += ["settings", *(f"  {name}: {json.dumps(value)}" for name, value in self.settings.items())]
        lines.append(f"scenes     {len(self.scenes)} resident of {self.num_scenes}")
        for one in self.scenes:
            lines.append(
                f"  {one.name}: scene {one.scene}, navmesh {one.navmesh}, {one.num_episodes:,} episodes {one.episodes}"
            )
        lines += [
            f"order      {self.episode_order}",
            f"distances  {self.geodesic}",
            f"renderer   {self.renderer or 'none'}",
            f"seeds      {self.seeds}",
            f"versions   {', '.join(f'{name} {number}' for name, number in self.versions.items())}",
            f"checksum   {self.checksum}",
        ]
        return "\n".join(lines)


def make_card(
    config: EnvConfig, simulator: Simulator, cameras: AgentCameras, max_episode_steps: int | None
) -> ProtocolCard:
    """Return the card of a batch that truncates episodes after ``max_episode_steps`` actions; None if not known."""
    values = {**_values(config), "max_episode_steps": max_episode_steps}
    protocol = None if config.protocol is None else protocol_of(config.protocol)
    theirs = {} if protocol is None else protocol.keywords()
    changed = {
        key: (repr(theirs[key]), repr(values[key]))
        for key in theirs
        if _plain(theirs[key]) != _plain(values[key]) and (key, values[key]) != ("max_episode_steps", None)
    }
    library = simulator.library
    scenes = tuple(
        SceneCard(
            name=library.name(slot),
            scene=_checksum(library.scene(slot), without=("name", "navmesh", "warnings", "metadata", "unsimplified")),
            navmesh=_checksum(simulator.navmesh(slot).data),
            # Lengths are left out, since they depend on ``geodesic``.
            episodes=_checksum(simulator.episode_set(slot), without=("leg_distance",)),
            num_episodes=len(simulator.episode_set(slot)),
        )
        for slot in library.active.tolist()
    )
    facts: dict[str, Any] = {
        "protocol": "" if protocol is None else protocol.name,
        "source": "" if protocol is None else protocol.source,
        "notes": "" if protocol is None else protocol.notes,
        "changed": changed,
        "settings": {key: _plain(value) for key, value in values.items()},
        "scenes": scenes,
        "num_scenes": len(library.names),
        "episode_order": simulator.schedule.order,
        "geodesic": config.geodesic,
        "seeds": _ranges(tuple(simulator.episodes.seed.tolist())),
    }
    renderer = f"{cameras.renderer.name} ({cameras.renderer.device})" if cameras.rig.groups else ""
    checksum = _digest(facts)
    facts["settings"] = described(facts["settings"], _whole)
    return ProtocolCard(**facts, renderer=renderer, versions=_versions(), checksum=checksum)


def _values(config: EnvConfig) -> dict[str, Any]:
    """Return the values of all settings on which results depend, by name; first those that protocols have."""
    components = config.components
    episodes = config.episode_settings
    return {
        "task": components.task,
        "camera": Camera() if config.camera is None else config.camera,
        "sensors": tuple(config.sensors),
        "semantic_ids": config.semantic_ids,
        "sensor_noise": config.sensor_noise or None,
        "actions": config.action_kind,
        "actuation_noise": config.noise,
        "sliding": config.sliding,
        "navmesh_settings": config.navmesh_settings,
        "geodesic": config.geodesic,
        "sensor_timing": config.sensor_timing or None,
        "measures": tuple(components.measures.values()),
        "num_envs": config.num_envs,
        "autoreset_mode": autoreset_mode_of(config.autoreset_mode).name.lower(),
        "episodes": {
            "count": episodes.count,
            "floors": floors_of(components.task.sampler) if episodes.floors is None else episodes.floors,
            "file": None if episodes.file is None else Path(episodes.file).name,
        },
        "scenes": {name: getattr(config.scene_settings, name) for name in _OF_SCENES},
        # Only if there are others, so that the checksums of agents alone do not depend on these settings.
        **({} if config.team == ALONE else {"agents_per_world": config.team}),
        **({"bodies": tuple(config.bodies)} if config.bodies else {}),
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: dataclasses with their types, all numbers as floats, arrays as checksums."""
    return described(value, _plain_leaf)


def _plain_leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()
        return f"{value.dtype.str} {value.shape} {content[:_DIGITS]}"
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, float, np.number)):
        return float(value)  # 90 and 90.0 are the same field of view
    return value if value is None or isinstance(value, str) else class_of(value)


def _whole(value: Any) -> Any:
    """Return a whole number as an int, and other values unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _versions() -> dict[str, str]:
    installed = {name: number for name in _PACKAGES if (number := installed_version(name)) is not None}
    return {"python": platform.python_version(), **installed}


def _ranges(seeds: tuple[int, ...]) -> str:
    """Describe seeds: ``0 to 63`` where they follow each other."""
    if len(seeds) > 1 and all(later == seed + 1 for seed, later in pairwise(seeds)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _checksum(record: Any, without: tuple[str, ...] = ()) -> str:
    return _digest({one.name: getattr(record, one.name) for one in fields(record) if one.name not in without})


def _digest(values: Mapping[str, Any]) -> str:
    """Return a checksum of values that ``_plain`` describes."""
    return hashlib.sha256(json.dumps(_plain(values)).encode()).hexdigest()[:_DIGITS]
