"""Components: a task with its sensors and measures, put together, checked, and run as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from gym_batchnav.state import locked
from gym_batchnav.task.api import Component, Measure, Sensor, Task, TaskState

_COMMON = ("memory", "begin", "update")
_PARTS = {  # what an object of each role has to have
    "task": (*_COMMON, "sensors", "measures", "success_distance", "reward", "terminated"),
    "sensor": (*_COMMON, "name", "space", "observe"),
    "measure": (*_COMMON, "name", "at_end", "measure"),
}
_PICTURES = frozenset(("depth", "rgb", "semantic"))
_INFOS = frozenset(  # by the batch, and by Gymnasium's wrapper that counts episodes
    ("scene_index", "episode_index", "episode_valid", "final_obs", "final_info", "episode")
)
_NUMBERS = "biuf"  # kinds of dtype

Named = TypeVar("Named", Sensor, Measure)


class Measured(Mapping[str, np.ndarray]):
    """Values [N] of measures in one state, each computed when it is first read."""

    def __init__(self, measures: Mapping[str, Measure], state: TaskState) -> None:
        self._measures, self._state = measures, state
        self._values: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of a measure, read-only; KeyError for a name that none has."""
        if name not in self._measures:
            raise KeyError(f"measure {name!r}: add it to the task's measures; there is {_listed(self._measures)}")
        if name not in self._values:
            values = self._measures[name].measure(self._state)
            self._values[name] = locked(values) if _is_array(values) else values
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """The names of all measures."""
        return iter(self._measures)

    def __len__(self) -> int:
        """How many measures there are."""
        return len(self._measures)


class Components:
    """What is asked, perceived and measured in a batch. Runs every component once, however often it is named.

    Args:
        task: What is asked.
        sensors: To perceive, besides the task's own.
        measures: To report, besides the task's own.

    Attributes:
        task: The task.
        sensors: By name, the task's first.
        measures: By name, the task's first.
        step_measures: Names of those that are reported at every step.
        end_measures: Names of those that are reported when an episode ends.

    Raises:
        ValueError: An object lacks what its role needs, a name is taken or no identifier, a space has no shape, or
            the task's ``success_distance`` is no positive number.
    """

    def __init__(self, task: Task, sensors: Sequence[Sensor] = (), measures: Sequence[Measure] = ()) -> None:
        _check_role("task", task)
        _check_distance(task)
        of_task = f" of {_kind(task)}"
        self.task = task
        self.sensors: dict[str, Sensor] = _by_name(
            "sensor", (*_several("sensors" + of_task, task.sensors), *sensors), _PICTURES
        )
        self.measures: dict[str, Measure] = _by_name(
            "measure", (*_several("measures" + of_task, task.measures), *_several("measures", measures)), _INFOS
        )
        self.step_measures = tuple(name for name, one in self.measures.items() if not one.at_end)
        self.end_measures = tuple(name for name, one in self.measures.items() if one.at_end)
        for sensor in self.sensors.values():
            _check_space(sensor)
        self._all: list[Component] = []
        for one in (task, *self.sensors.values(), *self.measures.values()):
            if not any(_same(one, other) for other in self._all):
                self._all.append(one)
        self._unchecked = {"observe", "measure", "score"}

    @property
    def spaces(self) -> dict[str, gymnasium.Space]:
        """The space of one environment's reading of every sensor, by name."""
        return {name: sensor.space for name, sensor in self.sensors.items()}

    def memory(self, num_envs: int) -> dict[str, np.ndarray]:
        """The memory of all components for N environments, by name: zeros, whatever they gave.

        Raises:
            ValueError: Two components give memory one name, or it is no array of N rows of numbers.
        """
        arrays: dict[str, np.ndarray] = {}
        owners: dict[str, Component] = {}
        for one in self._all:
            given = one.memory(num_envs)
            if not isinstance(given, Mapping):
                raise ValueError(f"memory of {_kind(one)} is {_described(given)}: return a dict of arrays by name")
            for name, array in given.items():
                if name in owners:
                    raise ValueError(
                        f"memory {name!r} of both {_kind(owners[name])} and {_kind(one)}: rename it in one of them"
                    )
                if not _is_array(array, _NUMBERS) or array.shape[:1] != (num_envs,):
                    raise ValueError(
                        f"memory {name!r} of {_kind(one)} is {_described(array)}: give an array of numbers with "
                        f"{num_envs} rows"
                    )
                # Of the batch alone: a component may give the same array each time it is asked.
                arrays[name], owners[name] = np.zeros(array.shape, array.dtype), one
        return arrays

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Forget the episodes before those that have begun in environments ``indices`` [M]."""
        if len(indices) == 0:
            return
        for array in state.memory.values():
            array[indices] = 0
        for one in self._all:
            one.begin(state, indices)

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Let every component remember the move that was just made."""
        for one in self._all:
            one.update(state, actions, active)

    def measure(self, state: TaskState) -> Measured:
        """The measures in a state; read them before it changes."""
        measured = Measured(self.measures, state)
        if self._is_first("measure"):
            for name, one in self.measures.items():
                _check_values(f"measure {name!r} of {_kind(one)}", measured[name], (state.num_envs,), _NUMBERS)
        return measured

    def score(
        self, state: TaskState, measures: Mapping[str, np.ndarray], active: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Reward [N] float64 of the step and whether it ended each episode [N] bool; 0 and False where nobody acted.

        Args:
            state: After the step.
            measures: In that state.
            active: [N] bool, who acted.

        Raises:
            ValueError: A reward is not finite.
        """
        reward, terminated = self.task.reward(state, measures), self.task.terminated(state, measures)
        if self._is_first("score"):
            shape, task = (state.num_envs,), _kind(self.task)
            _check_values(f"reward of {task}", reward, shape, _NUMBERS)
            _check_values(f"terminated of {task}", terminated, shape, "b")
        reward = np.where(active, reward, np.float64(0))
        finite = np.isfinite(reward)
        if not finite.all():
            index = int(finite.argmin())
            raise ValueError(
                f"reward of {_kind(self.task)} is {reward[index]} in environment {index}: return finite ones"
            )
        return reward, active & terminated

    def observe(self, state: TaskState) -> dict[str, np.ndarray]:
        """Readings [N, ...] of all sensors by name, fresh arrays."""
        readings = {name: one.observe(state) for name, one in self.sensors.items()}
        if self._is_first("observe"):
            for name, one in self.sensors.items():
                shape = (state.num_envs, *one.space.shape)  # type: ignore[misc]  # see _check_space
                _check_values(f"sensor {name!r} of {_kind(one)}", readings[name], shape, one.space.dtype)
                if not batch_space(one.space, state.num_envs).contains(readings[name]):
                    raise ValueError(
                        f"sensor {name!r} of {_kind(one)} gave readings outside its space {one.space}: widen it or clip"
                    )
        return {name: values.copy() for name, values in readings.items()}

    def _is_first(self, what: str) -> bool:
        """Whether something is done for the first time, so that its results are to be checked."""
        first = what in self._unchecked
        self._unchecked.discard(what)
        return first


def _same(one: object, other: object) -> bool:
    """Whether two components are one."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except ValueError:  # dataclasses with arrays cannot be compared
        return False


def _by_name(role: str, given: Sequence[Named], taken: frozenset[str]) -> dict[str, Named]:
    """Components by name, each once."""
    found: dict[str, Named] = {}
    for one in given:
        _check_role(role, one)
        name = one.name
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"{role} name {name!r} of {_kind(one)}: give an identifier without leading underscore")
        if name in taken:
            raise ValueError(f"{role} {name!r} of {_kind(one)}: the environment itself uses this name, give another")
        if name in found and not _same(one, found[name]):
            raise ValueError(
                f"{role} {name!r} of both {_kind(found[name])} and {_kind(one)}: leave one out or rename it"
            )
        found.setdefault(name, one)
    return found


