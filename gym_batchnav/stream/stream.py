"""BatchStream: minibatches from a simulation that runs in a thread."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gym_batchnav.evaluation.agents import Acting, ShortestPathAgent
from gym_batchnav.stream.memory import Columns, Empty
from gym_batchnav.stream.producer import Handover, Producer
from gym_batchnav.stream.settings import StreamSettings


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
        self._handover = Handover(self.settings.prefetch)
        agent = ShortestPathAgent() if agent is None else agent
        self._producer = Producer(environment, self.settings, agent, self._handover, worker, num_workers, empty)
        self._error: BaseException | None = None
        self._batches = 0
        self._waited = 0.0
        self._first: float | None = None  # when the first minibatch was handed over
        thread = threading.Thread(target=self._producer.run, name="gym_batchnav stream", daemon=True)
        # The thread knows the producer, not the stream: a stream that nobody holds any more stops.
        self._finalizer = weakref.finalize(self, _stop, self._handover, thread)
        thread.start()
        try:
            self._get()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[Columns]:
        """Return the stream itself, which continues where it is."""
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
        """Return the stream."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the stream."""
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
            message = self._handover.get()
            if not isinstance(message, BaseException):
                return message
            self._error = message
        raise self._error


def _stop(handover: Handover, thread: threading.Thread) -> None:
    """Stop the thread of a stream and wait for its end, unless it is the one that collects a forgotten stream."""
    handover.stop()
    if thread is not threading.current_thread():
        thread.join()
