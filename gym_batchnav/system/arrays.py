"""Arrays in NumPy's format from untrusted bytes."""

from __future__ import annotations

import io
import math
import struct
import tokenize

import numpy as np

# What zipfile and NumPy raise for damaged files and headers.
UNREADABLE = (ValueError, OSError, EOFError, KeyError, RuntimeError, MemoryError, OverflowError, SyntaxError, TypeError,
              struct.error, tokenize.TokenError)  # fmt: skip
_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def array_of_npy(data: bytes, kinds: str) -> np.ndarray:
    """Return the array of the bytes of a .npy file, whose dtype is of one of ``kinds``.

    NumPy's own reader takes the memory that the header claims before it reads; here the header must fit the bytes.

    Raises:
        ValueError: The array has another dtype or size, or one of the other errors in ``UNREADABLE``.
    """
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"an array in version {version} of NumPy's format")
    shape, is_fortran, dtype = _READERS[version](stream)
    start = stream.tell()
    count = math.prod(shape)
    if dtype.kind not in kinds or min(shape, default=0) < 0 or count * dtype.itemsize != len(data) - start:
        raise ValueError(f"an array of {dtype} {shape} in {len(data) - start} bytes")
    array = np.frombuffer(data, dtype, count, start).reshape(shape, order="F" if is_fortran else "C")
    return np.ascontiguousarray(array).reshape(shape)
