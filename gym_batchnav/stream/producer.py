"""Producer: steps a batch in a thread and hands minibatches over."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from typing import Any, TypeAlias

import numba
import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import Acting, Agent, as_agent
from gym_batchnav.stream.memory import Columns, Empty, Format, SampleMemory
from gym_batchnav.stream.settings import StreamSettings

PARTS = ("simulate", "render", "act", "store", "draw", "idle")
Message: TypeAlias = Columns | BaseException | None


class Handover:
    """A bounded queue between the thread of a stream and its consumer, which either side may end.

    Args:
        capacity: Minibatches that may lie in it.
    """

    def __init__(self, capacity: int) -> None:
        self._free = threading.Semaphore(capacity)
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.stopped = threading.Event()

    def wait_for_place(self) -> bool:
        """Wait until there is place for a minibatch; return False if the stream is to stop."""
        self._free.acquire()
        return not self.stopped.is_set()

    def put(self, batch: Message) -> None:
        """Hand over a minibatch for which there is place, an error, or None at the beginning."""
        self._messages.put(batch)

    def get(self) -> Message:
        """Wait for the next message, and make place for another one."""
        message = self._messages.get()
        if isinstance(message, dict):
            self._free.release()
        return message

    def stop(self) -> None:
        """Ask the producer to stop."""
        self.stopped.set()
        self._free.release()


class Producer:
    """Steps a batch, keeps its frames in a memory and draws minibatches from it.

    The batch is made, used and closed in the thread that calls ``run``, as its renderer requires.

    Args:
        keywords: Keywords of BatchNavEnv.
        settings: How frames become minibatches.
        agent: Chooses the actions.
        handover: Takes the minibatches.
        worker: Number of this stream among those that feed the same learner.
        num_workers: Number of these streams.
        empty: Makes the arrays of a minibatch.

    Attributes:
        frames: Frames simulated so far.
        seconds: Seconds spent so far, by part; see PARTS.
    """

    def __init__(
        self,
        keywords: Mapping[str, Any],
        settings: StreamSettings,
        agent: Acting,
        handover: Handover,
        worker: int = 0,
        num_workers: int = 1,
        empty: Empty = np.empty,
    ) -> None:
        self.frames = 0
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._keywords = settings.environment(keywords)
        self._settings = settings
        self._agent = as_agent(agent)
        self._handover = handover
        self._worker = worker
        self._num_workers = num_workers
        self._empty = empty

    def run(self) -> None:
        """Produce until the stream is stopped; errors are handed over, and so is None when the batch is ready.

        An error is also the last message of a stream that was stopped: its consumer may be waiting in another thread.
        """
        try:
            if self._settings.threads is not None:
                most: Any = numba.config  # its attributes are created at import, which mypy does not see
                numba.set_num_threads(min(self._settings.threads, most.NUMBA_NUM_THREADS))
            env = BatchNavEnv(**self._keywords)
            try:
                self._produce(env)
            finally:
                env.close()
            self._handover.put(RuntimeError("the stream was closed by another thread during next()"))
        except BaseException as error:
            self._handover.put(error)

    def _produce(self, env: BatchNavEnv) -> None:
        """Add samples and draw minibatches in turns."""
        settings = self._settings
        num_envs = env.num_envs
        if num_envs > settings.capacity:
            raise ValueError(
                f"num_envs={num_envs} of capacity={settings.capacity}: pass a capacity of at least num_envs"
            )
        rng = np.random.default_rng([settings.seed, self._worker])
        reservoir = settings.memory == "reservoir"
        memory = SampleMemory(columns_of(env), settings.capacity, settings.sequence_length, reservoir, rng)
        frames = FrameSource(env, self._agent, self._first_seed(num_envs), self.seconds)
        self._handover.put(None)
        owed = 0.0  # samples to draw for the frames so far
        while not self._handover.stopped.is_set():
            memory.begin(num_envs)
            for step in range(settings.sequence_length):
                frames.next(memory, step)
                self.frames += num_envs
            memory.end(num_envs)
            if len(memory) >= settings.first_draw:
                owed += num_envs * settings.samples_per_frame
            while owed >= settings.batch_size:
                owed -= settings.batch_size
                if not self._hand_over(memory):
                    return

    def _hand_over(self, memory: SampleMemory) -> bool:
        """Draw a minibatch and hand it over; return False if the stream is to stop."""
        clock = time.perf_counter()
        if not self._handover.wait_for_place():
            return False
        drawing = time.perf_counter()
        batch = memory.draw(self._settings.batch_size, self._empty)
        self.seconds["idle"] += drawing - clock
        self.seconds["draw"] += time.perf_counter() - drawing
        self._handover.put(batch)
        return True

    def _first_seed(self, num_envs: int) -> int:
        """Return the seed of environment 0; no two workers and no two seeds share the seed of an environment."""
        return (self._settings.seed * self._num_workers + self._worker) * num_envs


class FrameSource:
    """A batch whose frames go to a memory, one per environment and step.

    Args:
        env: The batch, with autoreset mode NEXT_STEP.
        agent: Chooses the actions.
        seed: Seed of environment 0.
        seconds: Seconds by part, which are counted here.
    """

    def __init__(self, env: BatchNavEnv, agent: Agent, seed: int, seconds: dict[str, float]) -> None:
        self._env = env
        self._agent = agent
        self._seconds = seconds
        self._observation, self._info = env.reset(seed=seed)
        agent.reset(env)
        self._begun = np.ones(env.num_envs, bool)
        self._ended = np.zeros(env.num_envs, bool)
        self._number = np.arange(env.num_envs)

    def next(self, memory: SampleMemory, step: int) -> None:
        """Write the frames [N] of the current step to a memory and take the step."""
        env = self._env
        clock = time.perf_counter()
        actions = self._agent.act(env, self._observation, self._begun)
        clock = self._count("act", clock)
        acted = ~self._ended
        if env.worlds is not None:
            acted &= ~env.worlds.waiting()
        frame = {"begun": self._begun, "acted": acted, "action": actions, "frame": self._number}
        memory.put(step, {**self._observation, **frame, "scene": self._info["scene_index"]})
        clock = self._count("store", clock)
        rendered = env.timings["render"]
        self._observation, reward, terminated, truncated, self._info = env.step(actions)
        self._seconds["render"] += env.timings["render"] - rendered
        self._seconds["simulate"] -= env.timings["render"] - rendered
        clock = self._count("simulate", clock)
        memory.put(step, {"reward": reward, "terminated": terminated})
        self._count("store", clock)
        self._begun = self._ended
        self._ended = terminated | truncated
        self._number = self._number + env.num_envs

    def _count(self, part: str, since: float) -> float:
        """Add the seconds since a time to a part, and return the time now."""
        now = time.perf_counter()
        self._seconds[part] += now - since
        return now


def columns_of(env: BatchNavEnv) -> Format:
    """Return the shape and dtype of one frame of a batch, by name.

    Raises:
        ValueError: A sensor has the name of a column of the stream.
    """
    spaces: Any = env.single_observation_space
    space = env.single_action_space
    assert space.dtype is not None and space.shape is not None
    own: Format = {
        "action": (space.shape, space.dtype),
        "reward": ((), np.dtype(np.float32)),
        "terminated": ((), np.dtype(bool)),
        "begun": ((), np.dtype(bool)),
        "acted": ((), np.dtype(bool)),
        "scene": ((), np.dtype(np.int32)),
        "frame": ((), np.dtype(np.int64)),
    }
    taken = sorted(set(own) & set(spaces))
    if taken:
        raise ValueError(f"sensors {taken}: a stream uses these names itself; rename the sensors")
    return {**{name: (box.shape, np.dtype(box.dtype)) for name, box in spaces.items()}, **own}
