"""Fixtures for all tests of training."""

import numba
import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Run small networks on one thread, which is as fast and does not suffer from other load.

    Numba's kernels too: they share OpenMP with torch and would set its number of threads again.
    """
    torch = pytest.importorskip("torch", reason="torch is not installed")
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1), numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0]), numba.set_num_threads(before[1])


@pytest.fixture(autouse=True)
def one_seed():
    """Begin every test with the same generator of torch, whatever ran before in the process."""
    pytest.importorskip("torch", reason="torch is not installed").manual_seed(0)
