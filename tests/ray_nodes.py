"""Ray clusters of nodes on this machine."""

import os
import sys
import time
from contextlib import contextmanager
from unittest import mock

HANG = 600  # seconds: a limit is for a hang, not for a busy machine
# Those by which a lost node is noticed keep their values.
CONFIG = {
    "agent_register_timeout_ms": 1000 * HANG,
    "worker_register_timeout_seconds": HANG,
    "memory_monitor_refresh_ms": 0,  # other programs may take the memory
}
NODE = {"object_store_memory": 100_000_000, "include_log_monitor": False}


class LocalNodes:
    """A head, and nodes with one processor each. Two processors suffice for all: Ray only counts them.

    Args:
        num_nodes: The number of nodes besides the head.
        head_cpus: Processors of the head.

    Attributes:
        address: For ``--ray`` and ``ray.init``.
        nodes: The nodes besides the head.
    """

    def __init__(self, num_nodes, head_cpus=0):
        from ray.cluster_utils import Cluster

        self._num_nodes = num_nodes
        self._cluster = Cluster()
        self.nodes = []
        try:
            head = {"num_cpus": head_cpus, "include_dashboard": False, "no_monitor": True}
            self._add(**head, _system_config=CONFIG)
            self.address = self._cluster.address
            self.complete()
        except BaseException:
            self.close()
            raise

    def complete(self):
        """Add nodes in the place of killed ones."""
        while len(self.nodes) < self._num_nodes:
            self.nodes.append(self._add(num_cpus=1))

    def kill(self, name=None):
        """Kill a node and all its processes: the one whose name in the display is given, or any."""
        ids = [node.node_id for node in self.nodes]
        chosen = 0 if name is None else next(i for i, one in enumerate(ids) if one[:4] == name.split()[-1])
        self._cluster.remove_node(self.nodes.pop(chosen), allow_graceful=False)

    def close(self):
        """Kill all nodes."""
        self._cluster.shutdown()

    def _add(self, **settings):
        with patience():
            return self._cluster.add_node(**NODE, **settings)


@contextmanager
def patience():
    """Wait longer for a node that starts; Ray waits for half a minute."""
    from ray._private import services

    look = services.get_node

    def get_node(*arguments):
        begun = time.monotonic()
        while True:
            try:
                return look(*arguments)
            except RuntimeError:  # it is not there yet
                if time.monotonic() - begun > HANG:
                    raise
                time.sleep(0.1)

    waits = {"RAY_gcs_server_port_wait_time_s": str(HANG)}
    with mock.patch.object(services, "get_node", get_node), mock.patch.dict(os.environ, waits):
        yield


@contextmanager
def connected_nodes(num_nodes):
    """Connect this process to nodes, the head among them, whose processes find the modules of tests and examples."""
    import ray

    cluster = LocalNodes(num_nodes - 1, head_cpus=1)
    path = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    try:
        ray.init(address=cluster.address, runtime_env=path, logging_level="error", log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.close()
