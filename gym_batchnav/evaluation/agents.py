"""The Agent protocol that evaluation uses, and agents without a network."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from gymnasium.spaces import Box, Discrete

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import EnvConfig
from gym_batchnav.env.simulator import named_episode_keys
from gym_batchnav.episodes.draws import keyed_uniform
from gym_batchnav.geometry import polar_goals
from gym_batchnav.state import Action
from gym_batchnav.task.api import Sensor

STOP_CHANCE = 0.01  # per step of RandomAgent
# Keywords of BatchNavEnv that whoever runs an agent chooses.
OF_RUNS = {
    "num_envs", "scenes", "episodes", "library", "renderer", "autoreset_mode", "buffers", "obs_device", "render_mode",
}  # fmt: skip


@runtime_checkable
class Agent(Protocol):
    """Chooses an action for every environment of a batch. It may remember the current episodes.

    Classes that derive from it need no ``reset`` if they remember nothing.

    An agent may have an attribute ``env_keywords``, a dict with the keywords of BatchNavEnv that it needs, such as
    ``{"sensors": ("depth",), "camera": Camera(128, 128), "actions": "velocity"}``. Commands that make an environment
    for the agent pass them. An agent that is compared with another one only adds its sensors; the rest must agree.
    """

    def reset(self, env: BatchNavEnv) -> None:
        """Reset the memory, because every environment of ``env`` begins an episode."""
        return  # agents that remember nothing inherit this

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Choose the next actions.

        Args:
            env: The batch.
            observation: The newest observations of all environments, by sensor.
            begun: [N] bool, whether an episode begins with that observation.

        Returns:
            Actions, [N] int64 or as ``env.action_space`` states.
        """


def env_keywords_of(agent: Agent) -> dict[str, Any]:
    """Return the keywords that an agent needs, with the images its sensors read; ValueError for unknown keywords."""
    given = getattr(agent, "env_keywords", {})
    known = {one.name for one in fields(EnvConfig)} - OF_RUNS
    if not isinstance(given, Mapping) or not known.issuperset(given):
        raise ValueError(
            f"env_keywords={given!r} of an agent: pass a dict with keywords among {', '.join(sorted(known))}"
        )
    if "sensors" not in given:
        return dict(given)
    if not isinstance(given["sensors"], (tuple, list)):
        raise ValueError(f"env_keywords={given!r} of an agent: pass sensors as a tuple, such as ('depth',)")
    own = tuple(given["sensors"])
    images = dict.fromkeys(key for one in own for key in getattr(one, "images", ()))
    return {**given, "sensors": with_sensors(tuple(images), own)}


def with_sensors(there: Sequence[str | Sensor], more: Sequence[str | Sensor]) -> tuple[str | Sensor, ...]:
    """Return sensors, followed by those of ``more`` that have other names."""
    names = [getattr(one, "name", one) for one in there]
    return (*there, *(one for one in more if getattr(one, "name", one) not in names))


Acting: TypeAlias = Agent | Callable[[Any], np.ndarray]


def as_agent(agent: Acting) -> Agent:
    """Return an agent unchanged, or one of a function from observations to actions [N]; TypeError for anything else."""
    if isinstance(agent, Agent) and not isinstance(agent, type):
        for method, taken in ((agent.reset, ("env",)), (agent.act, ("env", "observation", "begun"))):
            try:
                inspect.signature(method).bind(*taken)
            except TypeError as error:
                raise TypeError(
                    f"{type(agent).__name__}.{method.__name__} must take ({', '.join(taken)}), see "
                    f"gym_batchnav.evaluation.agents.Agent: {error}"
                ) from error
        return agent
    if callable(agent) and not isinstance(agent, type):
        return _FunctionAgent(agent)
    raise TypeError(f"agent={agent!r}: pass an object with reset and act, or a function from observations to actions")


class _FunctionAgent(Agent):
    def __init__(self, act: Callable[[Any], np.ndarray]) -> None:
        self._act = act
        self.env_keywords = getattr(act, "env_keywords", {})

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return the function's actions [N]."""
        return self._act(observation)


