"""The keywords ``actions=`` and ``actuation_noise=`` of an environment."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.continuous import HolonomicActions, VelocityActions, WaypointActions
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.actions.noise import ActuationNoise, LoCoBotNoise


def _flight() -> Actions:
    actions: Actions = pkgutil.resolve_name("gym_batchnav.flight.actions:FlightActions")()
    return actions


ACTIONS: Mapping[str, Callable[[], Actions]] = {
    "discrete": DiscreteActions,
    "velocity": VelocityActions,
    "waypoint": WaypointActions,
    "holonomic": HolonomicActions,
    "flight": _flight,
}
_PARTS = ("workload", "space", "validate", "decode", "follow", "make_agents", "buffers", "check_buffers", "check_batch")


def make_actions(actions: str | Actions) -> Actions:
    """Return the actions of the keyword ``actions``, a name of ``ACTIONS`` or an object with the methods of Actions.

    Raises:
        ValueError: The name is unknown, or the object lacks a method.
    """
    if isinstance(actions, str) and actions in ACTIONS:
        return ACTIONS[actions]()
    if isinstance(actions, type) or not all(hasattr(actions, name) for name in _PARTS):
        raise ValueError(
            f"actions={actions!r}: pass one of {', '.join(map(repr, ACTIONS))}, or an object such as VelocityActions() "
            "whose class inherits gym_batchnav.actions.api.Actions"
        )
    assert not isinstance(actions, str)
    return actions


def make_noise(noise: str | ActuationNoise | None) -> ActuationNoise | None:
    """Return the noise that the keyword ``actuation_noise`` chooses; None for none.

    Raises:
        ValueError: The name is unknown, or the object is not an ActuationNoise.
    """
    if noise is None:
        return None
    if isinstance(noise, str) and noise == "locobot":
        return LoCoBotNoise()
    if isinstance(noise, (str, type)) or not hasattr(noise, "apply") or not hasattr(noise, "num_draws"):
        raise ValueError(f"actuation_noise={noise!r}: pass None, 'locobot' or an object such as LoCoBotNoise(0.5)")
    return noise
