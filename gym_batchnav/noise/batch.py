"""Runs a kernel on the images of a batch, on one thread if they are few and otherwise on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import get_num_threads, set_num_threads

from gym_batchnav.system.process import PARALLEL_KERNELS

_SERIAL_VALUES = 2**18  # about as long as it takes to wake the threads


def run_on_images(
    kernel: Callable[..., None], images: np.ndarray, keys: np.ndarray, dtype: type[np.generic], *tables: Any
) -> None:
    """Call ``kernel(rows, keys, *tables)`` with the images as rows.

    Args:
        kernel: A kernel that changes rows in place.
        images: [N, H, W, C] of the dtype, contiguous.
        keys: [N] uint64.
        dtype: The dtype that the kernel was written for.
        *tables: Further arguments.

    Raises:
        ValueError: The images have another dtype or shape or are not contiguous, or the number of keys differs.
    """
    if images.ndim != 4 or images.dtype != dtype:
        raise ValueError(f"images are {images.dtype} {images.shape}: pass {np.dtype(dtype)} (N, H, W, channels)")
    if not images.flags.c_contiguous or keys.shape != (len(images),):
        raise ValueError(f"images {images.shape} with keys {keys.shape}: pass contiguous images and one key for each")
    if not images.size:
        return
    rows = images.reshape(len(images), -1)
    keys = np.array(keys, np.uint64)
    threads = get_num_threads()
    with PARALLEL_KERNELS:
        set_num_threads(1 if images.size <= _SERIAL_VALUES else threads)
        try:
            kernel(rows, keys, *tables)
        finally:
            set_num_threads(threads)
