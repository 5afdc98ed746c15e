"""ProtocolCard: what a result must state to be repeated; and the keyword ``protocol``."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from gym_batchnav.env.cameras import AgentCameras
from gym_batchnav.env.settings import BatchSettings, autoreset_mode_of
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.episodes.samplers import floors_of
from gym_batchnav.geometry import Camera
from gym_batchnav.protocols import keywords_beside, protocol_of
from gym_batchnav.system.nested import class_of, described
from gym_batchnav.task.components import Components
from gym_batchnav.worlds.api import ALONE

_PACKAGES = ("gym-batchnav", "gymnasium", "numpy", "numba", "moderngl", "embreex", "trimesh")
_DIGITS = 16  # hexadecimal, of a checksum

Arguments = ParamSpec("Arguments")


def fills_in_protocol(initialize: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Decorate a constructor: the keyword ``protocol`` brings further keywords, unless they are passed themselves.

    The error of an unknown keyword names the one that it resembles.
    """
    known = tuple(signature(initialize).parameters)

    @wraps(initialize)
    def filled_in(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        for name in kwargs.keys() - set(known):
            close = get_close_matches(name, known, 1)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"BatchNavEnv got an unexpected keyword argument {name!r}{hint}")
        protocol = kwargs.get("protocol")
        if protocol is None:
            initialize(*args, **kwargs)
        else:
            initialize(*args, **keywords_beside(protocol_of(protocol), kwargs))  # type: ignore[arg-type]

    return filled_in


@dataclass(frozen=True)
class SceneCard:
    """One scene of a batch.

    Attributes:
        name: Its name.
        scene: Checksum of its triangles, materials and textures.
        navmesh: Checksum of its navmesh.
        episodes: Checksum of its episodes.
        num_episodes: Number of episodes.
    """

    name: str
    scene: str
    navmesh: str
    episodes: str
    num_episodes: int


@dataclass(frozen=True)
class ProtocolCard:
    """What a result must state to be repeated.

    Attributes:
        protocol: Name of the protocol, or ``""`` if none was named.
        source: The source of its values.
        notes: Differences from the source, and values that it leaves open.
        changed: Settings that differ from the protocol's, by name: the protocol's value and this batch's, as text.
        settings: The values of all settings on which results depend, by name, as JSON has them.
        scenes: The scenes that are resident now, with checksums.
        num_scenes: Number of scenes that were listed; those that are not resident are not loaded.
        episode_order: ``"random"`` or ``"once"``.
        geodesic: How distances are computed.
        renderer: The renderer and its device; ``""`` for blind agents.
        seeds: The seeds of the environments, as text: ``"0 to 63"``.
        versions: Versions of Python and packages.
        checksum: Checksum of all values above but ``versions`` and ``renderer``.
    """

    protocol: str
    source: str
    notes: str
    changed: dict[str, tuple[str, str]]
    settings: dict[str, Any]
    scenes: tuple[SceneCard, ...]
    num_scenes: int
    episode_order: str
    geodesic: str
    renderer: str
    seeds: str
    versions: dict[str, str]
    checksum: str = ""

    def to_json(self) -> str:
        """Return all values as a JSON object."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        """Return the card as text, one fact per line."""
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
    settings: BatchSettings,
    components: Components,
    simulator: Simulator,
    cameras: AgentCameras,
    max_episode_steps: int | None,
) -> ProtocolCard:
    """Return the card of a batch that truncates episodes after ``max_episode_steps`` actions; None if not known."""
    values = {**_values(settings, components), "max_episode_steps": max_episode_steps}
    changed = {}
    name = ""
    source = ""
    notes = ""
    if settings.protocol is not None:
        protocol = protocol_of(settings.protocol)
        name = protocol.name
        source = protocol.source
        notes = protocol.notes
        theirs = protocol.keywords()
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
        "protocol": name,
        "source": source,
        "notes": notes,
        "changed": changed,
        "settings": {key: _plain(value) for key, value in values.items()},
        "scenes": scenes,
        "num_scenes": len(library.names),
        "episode_order": simulator.schedule.order,
        "geodesic": settings.geodesic,
        "seeds": _ranges(tuple(simulator.episodes.seed.tolist())),
    }
    renderer = f"{cameras.renderer.name} ({cameras.renderer.device})" if cameras.rig.groups else ""
    checksum = _digest(facts)
    facts["settings"] = described(facts["settings"], _whole)
    return ProtocolCard(**facts, renderer=renderer, versions=_versions(), checksum=checksum)


def _values(settings: BatchSettings, components: Components) -> dict[str, Any]:
    """Return the values of all settings on which results depend, by name; first those that protocols have."""
    return {
        "task": components.task,
        "camera": Camera() if settings.camera is None else settings.camera,
        "sensors": tuple(settings.sensors),
        "semantic_ids": settings.semantic_ids,
        "sensor_noise": settings.sensor_noise or None,
        "actions": settings.action_kind,
        "actuation_noise": settings.noise,
        "sliding": settings.sliding,
        "navmesh_settings": settings.navmesh_settings,
        "geodesic": settings.geodesic,
        "sensor_timing": settings.sensor_timing or None,
        "measures": tuple(components.measures.values()),
        "num_envs": settings.num_envs,
        "autoreset_mode": autoreset_mode_of(settings.autoreset_mode).name.lower(),
        "num_episodes": settings.num_episodes,
        "floors": floors_of(components.task.sampler) if settings.floors is None else settings.floors,
        "episode_file": None if settings.episode_file is None else Path(settings.episode_file).name,
        "texture_size": settings.texture_size,
        "max_triangles": settings.max_triangles,
        "resident_scenes": settings.resident_scenes,
        "rotate_every": settings.rotate_every,
        "deterministic_rotation": settings.deterministic_rotation,
        # Left out where each agent is alone, whose checksums then stay as they were before there were worlds.
        **({} if settings.team == ALONE else {"agents_per_world": settings.team}),
        **({"bodies": tuple(settings.bodies)} if settings.bodies else {}),
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: dataclasses with their types, all numbers as floats, arrays as checksums."""
    return described(value, _plain_leaf)


def _plain_leaf(value: Any) -> Any:
    """Return a value that is not nested as ``_plain`` does."""
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
    """Return the versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _ranges(seeds: tuple[int, ...]) -> str:
    """Describe seeds: ``0 to 63`` where they follow each other."""
    if len(seeds) > 1 and all(later == seed + 1 for seed, later in pairwise(seeds)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _checksum(record: Any, without: tuple[str, ...] = ()) -> str:
    """Return a checksum of the fields of a dataclass."""
    return _digest({one.name: getattr(record, one.name) for one in fields(record) if one.name not in without})


def _digest(values: Mapping[str, Any]) -> str:
    """Return a checksum of values that ``_plain`` describes."""
    return hashlib.sha256(json.dumps(_plain(values)).encode()).hexdigest()[:_DIGITS]
