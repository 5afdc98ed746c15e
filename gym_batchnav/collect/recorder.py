"""Recorder: cuts finished episodes out of a running batch."""

from __future__ import annotations

import errno
import math
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from gym_batchnav.collect.dataset import Episode
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.loop import Step

_SMALL = 1024  # bytes: smaller observations are logged for all environments at once
_FIRST_FRAMES = 64  # of a buffer, which doubles

Frames = dict[str, np.ndarray]  # by sensor, [F, ...]
Finished = tuple[Episode, Frames]  # an episode that has ended, and the buffer that holds its images


class FrameBuffers:
    """Arrays for the images of episodes, used again and again, because new memory is slow at first use.

    Those that main memory has no room for are mapped from temporary files, which the system writes to disk where it
    needs their memory, and removes when the process ends, however it ends. ``most`` are the bytes of main memory that
    the arrays may take; ``spaces`` have the shape and dtype of one image, by sensor.
    """

    def __init__(
        self, spaces: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], folder: Path, most: int
    ) -> None:  # fmt: skip
        self._spaces = dict(spaces)
        self._folder = folder
        self._most = most
        self._frame_bytes = sum(math.prod(shape) * dtype.itemsize for shape, dtype in self._spaces.values())
        self._free: dict[int, list[Frames]] = defaultdict(list)
        self._lock = Lock()
        self.nbytes = 0  # of all buffers in main memory, in use or not
        self.spilled_bytes = 0  # of all in temporary files

    def take(self, num_frames: int) -> Frames:
        """Return arrays for a power of two of frames, with anything in them; ValueError if there is no room."""
        size = num_frames * self._frame_bytes
        with self._lock:
            if self._free[num_frames]:
                return self._free[num_frames].pop()
            spills = self.nbytes + size > self._most
            self.nbytes += 0 if spills else size
            self.spilled_bytes += size if spills else 0
        make = self._mapped if spills else np.empty
        return {key: make((num_frames, *shape), dtype) for key, (shape, dtype) in self._spaces.items()}

    def _mapped(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array in a temporary file.

        Its place on the disk is taken at once, because a process that writes to a file without place is killed.
        """
        size = math.prod(shape) * dtype.itemsize
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                elif shutil.disk_usage(self._folder).free < size:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return np.memmap(file, dtype, "r+" if hasattr(os, "posix_fallocate") else "w+", shape=shape)
        except OSError as error:
            raise ValueError(
                f"the images of unfinished episodes fill {self._most / 2**30:.1f} GiB of memory, and '{self._folder}' "
                f"has no room for more ({error}): pass a smaller num_envs= and collect again; finished shards are kept"
            ) from error

    def give_back(self, frames: Frames) -> None:
        """Take back arrays that are not in use any more; any thread may call it."""
        if frames:
            with self._lock:
                self._free[len(next(iter(frames.values())))].append(frames)


class Recorder:
    """Follows a batch in autoreset mode NEXT_STEP from its reset on, and returns the episodes that end."""

    def __init__(self, env: BatchNavEnv, observation: Mapping[str, np.ndarray], buffers: FrameBuffers) -> None:
        self._env = env
        self._buffers = buffers
        self._clock = 0
        self._big = [key for key, one in observation.items() if is_big(one.shape[1:], one.dtype)]
        self._small = [key for key in observation if key not in self._big]
        self._length = env.max_episode_steps + 2
        self._logs: dict[str, np.ndarray] = {}
        self._start = np.zeros(env.num_envs, np.int64)
        self._frames: list[Frames | None] = [None] * env.num_envs
        self._log_frame(observation)
        self._begin(np.nonzero(env.episodes.valid)[0], observation)

    def record(self, step: Step) -> list[Finished]:
        """Record a step and return the episodes that ended in it."""
        self._log("actions", np.asarray(step.actions, self._env.single_action_space.dtype))
        self._log("rewards", step.reward)
        self._log("terminated", step.terminated)
        self._log("truncated", step.ended & ~step.terminated)
        self._clock += 1
        self._log_frame(step.observation)
        for index in np.nonzero(step.acted)[0].tolist():
            self._keep(index, step.observation)
        finished = self._finish(step) if step.ended.any() else []
        self._begin(np.nonzero(~step.acted & self._env.episodes.valid)[0], step.observation)
        return finished

    def _log(self, name: str, values: np.ndarray) -> None:
        """Keep a row [N, ...] of the present time; rows are kept for as long as an episode can last."""
        values = np.asarray(values)
        if name not in self._logs:
            self._logs[name] = np.zeros((self._length, *values.shape), values.dtype)
        self._logs[name][self._clock % self._length] = values

    def _log_frame(self, observation: Mapping[str, np.ndarray]) -> None:
        """Keep what is small of the present observations, and the poses."""
        agents = self._env.agents
        episodes = self._env.episodes
        for key in self._small:
            self._log(f"observation {key}", observation[key])
        named = {"position": agents.position, "heading": agents.heading, "pitch": agents.pitch}
        for name, values in {**named, "distance": episodes.distance, "goal": episodes.goal}.items():
            self._log(name, values)

    def _begin(self, indices: np.ndarray, observation: Mapping[str, np.ndarray]) -> None:
        """Begin episodes in environments ``indices`` [M] with the present observations."""
        for index in indices.tolist():
            self._start[index] = self._clock
            self._frames[index] = self._buffers.take(_FIRST_FRAMES)
            self._keep(index, observation)

    def _keep(self, index: int, observation: Mapping[str, np.ndarray]) -> None:
        """Keep the present images of an environment."""
        frames = self._frames[index]
        assert frames is not None
        row = self._clock - int(self._start[index])
        for key in self._big:
            if row == len(frames[key]):
                frames = self._frames[index] = self._grown(frames)
            frames[key][row] = observation[key][index]

    def _grown(self, frames: Frames) -> Frames:
        size = len(next(iter(frames.values())))
        larger = self._buffers.take(2 * size)
        for key, values in frames.items():
            larger[key][:size] = values
        self._buffers.give_back(frames)
        return larger

    def _finish(self, step: Step) -> list[Finished]:
        columns = step.ended_episodes()
        measures = {name: columns[name] for name in self._env.components.measures}
        finished = []
        for place, index in enumerate(columns["environment"].tolist()):
            frames = self._frames[index]
            assert frames is not None
            self._frames[index] = None
            ends = {name: values[place].item() for name, values in measures.items()}
            finished.append((self._episode(index, frames, ends), frames))
        return finished

    def _episode(self, index: int, frames: Frames, measures: dict[str, bool | int | float]) -> Episode:
        env = self._env
        rows = np.arange(self._start[index], self._clock + 1) % self._length
        number = int(env.episodes.episode[index])
        episodes = env.simulator.episode_set(int(env.agents.slot[index]))
        category = int(env.episodes.category[index])

        def logged(name: str, rows: np.ndarray) -> np.ndarray:
            return self._logs[name][rows, index]

        return Episode(
            scene=env.scene_name(index),
            number=number,
            id=episodes.ids[number],
            observations={
                **{key: frames[key][: len(rows)] for key in self._big},
                **{key: logged(f"observation {key}", rows) for key in self._small},
            },
            **{name: logged(name, rows[:-1]) for name in ("actions", "rewards", "terminated", "truncated")},
            **{name: logged(name, rows) for name in ("position", "heading", "pitch", "distance", "goal")},
            start_distance=float(env.episodes.start_distance[index]),
            category=episodes.categories[category] if category < len(episodes.categories) else "",
            measures=measures,
        )


def is_big(shape: tuple[int, ...], dtype: Any) -> bool:
    """Return whether one observation of a shape and dtype is so large that each environment has a buffer for it."""
    return int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize > _SMALL
