"""A Ray cluster of a head without processors and three nodes."""

import pytest
from ray_nodes import LocalNodes


@pytest.fixture(scope="session")
def _cluster():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    cluster = LocalNodes(3)
    yield cluster
    ray.shutdown()
    cluster.close()


@pytest.fixture
def cluster(_cluster):
    """A cluster of three nodes; a test may kill some."""
    yield _cluster
    _cluster.complete()
