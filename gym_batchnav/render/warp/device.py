"""The device that Warp draws on, and what it shares with torch."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import numpy as np
import warp as wp


@cache
def has_nvidia_device() -> bool:
    """Return whether Warp finds an NVIDIA device."""
    before = wp.config.log_level
    wp.config.log_level = max(before, wp.LOG_ERROR)  # Warp prints messages when it is initialised
    wp.init()
    wp.config.log_level = before
    return bool(wp.is_cuda_available())


def warp_device() -> Any:
    """Return the device to draw on: torch's current one, this worker's of several, or the processor without any.

    LOCAL_RANK is torchrun's: worker i uses the i-th device, counted round robin if there are more workers.
    """
    if not has_nvidia_device():
        return wp.get_device("cpu")
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        return wp.get_device(f"cuda:{cuda.current_device()}")
    return wp.get_device(f"cuda:{int(os.environ.get('LOCAL_RANK') or 0) % wp.get_cuda_device_count()}")


def check_cuda() -> None:
    """Raise RuntimeError, by the environment's keyword, unless pictures can stay on an NVIDIA device."""
    if not has_nvidia_device():
        raise RuntimeError("obs_device='cuda': Warp finds no NVIDIA device: use obs_device='cpu'")
    try:
        import torch
    except ImportError as error:
        raise RuntimeError(f"obs_device='cuda' needs torch ({error}): install it, or use obs_device='cpu'") from error
    if not torch.cuda.is_available():
        raise RuntimeError(
            "obs_device='cuda': this torch has no CUDA: install a build with it, or use obs_device='cpu'"
        )


def stream(device: Any, of_torch: bool) -> AbstractContextManager[Any]:
    """Return a context in which Warp queues its work on its own stream of a device, or on torch's current one."""
    if not of_torch:
        return nullcontext()
    import torch

    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device.ordinal)))


def to_cuda(array: np.ndarray) -> Any:
    """Copy an array to a torch tensor on torch's current NVIDIA device."""
    import torch

    return torch.as_tensor(array, device="cuda")
