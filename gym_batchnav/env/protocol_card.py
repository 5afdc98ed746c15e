"""ProtocolCard: what a result must state to be repeated; and the keyword ``protocol``."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import wraps
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from typing import Any, ParamSpec

import numpy as np

from gym_batchnav.env.cameras import AgentCameras
from gym_batchnav.env.settings import BatchSettings
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.episodes.episode_set import EpisodeSet
from gym_batchnav.geometry import Camera
from gym_batchnav.protocols import protocol_of
from gym_batchnav.scene.scene import Scene
from gym_batchnav.task.components import Components

_PACKAGES = ("gym-batchnav", "gymnasium", "numpy", "numba", "moderngl", "embreex", "trimesh")
_DIGITS = 16  # hexadecimal, of a checksum

Arguments = ParamSpec("Arguments")


def fills_in_protocol(initialize: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Decorate a constructor: the keyword ``protocol`` brings further keywords, unless they are passed themselves."""

    @wraps(initialize)
    def filled_in(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        protocol = kwargs.get("protocol")
        if protocol is not None:
            kwargs.update({**protocol_of(protocol).keywords(), **kwargs})  # type: ignore[arg-type]
        initialize(*args, **kwargs)

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
        changed: Settings that differ from the protocol's, by name: the protocol's value and this batch's.
        settings: The batch's values of all settings that protocols have, by name.
        scenes: The scenes that are resident now, with checksums.
        num_scenes: Number of scenes that were listed; those that are not resident are not loaded.
        episode_order: ``"random"`` or ``"once"``.
        geodesic: How distances are computed.
        renderer: The renderer and its device; ``""`` for blind agents.
        seeds: The seed of every environment.
        versions: Versions of Python and packages.
        checksum: Checksum of all values above but ``versions`` and ``renderer``.
    """

    protocol: str
    source: str
    changed: dict[str, tuple[str, str]]
    settings: dict[str, str]
    scenes: tuple[SceneCard, ...]
    num_scenes: int
    episode_order: str
    geodesic: str
    renderer: str
    seeds: tuple[int, ...]
    versions: dict[str, str]
    checksum: str = ""

    def to_json(self) -> str:
        """Return all values as a JSON object."""
        return json.dumps(asdict(self), indent=1)

    def __str__(self) -> str:
        """Return the card as text, one fact per line."""
        named = f"{self.protocol} ({self.source})" if self.protocol else "none"
        lines = [f"protocol   {named}"]
        for name, (theirs, ours) in self.changed.items():
            lines += [f"  changed  {name}: {ours}", f"           instead of {theirs}"]
        if not self.protocol:
            lines += [f"  {name}: {value}" for name, value in self.settings.items()]
        lines.append(f"scenes     {len(self.scenes)} resident of {self.num_scenes}")
        for one in self.scenes:
            lines.append(
                f"  {one.name}: scene {one.scene}, navmesh {one.navmesh}, {one.num_episodes:,} episodes {one.episodes}"
            )
        lines += [
            f"order      {self.episode_order}",
            f"distances  {self.geodesic}",
            f"renderer   {self.renderer or 'none'}",
            f"seeds      {_ranges(self.seeds)}",
            f"versions   {', '.join(f'{name} {number}' for name, number in self.versions.items())}",
            f"checksum   {self.checksum}",
        ]
        return "\n".join(lines)


def make_card(
    settings: BatchSettings, components: Components, simulator: Simulator, cameras: AgentCameras
) -> ProtocolCard:
    """Return the card of a batch."""
    values = _values(settings, components)
    changed = {}
    name = ""
    source = ""
    if settings.protocol is not None:
        protocol = protocol_of(settings.protocol)
        name = protocol.name
        source = protocol.source
        theirs = protocol.keywords()
        changed = {key: (repr(theirs[key]), repr(values[key])) for key in values if theirs[key] != values[key]}
    library = simulator.library
    scenes = tuple(
        SceneCard(
            name=library.name(slot),
            scene=_scene_checksum(library.scene(slot)),
            navmesh=_checksum(simulator.navmesh(slot).data),
            episodes=_episodes_checksum(simulator.episode_set(slot)),
            num_episodes=len(simulator.episode_set(slot)),
        )
        for slot in library.active.tolist()
    )
    facts: dict[str, Any] = {
        "protocol": name,
        "source": source,
        "changed": changed,
        "settings": {key: repr(value) for key, value in values.items()},
        "scenes": scenes,
        "num_scenes": len(library.names),
        "episode_order": simulator.schedule.order,
        "geodesic": settings.geodesic,
        "seeds": tuple(simulator.episodes.seed.tolist()),
    }
    checksum = hashlib.sha256(repr(facts).encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    renderer = f"{cameras.renderer.name} ({cameras.renderer.device})" if cameras.rig.groups else ""
    return ProtocolCard(**facts, renderer=renderer, versions=_versions(), checksum=checksum)


def _values(settings: BatchSettings, components: Components) -> dict[str, Any]:
    """Return the values of the settings that protocols have, by name."""
    return {
        "task": components.task,
        "camera": Camera() if settings.camera is None else settings.camera,
        "sensors": tuple(settings.sensors),
        "sensor_noise": settings.sensor_noise,
        "actions": settings.action_kind,
        "actuation_noise": settings.noise,
        "sliding": settings.sliding,
        "max_episode_steps": settings.max_episode_steps,
        "navmesh_settings": settings.navmesh_settings,
    }


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


def _scene_checksum(scene: Scene) -> str:
    """Return a checksum of the geometry, materials and textures of a scene."""
    return _checksum(scene, without=("name", "navmesh", "warnings", "metadata"))


def _episodes_checksum(episodes: EpisodeSet) -> str:
    """Return a checksum of episodes."""
    return _checksum(episodes)


def _checksum(record: Any, without: tuple[str, ...] = ()) -> str:
    """Return a checksum of the fields of a dataclass: arrays, tuples and dataclasses of them, and plain values."""
    content = hashlib.sha256()
    _add(content, {one.name: getattr(record, one.name) for one in fields(record) if one.name not in without})
    return content.hexdigest()[:_DIGITS]


def _add(content: Any, value: Any) -> None:
    """Add a value to a hash: a mapping, tuple, dataclass, array or plain value."""
    if isinstance(value, np.ndarray):
        content.update(f"{value.dtype.str} {value.shape} ".encode())
        content.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            content.update(f"{key}=".encode())
            _add(content, item)
    elif isinstance(value, tuple):
        content.update(f"{len(value)} ".encode())
        for item in value:
            _add(content, item)
    elif hasattr(value, "__dataclass_fields__"):
        _add(content, {one.name: getattr(value, one.name) for one in fields(value)})
    else:
        content.update(f"{value!r} ".encode(errors="surrogatepass"))
