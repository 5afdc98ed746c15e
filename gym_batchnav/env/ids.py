"""The table of ids: ``BatchNav/<name>-v0`` is a task with defaults. Modules are imported when an id is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from gymnasium.vector import VectorEnv

Keywords = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EnvId:
    """The environments behind an id."""

    task: str  # module and class
    max_episode_steps: int = 500
    defaults: Callable[[Keywords], dict[str, Any]] = lambda given: {}  # those of the id; gets the user's keywords
    wrapper: str | None = None  # module and class of a wrapper that turns each observation into one array
    is_single: bool = True  # whether ``gymnasium.make`` can make an environment of one agent


def _of_dronenav(given: Keywords) -> dict[str, Any]:
    """Return the actions and a camera at the centre of the body."""
    from gym_batchnav.geometry import Camera

    return {"actions": "flight", "camera": Camera(eye_height=0.0)}


def _of_imagenav(given: Keywords) -> dict[str, Any]:
    """Return RGB, and a task whose goal pictures are taken with the agents' camera, if a single one is given."""
    from gym_batchnav.geometry import Camera
    from gym_batchnav.task.imagenav import ImageNav

    camera = given.get("camera")
    return {"sensors": ("rgb",)} | ({"task": ImageNav(camera)} if isinstance(camera, Camera) else {})


def _of_socialnav(given: Keywords) -> dict[str, Any]:
    from gym_batchnav.worlds.people import People

    return {"bodies": (People(4),)}


def _of_team(path: str) -> Callable[[Keywords], dict[str, Any]]:
    """Return the defaults of a task for a team, whose agents are those of ``agents_per_world`` if that is given."""

    def defaults(given: Keywords) -> dict[str, Any]:
        from gym_batchnav.protocols import protocol_of
        from gym_batchnav.worlds.api import Team

        protocol = given.get("protocol")
        task = given.get("task", None if protocol is None else protocol_of(protocol).task)
        if task is None and "agents_per_world" in given:
            return {"task": resolve_name(path)(num_agents=Team.of(given["agents_per_world"]).most)}
        return {"agents_per_world": getattr(task, "num_agents", 2)}

    return defaults


_POINTNAV = "gym_batchnav.task.pointnav:PointNav"
_DRONENAV = "gym_batchnav.flight.task:DroneNav"
_TAG = "gym_batchnav.task.meeting:Tag"
_RENDEZVOUS = "gym_batchnav.task.meeting:Rendezvous"
IDS: Mapping[str, EnvId] = {
    "PointNav": EnvId(_POINTNAV),
    "PointNavScan": EnvId(_POINTNAV, wrapper="gym_batchnav.env.flat:ScanObservation"),
    "PointNavImage": EnvId(_POINTNAV, wrapper="gym_batchnav.env.flat:ImageObservation"),
    "DroneNav": EnvId(_DRONENAV, defaults=_of_dronenav),
    "DroneNavScan": EnvId(_DRONENAV, defaults=_of_dronenav, wrapper="gym_batchnav.flight.scan:FlightScan"),
    "Explore": EnvId("gym_batchnav.task.explore:Explore"),
    "Flee": EnvId("gym_batchnav.task.explore:Flee"),
    "ImageNav": EnvId("gym_batchnav.task.imagenav:ImageNav", 1000, _of_imagenav),
    "InstanceImageNav": EnvId("gym_batchnav.task.imagenav:InstanceImageNav", 1000, lambda given: {"sensors": ("rgb",)}),
    "MultiGoalNav": EnvId("gym_batchnav.task.multigoal:MultiGoalNav", 2500),
    "ObjectNav": EnvId("gym_batchnav.task.objectnav:ObjectNav"),
    "SocialNav": EnvId("gym_batchnav.task.socialnav:SocialNav", defaults=_of_socialnav),
    "Tag": EnvId(_TAG, 200, _of_team(_TAG), is_single=False),
    "Rendezvous": EnvId(_RENDEZVOUS, 300, _of_team(_RENDEZVOUS), is_single=False),
}


def make_batch(name: str, num_envs: int = 1, **keywords: Any) -> VectorEnv:
    """Make the batch of ``BatchNav/<name>-v0``: a BatchNavEnv, or a wrapper around one.

    ``make_vec`` passes the id's limit of steps like a user's; a limit of this value does not override a protocol's. See
    ``with_defaults`` for keywords that are left out.

    Raises:
        ValueError: The protocol is for another task, or the wrapper cannot hold the observations.
    """
    from gym_batchnav.env.batch import BatchNavEnv
    from gym_batchnav.env.config import with_defaults
    from gym_batchnav.protocols import protocol_of

    one = IDS[name]
    task = resolve_name(one.task)
    wrapper = None if one.wrapper is None else resolve_name(one.wrapper)
    defaults: dict[str, Any] = {} if wrapper is None else dict(wrapper.keywords)
    if "camera" in defaults:  # a scan needs it, whatever a protocol's is
        keywords = {"camera": defaults.pop("camera"), **keywords}
    if keywords.get("protocol") is not None:
        protocol = protocol_of(keywords["protocol"])
        if keywords.get("task") is None and not isinstance(protocol.task, task):
            theirs = type(protocol.task).__name__
            remedy = f"make BatchNav/{theirs}-v0" if theirs in IDS else "use BatchNavEnv(protocol=...)"
            raise ValueError(f"protocol={protocol.name!r} is for {theirs}, not {task.__name__}: {remedy} instead")
        if keywords.get("max_episode_steps") == one.max_episode_steps:
            keywords = {key: value for key, value in keywords.items() if key != "max_episode_steps"}
    env = BatchNavEnv(num_envs, **with_defaults(keywords, {**defaults, "task": task(), **one.defaults(keywords)}))
    if wrapper is None:
        return env
    try:
        return wrapper(env)
    except ValueError:
        env.close()
        raise