def _check_role(role: str, one: object) -> None:
    """Refuse an object that cannot be what it was given as."""
    protocol = f"gym_batchnav.task.api.{role.capitalize()}"
    if role == "sensor" and isinstance(one, str):
        raise ValueError(f"sensor={one!r} of a task: pictures are for the environment to draw, sensors=({one!r},)")
    if isinstance(one, type):
        raise ValueError(f"{role}={one.__name__} is a class: give an object, {one.__name__}()")
    missing = [part for part in _PARTS[role] if not hasattr(one, part)]
    if missing:
        raise ValueError(f"{role}={one!r} has no {', '.join(missing)}: give an object of a subclass of {protocol}")


def _check_distance(task: Task) -> None:
    """Refuse a distance of success that is no length."""
    distance = task.success_distance
    if not isinstance(distance, (int, float, np.integer, np.floating)) or not 0 < distance < np.inf:
        raise ValueError(f"success_distance={distance!r} of {_kind(task)}: give a positive number of metres")


def _several(what: str, given: Any) -> Sequence[Any]:
    """What is given as several objects, a tuple or list; refuses all else, such as one object without a comma."""
    if not isinstance(given, (tuple, list)):
        raise ValueError(f"{what}: {given!r} is no tuple; write (one,) for a single one")
    return given


def _check_space(sensor: Sensor) -> None:
    """Refuse a space whose readings are no single array."""
    space = sensor.space
    if not isinstance(space, gymnasium.Space) or space.shape is None or space.dtype is None:
        raise ValueError(f"space of sensor {sensor.name!r} is {space!r}: give one with a shape and a dtype, like a Box")


def _check_values(what: str, values: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse what is no array of a shape and a dtype, or one of the kinds in a string.

    Raises:
        ValueError: It is not.
    """
    fits = _is_array(values, dtype) if isinstance(dtype, str) else _is_array(values) and values.dtype == dtype
    if not fits or values.shape != shape:
        wanted = {_NUMBERS: "numbers", "b": "bool"}.get(dtype, dtype) if isinstance(dtype, str) else dtype
        raise ValueError(f"{what} gave {_described(values)}: return an array of {wanted} {shape}")


def _is_array(values: Any, kinds: str | None = None) -> bool:
    return isinstance(values, np.ndarray) and (kinds is None or values.dtype.kind in kinds)


def _described(values: Any) -> str:
    return f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _kind(component: object) -> str:
    return type(component).__name__
