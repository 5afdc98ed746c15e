"""StreamDataset: a stream as a torch IterableDataset. Needs torch (extra ``[train]``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from gym_batchnav.evaluation.agents import Acting
from gym_batchnav.stream.settings import StreamSettings
from gym_batchnav.stream.stream import BatchStream


class StreamDataset(IterableDataset):
    """Minibatches of a BatchStream as dicts of tensors.

    Each iteration starts a stream, and ends it when its iterator is closed or forgotten. Pass
    ``DataLoader(dataset, batch_size=None)``, because minibatches are made here, or iterate over the dataset itself.

    With ``num_workers`` W, each worker process runs a batch of its own, with its own seeds and, if scenes rotate, its
    own order of scenes; the loader takes minibatches from the workers in turn, so that all contribute equally. Every
    worker holds scenes and a memory of its own. On a machine with few cores use ``num_workers=0``: the simulation runs
    beside the learner in a thread already. Start workers with ``multiprocessing_context="spawn"`` if this process has
    used gym_batchnav.

    Args:
        environment: Keywords of BatchNavEnv.
        settings: How frames become minibatches.
        agent: See BatchStream; for worker processes it must be picklable.
        pin_memory: Make minibatches in page-locked memory, from which ``.to("cuda", non_blocking=True)`` copies beside
            computation; None does so if there is an NVIDIA GPU. Workers cannot: use the loader's own ``pin_memory``.

    Raises:
        ValueError: ``pin_memory`` is True without a GPU.
    """

    def __init__(
        self,
        environment: Mapping[str, Any],
        settings: StreamSettings | None = None,
        agent: Acting | None = None,
        *,
        pin_memory: bool | None = None,
    ) -> None:
        if pin_memory and not torch.cuda.is_available():
            raise ValueError("pin_memory=True: torch finds no NVIDIA GPU; leave it out")
        self.environment = dict(environment)
        self.settings = StreamSettings() if settings is None else settings
        self.agent = agent
        self.pin_memory = pin_memory

    def stream(self) -> BatchStream:
        """Start the stream of this process, whose arrays are those of the tensors."""
        worker = get_worker_info()
        if worker is not None:
            return BatchStream(
                self.environment, self.settings, self.agent, worker=worker.id, num_workers=worker.num_workers
            )
        pin = torch.cuda.is_available() if self.pin_memory is None else self.pin_memory
        return BatchStream(self.environment, self.settings, self.agent, empty=_pinned if pin else np.empty)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """Start a stream and yield its minibatches without end."""
        with self.stream() as stream:
            for batch in stream:
                yield tensors_of(batch)


def tensors_of(batch: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Return the arrays of a minibatch as tensors that share their memory."""
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def _pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array in page-locked memory, which torch reuses once all copies from it have ended."""
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    return torch.empty(shape, dtype=kind, pin_memory=True).numpy()
