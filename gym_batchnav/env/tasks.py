"""The environments behind the registered ids that are not PointNav: each is a BatchNavEnv with another default task."""

from __future__ import annotations

from typing import Any

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.env.single import SingleEnv
from gym_batchnav.protocols import protocol_of
from gym_batchnav.task.explore import Explore
from gym_batchnav.task.flee import Flee
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav


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
    """Make ``BatchNav/ImageNav-v0``; takes the keywords of BatchNavEnv, by default with RGB and ``task`` ImageNav()."""
    return _make(num_envs, {"task": ImageNav(), "sensors": ("rgb",)}, keywords)


def make_instanceimagenav(num_envs: int = 1, **keywords: Any) -> BatchNavEnv:
    """Make ``BatchNav/InstanceImageNav-v0``, by default with RGB and ``task`` InstanceImageNav()."""
    return _make(num_envs, {"task": InstanceImageNav(), "sensors": ("rgb",)}, keywords)


def _make(num_envs: int, defaults: dict[str, Any], keywords: dict[str, Any]) -> BatchNavEnv:
    """Make a batch with the defaults of an id, a protocol in their place, and the user's keywords in place of both."""
    protocol = keywords.get("protocol")
    brought = {} if protocol is None else protocol_of(protocol).keywords()
    return BatchNavEnv(num_envs, **{**defaults, **brought, **keywords})


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