class RandomAgent(Agent):
    """Acts at random.

    Among discrete actions, STOP has a probability of 0.01 per step, and the others have equal probabilities. Continuous
    actions are uniform in their space, except that ``stop_component`` is set with a probability of 0.01.

    Args:
        seed: Seed of the random numbers.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return random actions, [N] int64 or [N, D] float32."""
        space = env.single_action_space
        if isinstance(space, Discrete):
            draws = (uniform_draws(env, self.seed) - STOP_CHANCE) / (1 - STOP_CHANCE)
            moves = 1 + (draws * (int(space.n) - 1)).astype(np.int64)
            return np.where(draws < 0, Action.STOP, moves)
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise ValueError(f"random actions in {space}: use Discrete or a Box of shape (D,)")
        draws = np.stack([uniform_draws(env, self.seed, draw) for draw in range(space.shape[0])], axis=1)
        actions = (space.low + draws * (space.high - space.low)).astype(space.dtype)
        if getattr(env.actions, "stop_component", False):
            actions[:, -1] = np.where(draws[:, -1] < STOP_CHANCE, 1, -1)
        return actions


class ShortestPathAgent(Agent):
    """The greedy follower of the shortest path. It uses the navmesh itself, so its scores are an upper bound."""

    def check(self, env: BatchNavEnv) -> None:
        """Raise ValueError if the agents of the environment's task have no goal to go to."""
        _ = env.components.goal_radius

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return the follower's actions, [N] int64 or as ``env.action_space`` states."""
        return env.shortest_path_actions()


class ObjectOracleAgent:
    """Follows the shortest path to the nearest view point of an object, turns to the object and calls STOP."""

    def reset(self, env: BatchNavEnv) -> None:
        """Raise ValueError unless actions are discrete."""
        kind = env.simulator.actions
        if not isinstance(kind, DiscreteActions):
            raise ValueError(f"ObjectOracleAgent needs actions=DiscreteActions(), not {kind}")
        self._turn_angle = kind.turn_angle

    def act(self, env: BatchNavEnv, observation: Any, begun: np.ndarray) -> np.ndarray:
        """Return the follower's actions [N] int64, with turns to the object instead of STOP until it is ahead."""
        actions = env.shortest_path_actions()
        arrived = np.nonzero((actions == int(Action.STOP)) & env.episodes.valid)[0]
        if len(arrived) == 0:
            return actions
        centre = np.stack([_object_here(env, index) for index in arrived.tolist()])
        angle = polar_goals(env.agents.position[arrived], env.agents.heading[arrived], centre)[:, 1]
        turn = np.where(angle > 0, int(Action.TURN_LEFT), int(Action.TURN_RIGHT))
        # Half a turn and a bit, since rounding could otherwise make the agent turn to and fro.
        faces = np.abs(angle) <= 0.51 * self._turn_angle
        actions[arrived] = np.where(faces, int(Action.STOP), turn)
        return actions


def _object_here(env: BatchNavEnv, index: int) -> np.ndarray:
    """Return the centre [3], metres, of the object at whose view point an agent stands: the nearest of its goals."""
    episodes = env.simulator.episode_set(int(env.agents.slot[index]))
    goal_set = env.episodes.goal_index[index]
    members = slice(episodes.first_goal[goal_set], episodes.first_goal[goal_set + 1])
    nearest = np.linalg.norm(episodes.goals[members] - env.agents.position[index], axis=1).argmin()
    return episodes.targets[members][nearest]


def uniform_draws(env: BatchNavEnv, seed: int, draw: int = 0) -> np.ndarray:
    """Return uniform random numbers [N] float64 in [0, 1) for the next actions.

    Each depends only on the seed, the name of the scene, the episode, the step and the number of the draw, so that
    results depend neither on N nor on the other scenes.
    """
    stream = named_episode_keys(env.library, np.array([seed % 2**64], np.uint64), env.agents.slot, env.episodes.episode)
    return keyed_uniform(stream, env.episodes.num_steps, draw)
