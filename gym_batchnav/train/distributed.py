"""Several workers that train one policy, each with its own environments: DD-PPO (Wijmans et al. 2020)."""

from __future__ import annotations

import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

_BUCKET_MIB = 16  # of gradients, which are sent once they are there

T = TypeVar("T")


class Workers:
    """The process group. ``Workers()`` is a group of one, for which every collective is a no-op.

    All workers must call the same methods in the same order; otherwise they wait for one another until a time limit.
    """

    def __init__(self) -> None:
        self.rank = 0  # worker 0 logs
        self.size = 1
        self.local_rank = 0  # on this machine, also of the GPU; if there are more workers than GPUs, they share them
        self.local_size = 1
        self.seconds = 0.0  # of waiting for other workers so far
        self._is_joined = False

    @classmethod
    def from_environment(cls, timeout: float = 600.0) -> Workers:
        """Join the workers that torchrun started, by its environment variables; without them, return a group of one.

        Args:
            timeout: Seconds to wait for the others, here and in every collective.

        Raises:
            RuntimeError: The others did not join in time.
        """
        workers = cls()
        if int(os.environ.get("WORLD_SIZE", 1)) == 1:
            return workers
        limit = timedelta(seconds=timeout)
        workers.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        backend = _backend(workers.local_size)
        try:
            store, workers.rank, workers.size = next(torch.distributed.rendezvous("env://", timeout=limit))
            store.set_timeout(limit)
            torch.distributed.init_process_group(
                backend, store=store, rank=workers.rank, world_size=workers.size, timeout=limit
            )
        except RuntimeError as error:
            rank = os.environ["RANK"]
            size = os.environ["WORLD_SIZE"]
            raise RuntimeError(
                f"worker {rank} of {size} could not join the others within {timeout:g} s ({error}): start all of them "
                "with the same torchrun --master-addr and --master-port"
            ) from error
        workers.local_rank = int(os.environ.get("LOCAL_RANK", 0))
        workers._is_joined = True
        return workers

    def parallel(self, policy: nn.Module) -> nn.Module:
        """Return a module that calls the policy and whose backward pass averages gradients over the workers.

        The module shares the policy's parameters, which are first set to those of worker 0, buffers included. Gradients
        are sent in buckets, the last layers first, while the backward pass computes those of earlier layers.
        """
        if self.size == 1:
            return policy
        # A kernel of one channel has two equal layouts, of which torch's convolution returns the other one.
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        known = inspect.signature(DistributedDataParallel).parameters
        # The name before torch 2.13 is the second one.
        buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        keywords: dict[str, Any] = {buffers: False, "gradient_as_bucket_view": True, "bucket_cap_mb": _BUCKET_MIB}
        return DistributedDataParallel(policy, **keywords)

    def broadcast(self, value: T) -> T:
        """Return worker 0's value, which may be anything that can be pickled."""
        box = [value]
        self._wait_for(torch.distributed.broadcast_object_list, box, 0)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Return the values of all workers, by rank; they may be anything that can be pickled."""
        values = [value] * self.size
        self._wait_for(torch.distributed.all_gather_object, values, value)
        return values

    def barrier(self) -> None:
        """Wait until every worker has called this."""
        self.gather(None)

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over the workers, in place, and return it."""
        self._wait_for(torch.distributed.all_reduce, values)
        return values

    def loss_weights(self, num_frames: list[int]) -> list[float]:
        """Return a factor for the loss of each mini-batch, so that every frame has the same weight in the gradients.

        Where agents wait for others, mini-batches have different numbers of frames, and a mean over workers would give
        the frames of small ones too much weight. Losses are means over the frames in each mini-batch of this worker.
        """
        if self.size == 1:
            return [1.0] * len(num_frames)
        own = torch.tensor(num_frames, dtype=torch.float64)
        return (own * self.size / self.total(own.clone())).tolist()

    @contextmanager
    def explains_lost_workers(self) -> Iterator[None]:
        """Raise RuntimeError if another worker is gone, in code that itself communicates, such as ``parallel``."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or not _is_lost_connection(error):
                raise
            raise self._lost(error) from error

    def close(self) -> None:
        """Leave the group; idempotent."""
        if self._is_joined:
            self._is_joined = False
            torch.distributed.destroy_process_group()

    def _wait_for(self, collective: Callable[..., Any], *arguments: Any) -> None:
        """Call a collective, unless the group has one worker, and measure the time."""
        if self.size == 1:
            return
        clock = time.perf_counter()
        try:
            collective(*arguments)
        except RuntimeError as error:
            raise self._lost(error) from error
        self.seconds += time.perf_counter() - clock

    def _lost(self, error: RuntimeError) -> RuntimeError:
        """Return the error for a worker whose connection to the others has failed."""
        return RuntimeError(
            f"worker {self.rank} of {self.size} lost the others ({error}): check their output, then restart all"
        )


def _is_lost_connection(error: RuntimeError) -> bool:
    """Return whether a collective failed because of another worker."""
    return isinstance(error, torch.distributed.DistError) or any(name in str(error) for name in ("gloo", "NCCL"))


def _backend(local_size: int) -> str:
    """Return the backend for the workers of a machine: NCCL, or Gloo if workers share a GPU, which NCCL refuses."""
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        return "gloo"
    return "gloo" if local_size > torch.cuda.device_count() else "cpu:gloo,cuda:nccl"
