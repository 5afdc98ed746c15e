"""The environments behind the registered ids: each is a BatchNavEnv with a default task."""

from __future__ import annotations

from typing import Any

import gymnasium

from gym_batchnav.actions.flight import FlightActions
from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.env.config import with_defaults
from gym_batchnav.env.single import SingleEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.protocols import protocol_of
from gym_batchnav.task.dronenav import DroneNav
from gym_batchnav.task.explore import Explore
from gym_batchnav.task.flee import Flee
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.meeting import Rendezvous, Tag
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.socialnav import SocialNav
from gym_batchnav.worlds.people import People


def make_pointnav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/PointNav-v0``; takes the keywords of BatchNavEnv, with ``task`` PointNav() by default."""
    return _make(num_envs, {"task": PointNav()}, keywords)


def make_explore(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/Explore-v0``; takes the keywords of BatchNavEnv, with ``task`` Explore() by default."""
    return _make(num_envs, {"task": Explore()}, keywords)


def make_flee(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/Flee-v0``; takes the keywords of BatchNavEnv, with ``task`` Flee() by default."""
    return _make(num_envs, {"task": Flee()}, keywords)


def make_multigoalnav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/MultiGoalNav-v0``; takes the keywords of BatchNavEnv, with ``task`` MultiGoalNav() by default."""
    return _make(num_envs, {"task": MultiGoalNav()}, keywords)


def make_objectnav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/ObjectNav-v0``; takes the keywords of BatchNavEnv, with ``task`` ObjectNav() by default."""
    return _make(num_envs, {"task": ObjectNav()}, keywords)


def make_imagenav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/ImageNav-v0``; takes the keywords of BatchNavEnv, by default with RGB and ``task`` ImageNav().

    The goal pictures are taken with the agents' camera without its jitter, if there is one and no ``task`` is given.
    """
    camera = keywords.get("camera")
    task = ImageNav(camera) if isinstance(camera, Camera) else ImageNav()
    return _make(num_envs, {"task": task, "sensors": ("rgb",)}, keywords)


def make_instanceimagenav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/InstanceImageNav-v0``, by default with RGB and ``task`` InstanceImageNav()."""
    return _make(num_envs, {"task": InstanceImageNav(), "sensors": ("rgb",)}, keywords)


def make_socialnav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/SocialNav-v0``, by default with ``task`` SocialNav() and four people in every world."""
    return _make(num_envs, {"task": SocialNav(), "bodies": (People(4),)}, keywords)


def make_tag(num_envs: int = 2, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/Tag-v0``, by default with ``task`` Tag() and as many agents per world as the task has."""
    return _make(num_envs, _team_of(Tag(), keywords), keywords)


def make_rendezvous(num_envs: int = 2, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/Rendezvous-v0``, by default with ``task`` Rendezvous() and as many agents as the task has."""
    return _make(num_envs, _team_of(Rendezvous(), keywords), keywords)


def refuse_single(**keywords: Any) -> gymnasium.Env:
    """Raise ValueError: ``gymnasium.make`` makes environments of one agent, and this task has several."""
    raise ValueError("this task has several agents: use gymnasium.make_vec, or an adapter to PettingZoo or RLlib")


def _team_of(default: Tag | Rendezvous, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return the defaults of a task for several agents: as many in a world as the task that will be used has."""
    protocol = keywords.get("protocol")
    task = keywords.get("task", default if protocol is None else protocol_of(protocol).task)
    return {"task": default, "agents_per_world": getattr(task, "num_agents", 2)}


def _make(num_envs: int, defaults: dict[str, Any], keywords: dict[str, Any]) -> BatchNavEnv:
    """Make a batch with the defaults of an id; see ``with_defaults``.

    ``make_vec`` passes on the id's limit of steps as if the user had, so a limit of this value is the protocol's.

    Raises:
        ValueError: The protocol is for another task.
    """
    if keywords.get("protocol") is not None:
        protocol = protocol_of(keywords["protocol"])
        task = type(defaults["task"])
        if "task" not in keywords and not isinstance(protocol.task, task):
            theirs = type(protocol.task).__name__
            raise ValueError(
                f"protocol={protocol.name!r} is for {theirs}, not {task.__name__}: make BatchNav/{theirs}-v0 instead"
            )
        if keywords.get("max_episode_steps") == gymnasium.spec(f"BatchNav/{task.__name__}-v0").max_episode_steps:
            keywords = {name: value for name, value in keywords.items() if name != "max_episode_steps"}
    return BatchNavEnv(num_envs, **with_defaults(keywords, defaults))


def make_dronenav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/DroneNav-v0``, by default with DroneNav(), FlightActions() and a camera at the centre."""
    return _make(num_envs, {"task": DroneNav(), "actions": FlightActions(), "camera": Camera(eye_height=0.0)}, keywords)


class SinglePointNav(SingleEnv):
    """``BatchNav/PointNav-v0`` for one agent."""

    make_batch = staticmethod(make_pointnav)


class SingleExplore(SingleEnv):
    """``BatchNav/Explore-v0`` for one agent."""

    make_batch = staticmethod(make_explore)


class SingleFlee(SingleEnv):
    """``BatchNav/Flee-v0`` for one agent."""

    make_batch = staticmethod(make_flee)


class SingleMultiGoalNav(SingleEnv):
    """``BatchNav/MultiGoalNav-v0`` for one agent."""

    make_batch = staticmethod(make_multigoalnav)


class SingleObjectNav(SingleEnv):
    """``BatchNav/ObjectNav-v0`` for one agent."""

    make_batch = staticmethod(make_objectnav)


class SingleImageNav(SingleEnv):
    """``BatchNav/ImageNav-v0`` for one agent."""

    make_batch = staticmethod(make_imagenav)


class SingleInstanceImageNav(SingleEnv):
    """``BatchNav/InstanceImageNav-v0`` for one agent."""

    make_batch = staticmethod(make_instanceimagenav)


class SingleSocialNav(SingleEnv):
    """``BatchNav/SocialNav-v0`` for one agent."""

    make_batch = staticmethod(make_socialnav)


class SingleDroneNav(SingleEnv):
    """``BatchNav/DroneNav-v0`` for one agent."""

    make_batch = staticmethod(make_dronenav)
