"""Stepper: the path of a step, from actions to observations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_batchnav.env.cameras import AgentCameras, scatter
from gym_batchnav.env.config import EnvConfig, autoreset_mode_of
from gym_batchnav.env.observe import Observation, Observer
from gym_batchnav.env.simulator import Simulator
from gym_batchnav.geometry import Camera, camera_views, look_at
from gym_batchnav.state import read_only
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.components import Measures

PHASES = ("move", "measure", "episodes", "render", "observe")

Returned = tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


class Move(NamedTuple):
    """The actions of the agents in a step, and their score."""

    actions: np.ndarray  # [N, ...]
    active: np.ndarray  # [N] bool, the agents that acted
    done: np.ndarray  # [N] bool, the agents whose episodes have ended
    reward: np.ndarray  # [N] float64; 0 where ``active`` is False
    measures: Measures  # arrays [N] by name: those of every step, and of ends, which are 0 where ``done`` is False


class StepListener(Protocol):
    """Follows the agents of a batch, such as a recorder."""

    def placed(self, indices: np.ndarray) -> None:
        """Note that agents ``indices`` [M] have begun episodes, or were moved by the user."""

    def moved(self, move: Move) -> None:
        """Note a move, before other episodes begin."""


class Stepper:
    """Runs the phases of a step: move, measure, begin episodes, render, observe. It does not validate its arguments."""

    def __init__(self, config: EnvConfig, simulator: Simulator, cameras: AgentCameras) -> None:
        self.simulator = simulator
        self.cameras = cameras
        self.components = config.components
        self.observer = Observer(cameras, self.components, config.delays)
        self.autoreset_mode = autoreset_mode_of(config.autoreset_mode)
        self.timings = dict.fromkeys(PHASES, 0.0)  # seconds so far
        self.listeners: list[StepListener] = []  # are told of every move and every beginning
        self._sent: tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, Any]] | None = None
        self._paused = np.zeros(simulator.num_agents, bool)
        self.set_max_episode_steps(config.max_episode_steps)

    def set_max_episode_steps(self, max_episode_steps: int) -> None:
        """Set the number of actions after which episodes are truncated."""
        self.state = TaskState(  # what tasks, sensors and measures see
            agents=read_only(self.simulator.agents),
            episodes=read_only(self.simulator.episodes),
            buffers=self.simulator.buffers,
            navmesh=self.simulator.navmesh,
            max_episode_steps=max_episode_steps,
            success_distance=self.components.task.success_distance,
            geodesic=self.simulator.geodesic,
            worlds=None if self.simulator.worlds is None else self.simulator.worlds.view,
            reading=self._reading,
            pictures=self._pictures,
        )

    def _reading(self, name: str) -> np.ndarray:
        return self.components.reading(self.state, name)

    def _pictures(
        self,
        slots: np.ndarray,
        position: np.ndarray,
        heading: np.ndarray,
        camera: Camera,
        targets: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return pictures from places in the scenes of slots; see ``task.api.Pictures``."""
        floor = self.simulator.visible_floor(slots, position)
        if targets is None:
            views = camera_views(camera, floor, heading)
        else:
            views = look_at(floor + np.array([0, camera.eye_height, 0], np.float32), targets)
        return self.cameras.pictures_at(slots, views, camera)

    @property
    def in_flight(self) -> bool:
        """Whether a step has been sent but not received."""
        return self._sent is not None

    def abandon(self) -> None:
        """Discard a step that has been sent but not received."""
        self._sent = None

    @contextmanager
    def paused(self, mask: np.ndarray) -> Iterator[None]:
        """Let environments of a mask [N] bool keep their state in steps inside; ValueError if it splits a world."""
        if self.simulator.worlds is not None:
            self.simulator.worlds.of_rows(np.nonzero(mask)[0])  # raises if the mask splits a world
        outer = self._paused
        self._paused = outer | mask
        try:
            yield
        finally:
            self._paused = outer

    def reset(self, mask: np.ndarray, requested: np.ndarray | None) -> tuple[Observation, dict[str, Any]]:
        """Begin the next episodes, or the episodes ``requested`` [M] int, in the M environments of a mask [N] bool."""
        self._begin_episodes(mask, requested)
        return self.observe(), self._info(self.components.measure_step(self.state))

    def send(self, actions: np.ndarray) -> None:
        """Move, score, begin new episodes and start rendering; actions [N, ...], validated."""
        beginning = self._beginning()
        active = self.state.episodes.valid & ~beginning & ~self._paused
        worlds = self.simulator.worlds
        if worlds is not None:
            active &= ~worlds.waiting()
        clock = time.perf_counter()
        self.simulator.advance()
        clock = self._tick("episodes", clock)
        self.simulator.move(actions, active)
        self.simulator.reach_goals(self.state.success_distance, active)
        clock = self._tick("move", clock)
        state = self.state
        components = self.components
        components.update(state, actions, active)
        measures = components.measure_step(state)
        terminated = components.terminated(state, measures, active)
        truncated = active & state.timed_out & ~terminated
        own_end = terminated | truncated
        if worlds is not None:
            terminated, truncated = worlds.end(terminated, truncated, active)
            components.forget_readings()  # agents may have left
        done = terminated | truncated
        np.copyto(self.simulator.episodes.done, done, where=~self._paused)
        # An agent is rewarded for its own end, which may come before that of its world.
        measures.update(components.measure_ends(state, own_end))
        reward = components.reward(state, measures, active)
        if worlds is not None:
            measures.update(components.measure_ends(state, done))
        for listener in self.listeners:
            listener.moved(Move(actions, active, done, reward, measures))
        self._tick("measure", clock)
        info = self._autoreset(beginning, done, measures)
        clock = time.perf_counter()
        self.cameras.begin(self.simulator.agents)
        self._sent = (reward, terminated, truncated, info)
        self._tick("render", clock)

    def recv(self) -> Returned:
        """Wait for the images and return the results of the step."""
        assert self._sent is not None
        reward, terminated, truncated, info = self._sent
        self._sent = None
        clock = time.perf_counter()
        images = self.cameras.finish()
        self._tick("render", clock)
        return self._observation(images), reward, terminated, truncated, info

    def observe(self) -> Observation:
        """Read every sensor; render only the views that have changed."""
        self.components.forget_readings()  # the state may have been replaced
        clock = time.perf_counter()
        images = self.cameras.refresh(self.simulator.agents)
        self._tick("render", clock)
        return self._observation(images)

    def _beginning(self) -> np.ndarray:
        """Return the environments [N] bool whose last episode has ended, so that this step begins a new one."""
        beginning = self.state.episodes.done & ~self._paused
        if self.autoreset_mode == AutoresetMode.DISABLED and beginning.any():
            index = int(beginning.argmax())
            raise RuntimeError(
                f"environment {index} has ended: call reset() before the next step "
                "(in a batch, reset(options={'reset_mask': terminated | truncated}))"
            )
        return beginning

    def _begin_episodes(self, mask: np.ndarray, requested: np.ndarray | None = None) -> None:
        """Begin the next episodes, or the episodes ``requested`` [M] int, in the M environments of a mask [N] bool."""
        indices = self.simulator.begin_episodes(np.nonzero(mask)[0], requested)
        self.components.begin(self.state, indices)
        self.tell_placed(indices)

    def set_pose(
        self, indices: np.ndarray, position: np.ndarray, heading: np.ndarray, pitch: np.ndarray | None
    ) -> Observation:
        """Move agents to given poses, see ``Simulator.set_pose``, and return the observations there."""
        self.simulator.set_pose(indices, position, heading, pitch)
        self.components.placed(self.state, indices)
        self.tell_placed(indices)
        return self.observe()

    def tell_placed(self, indices: np.ndarray) -> None:
        """Tell the listeners that agents ``indices`` [M] begin where they are now."""
        for listener in self.listeners:
            listener.placed(indices)

    def _autoreset(self, beginning: np.ndarray, done: np.ndarray, measures: Measures) -> dict[str, Any]:
        """Begin episodes in this step as the autoreset mode requires, and return the step's infos.

        | mode      | begins episodes in | infos of finished episodes            |
        |-----------|--------------------|---------------------------------------|
        | NEXT_STEP | ``beginning``      | among those of the step               |
        | SAME_STEP | ``done``           | in ``final_info``, with ``final_obs`` |
        | DISABLED  | none               | among those of the step               |
        """
        ends = self._end_info(measures, done)
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            final = self._final(done, measures, ends) if done.any() else {}
            return {**self._begin(done | beginning, measures), **final}
        return {**self._begin(beginning, measures), **ends}

    def _final(self, done: np.ndarray, measures: Measures, ends: dict[str, Any]) -> dict[str, Any]:
        """Return the last observations and infos of the episodes that ended, before new ones begin."""
        clock = time.perf_counter()
        final_obs = self._observe_rows(np.nonzero(done)[0])
        self._tick("render", clock)
        final_info = {**self._info(measures), **ends}
        return {
            "final_obs": final_obs, "_final_obs": done, "final_info": final_info, "_final_info": done.copy(),
        }  # fmt: skip

    def _begin(self, mask: np.ndarray, measures: Measures) -> dict[str, Any]:
        """Begin episodes in the environments of a mask [N] bool and return the infos of all."""
        clock = time.perf_counter()
        if mask.any():
            self._begin_episodes(mask)
            measures = self.components.measure_step(self.state)
        info = self._info(measures)
        self._tick("episodes", clock)
        return info

    def _info(self, measures: Measures) -> dict[str, Any]:
        """Return the infos of every step: the episode of each environment (``INFO_KEYS``) and the step's measures.

        Infos have one array per key, and a mask [N] bool per array under ``_key``.
        """
        simulator = self.simulator
        slot = simulator.agents.slot
        info: dict[str, Any] = {
            "scene_index": simulator.library.source_index[slot],
            "episode_index": simulator.schedule.first[slot] + simulator.episodes.episode,
        }
        if simulator.schedule.order == "once":
            info["episode_valid"] = simulator.episodes.valid.copy()
        if simulator.worlds is not None:
            info["waiting"] = simulator.worlds.waiting()
        for name in self.components.step_measures:
            info[name] = measures[name].copy()
        for name in tuple(info):
            info[f"_{name}"] = np.ones(simulator.num_agents, bool)
        return info

    def _end_info(self, measures: Measures, done: np.ndarray) -> dict[str, Any]:
        """Return the end measures of the episodes that ended, ``done`` [N] bool; an empty dict if none did."""
        info: dict[str, Any] = {}
        for name in self.components.end_measures if done.any() else ():
            info[name] = measures[name].copy()
            info[f"_{name}"] = done.copy()
        return info

    def _observation(self, images: dict[str, Any]) -> Observation:
        """Return observations with images, which are overwritten, and the readings of all other sensors."""
        clock = time.perf_counter()
        observation = self.observer.observe(self.state, images)
        self._tick("observe", clock)
        return observation

    def _observe_rows(self, indices: np.ndarray) -> Observation:
        """Return observations of all environments, with zeros in all rows except ``indices`` [M]."""
        images = self.cameras.images_of(self.simulator.agents, indices)
        some = self.observer.observe(self.state, images, indices)
        return {name: scatter(values, indices, self.simulator.num_agents) for name, values in some.items()}

    def _tick(self, phase: str, since: float) -> float:
        """Add the time since ``since`` to a phase of the step; return the current time."""
        now = time.perf_counter()
        self.timings[phase] += now - since
        return now
