"""The keywords ``actions=`` and ``actuation_noise=`` of an environment."""

from __future__ import annotations

from collections.abc import Callable

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.continuous import HolonomicActions, VelocityActions, WaypointActions
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.actions.flight import FlightActions
from gym_batchnav.actions.noise import ActuationNoise, LoCoBotNoise
from gym_batchnav.navmesh.agents import NavMeshAgents

ACTIONS = ("discrete", "velocity", "waypoint", "holonomic", "flight")
NOISES = (None, "locobot")


def make_actions(actions: str | Actions, forward_step: float = 0.25, turn_angle_deg: float = 10.0) -> Actions:
    """Return the actions that an environment's keywords choose.

    Args:
        actions: A name of ``ACTIONS``, or an object with the methods of ``Actions``.
        forward_step: Length of MOVE_FORWARD, metres; for ``"discrete"`` only.
        turn_angle_deg: Angle of a turn, degrees; for ``"discrete"`` only.

    Raises:
        ValueError: The name is unknown, the object no Actions, or a keyword does not belong to it.
    """
    discrete = DiscreteActions(forward_step, turn_angle_deg)
    if isinstance(actions, str) and actions == "discrete":
        return discrete
    if discrete != DiscreteActions():
        raise ValueError(
            f"forward_step={forward_step!r} and turn_angle_deg={turn_angle_deg!r} belong to actions='discrete', not to "
            f"{actions!r}: leave them out, and set the attributes of an object such as "
            "actions=DiscreteActions(forward_step=...) or VelocityActions(linear_range=...)"
        )
    if isinstance(actions, str):
        continuous: dict[str, Callable[[], Actions]] = {
            "velocity": VelocityActions, "waypoint": WaypointActions, "holonomic": HolonomicActions,
            "flight": FlightActions,
        }  # fmt: skip
        if actions not in continuous:
            raise ValueError(f"actions={actions!r}: choose one of {', '.join(map(repr, ACTIONS))}, or pass an object")
        return continuous[actions]()
    missing = [name for name in ("space", "validate", "decode", "follow") if not hasattr(actions, name)]
    if isinstance(actions, type) or missing:
        raise ValueError(
            f"actions={actions!r}: pass one of {', '.join(map(repr, ACTIONS))}, or an object such as VelocityActions()"
        )
    return actions


def agents_of(actions: Actions, num_slots: int) -> NavMeshAgents:
    """Return what moves agents with these actions on the navmeshes of some slots; flying agents need another kind."""
    return getattr(actions, "make_agents", NavMeshAgents)(num_slots)


def make_noise(noise: str | ActuationNoise | None) -> ActuationNoise | None:
    """Return the noise that the keyword ``actuation_noise`` chooses; None for none.

    Raises:
        ValueError: The name is unknown, or the object is no ActuationNoise.
    """
    if noise is None:
        return None
    if isinstance(noise, str) and noise == "locobot":
        return LoCoBotNoise()
    if isinstance(noise, (str, type)) or not hasattr(noise, "apply") or not hasattr(noise, "num_draws"):
        raise ValueError(f"actuation_noise={noise!r}: pass None, 'locobot' or an object such as LoCoBotNoise(0.5)")
    return noise
