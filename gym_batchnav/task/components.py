"""Components: a task with its sensors and measures, combined, validated and run together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector.utils import batch_space

from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import SENSOR_FORMATS
from gym_batchnav.state import NUM_ACTIONS, BufferRows, locked, rows_of
from gym_batchnav.system.numbers import is_number
from gym_batchnav.task.api import Component, Image, Measure, Sensor, Task, TaskState

_COMMON = ("buffers", "begin", "update")
_REQUIRED = {  # attributes of an object of each role
    "task": (*_COMMON, "sensors", "measures", "success_distance", "sampler", "reward", "terminated"),
    "sensor": (*_COMMON, "name", "space", "observe"),
    "measure": (*_COMMON, "name", "at_end", "measure"),
}
_EXAMPLES = {"task": "PointNav() of gym_batchnav.task.pointnav", "measure": "SPL() of gym_batchnav.task.measures"}
# Infos about the episode, which are not measures.
INFO_KEYS = ("scene_index", "episode_index", "episode_valid", "waiting")
# Names that no measure may have; Gymnasium's RecordEpisodeStatistics uses the last.
_TAKEN = frozenset((*INFO_KEYS, "final_obs", "final_info", "episode"))
_NUMBERS = "biuf"  # kinds of dtype

Named = TypeVar("Named", Sensor, Measure)


class Measures(dict[str, np.ndarray]):
    """Values [N] of measures by name, read-only arrays."""

    def __missing__(self, name: str) -> np.ndarray:
        """Raise KeyError with the known names."""
        raise KeyError(f"measure {name!r}: add it to the task's measures; the known ones are {_listed(self)}")


class Components:
    """The task of a batch, and further sensors and measures. Every component runs once, even if it is listed twice.

    Sensors may depend on the space of one agent's action, by default Discrete(4). ``sensors`` and ``measures`` are by
    name, the task's first.

    Raises:
        ValueError: An object lacks a required attribute, a name is taken or not an identifier, a space has no shape,
            the task's ``success_distance`` is not a positive number, or its ``sampler`` cannot sample.
    """

    def __init__(
        self,
        task: Task,
        sensors: Sequence[Sensor] = (),
        measures: Sequence[Measure] = (),
        action_space: gymnasium.Space | None = None,
    ) -> None:
        _check_role("task", task)
        _check_task(task)
        of_task = f" of {_kind(task)}"
        self.task = task
        own = _as_sequence("sensors" + of_task, task.sensors)
        given = _by_name("sensor", (*own, *sensors), frozenset(SENSOR_FORMATS))
        space = gymnasium.spaces.Discrete(NUM_ACTIONS) if action_space is None else action_space
        self.sensors: dict[str, Sensor] = {
            name: one.for_actions(space) if hasattr(one, "for_actions") else one  # it need not inherit Sensor
            for name, one in given.items()
        }
        self.measures: dict[str, Measure] = _by_name(
            "measure", (*_as_sequence("measures" + of_task, task.measures), *_as_sequence("measures", measures)), _TAKEN
        )
        self.step_measures = tuple(name for name, one in self.measures.items() if not one.at_end)
        self.end_measures = tuple(name for name, one in self.measures.items() if one.at_end)
        for sensor in self.sensors.values():
            _check_space(sensor)
        self._all: list[Component] = []
        for one in (task, *self.sensors.values(), *self.measures.values()):
            if not any(_same(one, other) for other in self._all):
                self._all.append(one)
        self._zero_ends: dict[str, np.ndarray] = {}  # by end measure, zeros [N] of its dtype
        self._readings: dict[str, np.ndarray] = {}  # by name, of the current state
        self._unchecked = {"observe", "measure", "terminated", "reward"}

    @property
    def spaces(self) -> dict[str, gymnasium.Space]:
        """The space of one environment's reading of every sensor, by name."""
        return {name: sensor.space for name, sensor in self.sensors.items()}

    @property
    def goal_radius(self) -> float:
        """The metres from the goal at which the shortest-path follower stops; ValueError if agents have no goal."""
        if not getattr(self.task, "has_goal", True):
            raise ValueError(f"agents of {_kind(self.task)} have no goal to go to, which the follower needs")
        return self.task.success_distance

    @property
    def picture_cameras(self) -> tuple[Camera, ...]:
        """The cameras with which components take pictures, each once."""
        return tuple(dict.fromkeys(camera for one in self._all for camera in getattr(one, "picture_cameras", ())))

    @property
    def images(self) -> tuple[str, ...]:
        """The keys of the images that components read, each once."""
        return tuple(dict.fromkeys(key for one in self._all for key in getattr(one, "images", ())))

    def buffers_nbytes(self) -> int:
        """Return the bytes of the components' buffers per environment."""
        given = [one.buffers(1) for one in self._all]
        arrays = [array for named in given if isinstance(named, Mapping) for array in named.values()]
        return sum(np.asarray(array).nbytes for array in arrays)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return zeroed buffers of all components for N environments, by name.

        Raises:
            ValueError: Two components use the same name, or a buffer is not an array of N rows of numbers.
        """
        arrays: dict[str, np.ndarray] = {}
        owners: dict[str, Component] = {}
        for one in self._all:
            given = one.buffers(num_envs)
            if not isinstance(given, Mapping):
                raise ValueError(f"buffers of {_kind(one)} is {_described(given)}: return a dict of arrays by name")
            for name, array in given.items():
                if name in owners:
                    raise ValueError(
                        f"buffers {name!r} of both {_kind(owners[name])} and {_kind(one)}: rename it in one of them"
                    )
                if not _is_array(array, _NUMBERS) or array.shape[:1] != (num_envs,):
                    raise ValueError(
                        f"buffers {name!r} of {_kind(one)} is {_described(array)}: pass an array of numbers with "
                        f"{num_envs} rows"
                    )
                # Copied, because a component may return the same array at every call.
                arrays[name] = np.zeros(array.shape, array.dtype)
                owners[name] = one
        return arrays

    def check_buffers(self, buffers: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError if a component cannot continue from restored buffers."""
        for one in self._all:
            if hasattr(one, "check_buffers"):
                one.check_buffers(buffers)

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Set the buffers of environments ``indices`` [M] to zero and call ``begin`` of every component."""
        if len(indices) == 0:
            return
        for array in state.buffers.values():
            array[indices] = 0
        for one in self._all:
            one.begin(state, indices)
        self._readings.clear()

    def placed(self, state: TaskState, indices: np.ndarray) -> None:
        """Call ``placed`` of every component that has it, after agents ``indices`` [M] were moved by ``set_pose``."""
        for one in self._all:
            if hasattr(one, "placed"):  # an object that does not inherit Component may lack it
                one.placed(state, indices)

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Call ``update`` of every component after a move."""
        self._readings.clear()
        for one in self._all:
            one.update(state, actions, active)
        self._readings.clear()  # readings during the updates may have used old buffers

    def see(self, state: TaskState, images: Mapping[str, Image], rows: np.ndarray) -> None:
        """Call ``see`` of every component that reads images with those of the agents ``rows`` [M]."""
        for one in self._all:
            if getattr(one, "images", ()):
                one.see(state, images, rows)
        self._readings.clear()

    def measure_step(self, state: TaskState) -> Measures:
        """Return the measures that are reported at every step, for the current state."""
        if self._is_first("measure"):
            for name, one in self.measures.items():
                values = one.measure(state)
                _check_values(f"measure {name!r} of {_kind(one)}", values, (state.num_envs,), _NUMBERS)
                if one.at_end:
                    self._zero_ends[name] = locked(np.zeros_like(values))
        return Measures({name: locked(self.measures[name].measure(state)) for name in self.step_measures})

    def measure_ends(self, state: TaskState, done: np.ndarray) -> Measures:
        """Return the measures that are reported at an episode's end; 0 where ``done`` [N] bool is False."""
        if not done.any():
            return Measures(self._zero_ends)
        ends = {name: self.measures[name].measure(state) for name in self.end_measures}
        return Measures({name: locked(np.where(done, ends[name], zero)) for name, zero in self._zero_ends.items()})

    def terminated(self, state: TaskState, measures: Measures, active: np.ndarray) -> np.ndarray:
        """Return whether the step ended each episode [N] bool; False where ``active`` [N] bool is."""
        terminated = self.task.terminated(state, measures)
        if self._is_first("terminated"):
            _check_values(f"terminated of {_kind(self.task)}", terminated, (state.num_envs,), "b")
        return active & terminated

    def reward(self, state: TaskState, measures: Measures, active: np.ndarray) -> np.ndarray:
        """Return the reward [N] float64, 0 where ``active`` [N] bool is False; ValueError unless all are finite."""
        reward = self.task.reward(state, measures)
        if self._is_first("reward"):
            _check_values(f"reward of {_kind(self.task)}", reward, (state.num_envs,), _NUMBERS)
        reward = np.where(active, reward, np.float64(0))
        finite = np.isfinite(reward)
        if not finite.all():
            index = int(finite.argmin())
            raise ValueError(
                f"reward of {_kind(self.task)} is {reward[index]} in environment {index}: return finite rewards"
            )
        return reward

    def forget_readings(self) -> None:
        """Drop the cached readings, after the state has been changed by other methods than those of this object."""
        self._readings.clear()

    def reading(self, state: TaskState, name: str) -> np.ndarray:
        """Return a sensor's reading [N, ...], read-only; it is cached until the state changes or ``observe`` is called.

        Raises:
            KeyError: The sensor is unknown.
        """
        if name not in self._readings:
            if name not in self.sensors:
                raise KeyError(
                    f"sensor {name!r}: add it to the task's sensors; the known ones are {_listed(self.sensors)}"
                )
            values = self.sensors[name].observe(state)
            self._readings[name] = locked(values) if _is_array(values) else values
        return self._readings[name]

    def observe(self, state: TaskState, rows: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return the readings [N, ...] of all sensors by name, fresh arrays; or those of the agents ``rows`` [M].

        Raises:
            ValueError: A reading has the wrong shape or dtype, or is outside its space; checked the first time only.
        """
        if rows is not None and state.worlds is not None:  # whose rows depend on each other
            return {name: values[rows] for name, values in self.observe(state).items()}
        if rows is not None:
            self._readings = {name: values[rows] for name, values in self._readings.items()}
            state = replace(
                state,
                agents=rows_of(state.agents, rows),
                episodes=rows_of(state.episodes, rows),
                buffers=BufferRows(state.buffers, rows),
                reading=lambda name: self.reading(state, name),
            )
        readings = {name: self.reading(state, name) for name in self.sensors}
        self._readings.clear()
        if self._is_first("observe"):
            for name, one in self.sensors.items():
                shape = (state.num_envs, *one.space.shape)  # type: ignore[misc]  # see _check_space
                _check_values(f"sensor {name!r} of {_kind(one)}", readings[name], shape, one.space.dtype)
                if not batch_space(one.space, state.num_envs).contains(readings[name]):
                    raise ValueError(
                        f"sensor {name!r} of {_kind(one)} gave readings outside its space {one.space}: "
                        "widen the space or clip the readings"
                    )
        return {name: values.copy() for name, values in readings.items()}

    def _is_first(self, call: str) -> bool:
        """Return whether this is the first call of its kind, whose result is checked."""
        first = call in self._unchecked
        self._unchecked.discard(call)
        return first


def _same(one: object, other: object) -> bool:
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except ValueError:  # dataclasses with arrays cannot be compared
        return False


def _by_name(role: str, given: Sequence[Named], taken: frozenset[str]) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for one in given:
        _check_role(role, one)
        name = one.name
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
            raise ValueError(f"{role} name {name!r} of {_kind(one)}: pass an identifier without leading underscore")
        if name in taken:
            raise ValueError(f"{role} {name!r} of {_kind(one)}: the environment itself uses this name; choose another")
        if name in found and not _same(one, found[name]):
            raise ValueError(
                f"{role} {name!r} of both {_kind(found[name])} and {_kind(one)}: leave one out or rename it"
            )
        found.setdefault(name, one)
    return found


def _check_role(role: str, one: object) -> None:
    """Raise ValueError unless an object has the attributes of its role."""
    protocol = f"gym_batchnav.task.api.{role.capitalize()}"
    if role == "sensor" and isinstance(one, str):
        raise ValueError(f"sensor={one!r} of a task: the environment renders images; pass sensors=({one!r},) to it")
    if isinstance(one, str):
        raise ValueError(f"{role}={one!r}: pass an object, such as {_EXAMPLES[role]}")
    if isinstance(one, type):
        raise ValueError(f"{role}={one.__name__} is a class: pass an object, {one.__name__}()")
    missing = [part for part in _REQUIRED[role] if not hasattr(one, part)]
    if missing:
        raise ValueError(f"{role}={one!r} has no {', '.join(missing)}: pass an object of a subclass of {protocol}")


def _check_task(task: Task) -> None:
    """Raise ValueError unless a task's ``success_distance`` is a positive number, and its ``sampler`` can sample."""
    distance, sampler = task.success_distance, task.sampler
    if not is_number(distance) or distance <= 0:
        raise ValueError(f"success_distance={distance!r} of {_kind(task)}: pass a positive number of metres")
    if isinstance(sampler, type) or not callable(getattr(sampler, "sample", None)):
        raise ValueError(
            f"sampler={sampler!r} of {_kind(task)}: pass an object with a method sample, such as PointEpisodes() of "
            "gym_batchnav.episodes.samplers"
        )


def _as_sequence(role: str, given: Any) -> Sequence[Any]:
    """Return a tuple or list unchanged; raise ValueError for other types, such as a single component."""
    if not isinstance(given, (tuple, list)):
        raise ValueError(f"{role}: {given!r} is not a tuple or list; write (component,) for a single one")
    return given


def _check_space(sensor: Sensor) -> None:
    """Raise ValueError unless the readings of a sensor's space are a single array."""
    space = sensor.space
    if not isinstance(space, gymnasium.Space) or space.shape is None or space.dtype is None:
        raise ValueError(
            f"space of sensor {sensor.name!r} is {space!r}: pass one with a shape and a dtype, such as a Box"
        )


def _check_values(source: str, values: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Raise ValueError unless values are an array of a shape and a dtype; a string such as ``"iu"`` names its kinds."""
    fits = _is_array(values, dtype) if isinstance(dtype, str) else _is_array(values) and values.dtype == dtype
    if not fits or values.shape != shape:
        expected = {_NUMBERS: "numbers", "b": "bool"}.get(dtype, dtype) if isinstance(dtype, str) else dtype
        raise ValueError(f"{source} gave {_described(values)}: return an array of {expected} {shape}")


def _is_array(values: Any, kinds: str | None = None) -> bool:
    return isinstance(values, np.ndarray) and (kinds is None or values.dtype.kind in kinds)


def _described(values: Any) -> str:
    return f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _kind(component: object) -> str:
    return type(component).__name__
