"""What all tests of learning share."""

import numba
import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Small networks on one thread: as fast, and no threads that wait for each other on a busy machine.

    Numba's kernels too: they share OpenMP with torch and would set its number of threads again.
    """
    torch = pytest.importorskip("torch", reason="torch is not installed")
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1), numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0]), numba.set_num_threads(before[1])
