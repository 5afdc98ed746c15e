"""Several workers that train one policy, each with its own environments: DD-PPO (Wijmans et al. 2020)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed
from torch import Tensor, nn

DONE_SHARE = 0.6  # once this share of the workers has finished its rollout, the others cut theirs short
SHORTEST_SHARE = 0.25  # a rollout is never cut shorter than this share of its steps
_COLLECTED = "collected"

T = TypeVar("T")


class Workers:
    """The process group. ``Workers()`` is a group of one, for which every collective is a no-op.

    All workers must call the same methods in the same order; otherwise they wait for one another until a time limit.

    Attributes:
        rank: Index of this worker; worker 0 logs.
        size: Number of workers.
        local_rank: Index of this worker on its machine. Worker i uses GPU i; if there are more workers than GPUs, they
            share them in turn.
        seconds: Seconds spent waiting for other workers so far.
    """

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1
        self.local_rank = 0
        self.seconds = 0.0
        self._store: Any = None
        self._num_rollouts = 0  # that this worker has finished

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
        backend = _backend(int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
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
        workers._store = torch.distributed.PrefixStore("gym_batchnav", store)
        return workers

    def broadcast_weights(self, policy: nn.Module) -> None:
        """Copy the weights and buffers of worker 0's policy to every worker."""
        for values in (*policy.parameters(), *policy.buffers()):
            self._wait_for(torch.distributed.broadcast, values.detach(), 0)

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

    def average_gradients(self, policy: nn.Module, num_frames: int) -> None:
        """Replace every worker's gradients by the mean over the frames of all workers.

        Args:
            policy: The policy; its gradients are means over this worker's frames.
            num_frames: Number of these frames.
        """
        if self.size == 1:
            return
        gradients = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients] + [gradients[0].new_ones(1)])
        flat = self.total(flat.mul_(num_frames))
        flat.div_(flat[-1].clone())
        for gradient, mean in zip(gradients, flat.split([one.numel() for one in gradients] + [1]), strict=False):
            gradient.copy_(mean.view(gradient.shape))

    def is_late(self, share: float) -> bool:
        """Return whether to end a rollout after this share of it, since most other workers have finished theirs."""
        if self.size == 1 or share < SHORTEST_SHARE:
            return False
        # Learning waits for all workers, so each has finished as many rollouts as this one, or one more.
        ahead = self._store.add(_COLLECTED, 0) - self.size * self._num_rollouts
        return ahead >= DONE_SHARE * self.size

    def collected(self) -> None:
        """Report to the others that this worker has finished its rollout, complete or cut short."""
        self._num_rollouts += 1
        if self.size > 1:
            self._store.add(_COLLECTED, 1)

    def close(self) -> None:
        """Leave the group; idempotent."""
        if self._store is not None:
            self._store = None
            torch.distributed.destroy_process_group()

    def _wait_for(self, collective: Callable[..., Any], *arguments: Any) -> None:
        """Call a collective, unless the group has one worker, and measure the time."""
        if self.size == 1:
            return
        clock = time.perf_counter()
        try:
            collective(*arguments)
        except RuntimeError as error:
            raise RuntimeError(
                f"worker {self.rank} of {self.size} lost the others ({error}): check their output, then restart all"
            ) from error
        self.seconds += time.perf_counter() - clock


def _backend(local_size: int) -> str:
    """Return the backend for the workers of a machine: NCCL, or Gloo if workers share a GPU, which NCCL refuses."""
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        return "gloo"
    return "gloo" if local_size > torch.cuda.device_count() else "cpu:gloo,cuda:nccl"
