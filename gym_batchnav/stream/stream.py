"""BatchStream: minibatches from a simulation that runs in a thread."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes, Scenes, autoreset_mode_of
from gym_batchnav.evaluation.agents import Acting, Agent, ShortestPathAgent, as_agent
from gym_batchnav.stream.memory import Columns, Empty, Format, SampleMemory
from gym_batchnav.system.numbers import check_choice, check_counts, check_flags, check_seed, is_number

PARTS = ("simulate", "render", "act", "store", "draw", "idle")
_POLL = 0.1  # seconds after which a simulation that waits for its consumer looks whether it is to stop
MEMORIES = ("replay", "reservoir")
_FIXED = {
    "autoreset_mode": ("next_step", "the last frame of an episode is part of the stream"),
    "obs_device": ("cpu", "frames are kept in main memory"),
}


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """Settings by which the frames of a running batch become minibatches.

    A sample is one frame, or ``sequence_length`` successive frames of one environment. Every sample enters a memory of
    bounded size, from which minibatches are drawn uniformly and without repetition within a minibatch.

    Attributes:
        batch_size: B, samples per minibatch.
        sequence_length: T, frames per sample. Sequences do not overlap, and may contain the end of an episode and the
            beginning of the next.
        memory: ``"replay"`` keeps the newest samples; ``"reservoir"`` keeps each sample of the whole stream with the
            same probability (Vitter's algorithm R, 1985), against forgetting.
        capacity: Samples in the memory; all of it is allocated at once.
        min_samples: Samples in the memory before the first minibatch; None means a quarter of the capacity, and at
            least one minibatch. More of them come from more places.
        samples_per_frame: How often a frame is drawn on average, counted from the first minibatch on. The simulation
            waits for the learner and the learner for the simulation, so that this number holds whatever their speeds.
            Below 1 some frames are never seen.
        prefetch: Minibatches that are prepared ahead.
        seed: Seed of the drawing and of the environments.
        deterministic: Give the same minibatches in every run. Scenes then rotate at the same steps in every run, which
            may wait for the loader.
        threads: Threads of the simulation; None does not change their number.
    """

    batch_size: int = 128
    sequence_length: int = 1
    memory: str = "replay"
    capacity: int = 8192
    min_samples: int | None = None
    samples_per_frame: float = 1.0
    prefetch: int = 4
    seed: int = 0
    deterministic: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        check_counts(batch_size=self.batch_size, sequence_length=self.sequence_length, capacity=self.capacity,
                     prefetch=self.prefetch)  # fmt: skip
        check_choice("memory", self.memory, MEMORIES)
        check_flags(deterministic=self.deterministic)
        optional = {"min_samples": self.min_samples, "threads": self.threads}
        check_counts(**{name: value for name, value in optional.items() if value is not None})
        check_seed(seed=self.seed)
        if not is_number(self.samples_per_frame) or not 0 < self.samples_per_frame <= 1e6:
            raise ValueError(f"samples_per_frame={self.samples_per_frame!r}: pass a number above 0 and up to 1e6")
        for name in ("batch_size", "min_samples"):
            value = getattr(self, name)
            if value is not None and value > self.capacity:
                raise ValueError(f"{name}={value} of capacity={self.capacity}: pass at most the capacity")

    @property
    def first_draw(self) -> int:
        """Samples in the memory before the first minibatch."""
        wanted = self.capacity // 4 if self.min_samples is None else self.min_samples
        return max(wanted, self.batch_size)

    def environment(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keywords of the batch, from those that the user has given.

        Raises:
            ValueError: They are not keywords, or one does not suit a stream, or contradicts these settings.
        """
        if not isinstance(given, Mapping):
            raise ValueError(f"environment={given!r:.100}: pass the keywords of BatchNavEnv, as in {{'num_envs': 64}}")
        keywords = dict(given)
        for name, (value, why) in _FIXED.items():
            found = keywords.setdefault(name, value)
            same = autoreset_mode_of(found) == autoreset_mode_of(value) if name == "autoreset_mode" else found == value
            if not same:
                raise ValueError(f"{name}={found!r}: leave it out, because {why}")
        if keywords.get("library") is not None:
            raise ValueError("library=: pass scenes= instead, because the batch of a stream runs in another thread")
        if Episodes.of(keywords.get("episodes")).order != "random":
            raise ValueError("episodes= in order 'once': leave the order out, because a stream has no end")
        if self.deterministic:
            keywords["scenes"] = replace(Scenes.of(keywords.get("scenes")), deterministic_rotation=True)
        keywords.setdefault("buffers", 2)
        return keywords


class BatchStream:
    """An endless iterator over minibatches from a simulation that runs in a thread while the consumer learns.

    Nothing is written to disk, and memory is bounded: the simulation waits if the consumer is slow. Kernels and
    renderers release Python's global lock, so both sides run at the same time.

    A minibatch is a dict of fresh arrays [B, ...], or [B, T, ...] with ``sequence_length`` T above 1: the sensors of
    the observation, and

    - ``action``: the action taken after the observation;
    - ``reward`` float32, ``terminated`` bool: the results of that action;
    - ``begun`` bool: the observation is the first of its episode;
    - ``acted`` bool: the action was carried out. It was not after the last observation of an episode, where the next
      frame of the sequence begins another one;
    - ``scene`` int32: the number of the scene in the list of scenes;
    - ``frame`` int64: the number of the frame in the stream; ``frame % num_envs`` is its environment.

    For a torch DataLoader, see ``gym_batchnav.stream.dataset``.

    Args:
        environment: Keywords of BatchNavEnv, such as ``{"num_envs": 64, "scenes": "procedural:0-99"}``.
        settings: How frames become minibatches.
        agent: Chooses the actions, in the stream's thread: an Agent (see ``evaluation.agents``) or a function from
            observations to actions [N].
        worker: Number of this stream among those that feed the same learner. Each has other seeds and, if scenes
            rotate, another order of scenes.
        num_workers: Number of these streams.
        empty: Makes the arrays of a minibatch from a shape and a dtype.

    Raises:
        ValueError: A keyword or setting is wrong, or the memory does not fit.
    """

    def __init__(
        self,
        environment: Mapping[str, Any],
        settings: StreamSettings | None = None,
        agent: Acting | None = None,
        *,
        worker: int = 0,
        num_workers: int = 1,
        empty: Empty = np.empty,
    ) -> None:
        self.settings = StreamSettings() if settings is None else settings
        if not 0 <= worker < num_workers:
            raise ValueError(f"worker={worker} of num_workers={num_workers}: pass a number from 0 to num_workers - 1")
        agent = ShortestPathAgent() if agent is None else agent
        self._producer = _Producer(environment, self.settings, agent, worker, num_workers, empty)
        self._error: BaseException | None = None
        self._batches = 0
        self._waited = 0.0
        self._first: float | None = None  # when the first minibatch was handed over
        thread = threading.Thread(target=self._producer.run, name="gym_batchnav stream", daemon=True)
        # The thread knows the producer, not the stream: a stream without references stops.
        self._finalizer = weakref.finalize(self, _stop, self._producer.stopped, thread)
        thread.start()
        try:
            self._get()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Columns]:
        return self

    def __next__(self) -> Columns:
        """Return the next minibatch.

        Raises:
            RuntimeError: The stream is closed.
            Exception: The error that ended the simulation, in this and all later calls.
        """
        if self.closed:
            raise RuntimeError("next() after close(): make a new stream")
        clock = time.perf_counter()
        batch = self._get()
        now = time.perf_counter()
        if self._first is None:
            self._first = now
        else:
            self._waited += now - clock
        assert batch is not None
        self._batches += 1
        return batch

    def __enter__(self) -> BatchStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether ``close`` has been called."""
        return not self._finalizer.alive

    def stats(self) -> dict[str, Any]:
        """Return counts and times so far.

        Returns:
            ``frames`` simulated; ``batches`` handed over; ``waited``, seconds for which the consumer waited since the
            first minibatch; ``wait_share``, their share of the time since then; ``parts``, seconds of the stream's
            thread: ``simulate``, ``render``, ``act``, ``store``, ``draw``, and ``idle``, for which it waited.
        """
        elapsed = 0.0 if self._first is None else time.perf_counter() - self._first
        return {
            "frames": self._producer.frames,
            "batches": self._batches,
            "waited": self._waited,
            "wait_share": self._waited / elapsed if elapsed else 0.0,
            "parts": dict(self._producer.seconds),
        }

    def close(self) -> None:
        """Stop the simulation after its current step and release its batch; idempotent."""
        self._finalizer()

    def _get(self) -> Columns | None:
        """Return the next message of the thread; raise its error."""
        if self._error is None:
            message = self._producer.messages.get()
            if not isinstance(message, BaseException):
                return message
            self._error = message
        raise self._error


def _stop(stopped: threading.Event, thread: threading.Thread) -> None:
    """Stop the thread of a stream and wait for its end, unless it is the one that collects a forgotten stream."""
    stopped.set()
    if thread is not threading.current_thread():
        thread.join()


class _Producer:
    """Steps a batch, keeps its frames in a memory and hands minibatches drawn from it over.

    The batch is made, used and closed in the thread that calls ``run``, as its renderer requires.

    Attributes:
        messages: Minibatches, an error that ends them, and at first None, when the batch is ready.
        stopped: Set to ask for the end.
        frames: Frames simulated so far.
        seconds: Seconds spent so far, by part; see PARTS.
    """

    def __init__(
        self, keywords: Mapping[str, Any], settings: StreamSettings, agent: Acting, worker: int, num_workers: int,
        empty: Empty,
    ) -> None:  # fmt: skip
        self.messages: queue.Queue[Columns | BaseException | None] = queue.Queue(settings.prefetch)
        self.stopped = threading.Event()
        self.frames = 0
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._keywords = settings.environment(keywords)
        self._settings = settings
        self._agent = as_agent(agent)
        self._worker = worker
        self._first = settings.seed * num_workers + worker  # no two workers and no two seeds share one
        self._empty = empty

    def run(self) -> None:
        """Produce until the stream is stopped.

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
            self._offer(RuntimeError("the stream was closed by another thread during next()"))
        except BaseException as error:
            self._offer(error)

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
        frames = FrameSource(env, self._agent, self._first * num_envs, self.seconds)
        self._offer(None)
        owed = 0.0  # samples to draw for the frames so far
        while not self.stopped.is_set():
            memory.begin(num_envs)
            for step in range(settings.sequence_length):
                frames.next(memory, step)
                self.frames += num_envs
            memory.end(num_envs)
            if len(memory) >= settings.first_draw:
                owed += num_envs * settings.samples_per_frame
            while owed >= settings.batch_size and not self.stopped.is_set():
                owed -= settings.batch_size
                clock = time.perf_counter()
                batch = memory.draw(settings.batch_size, self._empty)
                drawn = time.perf_counter()
                self._offer(batch)
                self.seconds["draw"] += drawn - clock
                self.seconds["idle"] += time.perf_counter() - drawn

    def _offer(self, message: Columns | BaseException | None) -> None:
        """Hand a message over when there is place for it; drop it if the stream is stopped and no consumer waits."""
        while True:
            try:
                return self.messages.put(message, timeout=_POLL)
            except queue.Full:
                if self.stopped.is_set():
                    return


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
