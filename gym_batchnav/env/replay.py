"""Recording and replaying what happens in worlds, bit for bit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from gym_batchnav.env.batch import BatchNavEnv, batch_of
from gym_batchnav.env.step import Move
from gym_batchnav.system.storage import make_folder
from gym_batchnav.worlds.api import STEP_SECONDS
from gym_batchnav.worlds.log import PARTS, WorldLog

ENDING = ".npz"


@dataclass(slots=True)
class _Recording:
    """An episode of a world that has not ended; lists have one entry per row of the log."""

    scene: str
    state: dict[str, dict[str, np.ndarray]]
    position: list[np.ndarray] = field(default_factory=list)  # [B, 3]
    heading: list[np.ndarray] = field(default_factory=list)  # [B]
    present: list[np.ndarray] = field(default_factory=list)  # [B]
    actions: list[np.ndarray] = field(default_factory=list)  # [M, ...]


class RecordWorlds(VectorWrapper):
    """Writes one file per finished episode of a world, which ``WorldLog.load`` reads and ``replay`` repeats.

    An environment without others is a world of one body. Files are ``000000_world_3.npz`` and so on, numbered in the
    order in which episodes end. After ``set_state`` or ``set_pose`` the recording begins anew from there. Episodes that
    are reset before their end are not written.

    Args:
        env: A BatchNavEnv, or a Gymnasium vector wrapper around one; wrap it before the first reset.
        folder: Folder for the files; it is created.
        worlds: The worlds to record; all by default.

    Raises:
        TypeError: ``env`` is not a batch.
        ValueError: The folder has recordings already, or a world does not exist.
        OSError: The folder cannot be created.
    """

    def __init__(self, env: VectorEnv, folder: str | PathLike[str], worlds: Collection[int] | None = None) -> None:
        super().__init__(env)
        self.folder = Path(folder)
        self.num_written = 0
        self._batch = batch_of(env)
        num_worlds = env.num_envs // self._batch.config.team.most
        recorded = set(range(num_worlds) if worlds is None else worlds)
        if not recorded <= set(range(num_worlds)):
            raise ValueError(f"worlds={worlds}: there are worlds 0 to {num_worlds - 1}")
        self._is_recorded = np.isin(np.arange(num_worlds), list(recorded))
        self._recordings: dict[int, _Recording] = {}
        dtype = self._batch.single_action_space.dtype
        if dtype not in (np.float32, np.int64):
            raise ValueError(f"actions of {dtype} cannot be recorded: give their space float32 or int64")
        make_folder(self.folder)
        if any(self.folder.glob(f"*{ENDING}")):
            raise ValueError(f"folder '{self.folder}' has {ENDING} files already: name an empty one")
        self._batch.stepper.listeners.append(self)

    def placed(self, indices: np.ndarray) -> None:
        """Begin recordings of the worlds of agents ``indices`` [M]; the batch calls this."""
        worlds = np.unique(indices // self._batch.config.team.most)
        worlds = worlds[self._is_recorded[worlds]].tolist()
        if not worlds:
            return
        state = self._batch.simulator.get_state()
        for world in worlds:
            scene = self._batch.scene_name(self._rows(world).start)
            self._recordings[world] = _Recording(scene, self._rows_of_state(state, world))
        self._note_poses(worlds)

    def moved(self, move: Move) -> None:
        """Record a step, and write the episodes that have ended; the batch calls this."""
        moving = [world for world in self._recordings if move.active[self._rows(world)].any()]
        self._note_poses(moving)
        for world in moving:
            rows = self._rows(world)
            self._recordings[world].actions.append(move.actions[rows].copy())
            if move.done[rows.start]:
                path = self.folder / f"{self.num_written:06d}_world_{world}{ENDING}"
                self._log(self._recordings.pop(world)).save(path)
                self.num_written += 1

    def close(self, **kwargs: Any) -> None:
        """Close the batch; recordings of episodes that have not ended are dropped."""
        if self in self._batch.stepper.listeners:
            self._batch.stepper.listeners.remove(self)
        self._recordings.clear()
        super().close(**kwargs)

    def _rows(self, world: int) -> slice:
        size = self._batch.config.team.most
        return slice(world * size, (world + 1) * size)

    def _rows_of_state(self, state: dict[str, Any], world: int) -> dict[str, dict[str, np.ndarray]]:
        """Return a world's rows of the state of the batch, by part and name."""
        rows = self._rows(world)
        parts = {part: state[part] for part in PARTS if part in state}
        chosen = {part: slice(world, world + 1) if part == "worlds" else rows for part in parts}
        return {part: {name: one[chosen[part]].copy() for name, one in parts[part].items()} for part in parts}

    def _note_poses(self, worlds: list[int]) -> None:
        """Add the present poses of all bodies to the recordings of some worlds."""
        agents = self._batch.simulator.agents
        shared = self._batch.simulator.worlds
        if shared is not None:
            shared.copy_agents(agents)
        for world in worlds:
            one = self._recordings[world]
            row = self._rows(world)
            bodies = (agents.position[row], agents.heading[row], np.ones(1, bool))
            if shared is not None:
                bodies = (shared.state.position[world], shared.state.heading[world], shared.state.present[world])
            for values, column in zip(bodies, (one.position, one.heading, one.present), strict=True):
                column.append(values.copy())

    def _log(self, recording: _Recording) -> WorldLog:
        seconds, shapes, radius = bodies_of(self._batch)
        return WorldLog(
            scene=recording.scene,
            seconds=seconds,
            shapes=shapes,
            radius=radius,
            position=np.stack(recording.position),
            heading=np.stack(recording.heading),
            present=np.stack(recording.present),
            actions=np.stack(recording.actions),
            state=recording.state,
        )


