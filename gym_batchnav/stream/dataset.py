"""StreamDataset: a stream as a torch IterableDataset. Needs torch (extra ``[train]``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gym_batchnav.evaluation.agents import Acting
from gym_batchnav.stream.stream import BatchStream, StreamSettings
from gym_batchnav.system.extras import needs_extra

with needs_extra("train", "StreamDataset"):
    import torch
    from torch.utils.data import IterableDataset, get_worker_info


class StreamDataset(IterableDataset):
    """Minibatches of a BatchStream as dicts of tensors.

    Each iteration starts a stream, and ends it when its iterator is closed or forgotten. Pass
    ``DataLoader(dataset, batch_size=None)``, because minibatches are made here, or iterate over the dataset itself.
    Where there is an NVIDIA GPU they are in page-locked memory, from which ``.to("cuda", non_blocking=True)`` copies
    during computation; worker processes leave that to the loader's own ``pin_memory``.

    With ``num_workers`` W, each worker process runs a separate batch, with its own seeds and, if scenes rotate, its
    own order of scenes; the loader takes minibatches from the workers in turn, so that all contribute equally. Every
    worker holds its own scenes and memory. On a machine with few cores use ``num_workers=0``: the simulation already
    runs in a thread next to the learner. Start workers with ``multiprocessing_context="spawn"`` if this process has
    used gym_batchnav.

    Args:
        environment: Keywords of BatchNavEnv.
        settings: How frames become minibatches.
        agent: See BatchStream; for worker processes it must be picklable.
    """

    def __init__(
        self, environment: Mapping[str, Any], settings: StreamSettings | None = None, agent: Acting | None = None
    ) -> None:
        self.settings = StreamSettings() if settings is None else settings
        self.environment = self.settings.environment(environment)
        self.agent = agent

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        worker = get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        empty = _pinned if worker is None and torch.cuda.is_available() else np.empty
        with BatchStream(
            self.environment, self.settings, self.agent, worker=number, num_workers=count, empty=empty
        ) as stream:
            for batch in stream:
                yield tensors_of(batch)


def tensors_of(batch: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Return the arrays of a minibatch as tensors that share their memory."""
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def _pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array in page-locked memory, which torch reuses once all copies from it have ended."""
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    return torch.empty(shape, dtype=kind, pin_memory=True).numpy()