def replay(envs: VectorEnv, log: WorldLog) -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]]:
    """Repeat a recorded episode: return an iterator over what ``step`` returns, one item per step of the log.

    Poses, rewards and observations equal those of the recording bit for bit, if the batch has the same keywords and
    versions; compare positions with ``log.position`` to check this.

    Args:
        envs: A batch of one world with the keywords of the recorded one, which may be wrapped.
        log: The recording.

    Raises:
        TypeError: ``envs`` is not a batch.
        ValueError: The batch has other scenes, episodes, agents or bodies.
    """
    batch = batch_of(envs)
    if batch.num_envs != log.num_agents:
        raise ValueError(
            f"the batch has {batch.num_envs} environments and the log {log.num_agents} agents: make the batch with "
            f"num_envs={log.num_agents}"
        )
    seconds, shapes, radius = bodies_of(batch)
    if shapes != log.shapes or not np.array_equal(radius, log.radius) or seconds != log.seconds:
        raise ValueError(
            f"{log!r} has other bodies or steps of another duration: pass the agents_per_world=, bodies= and actions= "
            "of the recorded batch"
        )
    envs.reset()
    batch.set_state(_state_for(batch, log))
    return _steps(envs, log)


def _steps(envs: VectorEnv, log: WorldLog) -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]]:
    for actions in log.actions:
        yield envs.step(actions)


def _state_for(batch: BatchNavEnv, log: WorldLog) -> dict[str, Any]:
    """Return the state of a batch of one world at the beginning of a log; ValueError if it does not fit the batch."""
    slots = [slot for slot in batch.library.active.tolist() if batch.library.name(slot) == log.scene]
    if not slots:
        raise ValueError(f"scene {log.scene!r} of the log is not resident: pass the scenes= of the recorded batch")
    state = batch.get_state()
    if set(log.state) != {part for part in PARTS if part in state}:
        raise ValueError(f"{log!r} has other bodies: pass the agents_per_world= and bodies= of the recorded batch")
    for part, arrays in log.state.items():
        state[part] = {name: arrays.get(name, one) for name, one in state[part].items()}
    state["agents"]["slot"] = np.full(log.num_agents, slots[0], np.int32)
    episodes = batch.simulator.episode_set(slots[0])
    rows = np.asarray(state["episodes"]["episode"], np.int64)
    fits = rows.min() >= 0 and rows.max() < len(episodes)
    if not fits or not np.array_equal(episodes.start[rows], state["episodes"]["start"]):
        raise ValueError(
            f"{log!r} has episodes that this batch does not have: pass the task=, episodes= and "
            "navmesh_settings= of the recorded batch"
        )
    return state


def bodies_of(batch: BatchNavEnv) -> tuple[float, tuple[str, ...], np.ndarray]:
    """Return the duration of a step, and the shapes [B] and radii [B] float64 of the bodies of a world."""
    worlds = batch.worlds
    if worlds is not None:
        return worlds.seconds, worlds.shapes, worlds.radius
    team = batch.config.team
    return float(getattr(batch.actions, "time_step", STEP_SECONDS)), (team.shape,), np.array([team.radius])
