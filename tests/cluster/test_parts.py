"""What the driver decides without a cluster: places, errors of nodes, the check of a shared cache."""

from types import SimpleNamespace

import numba
import pytest

from gym_batchnav.cli.cluster import check_one_division
from gym_batchnav.cluster.display import NodesDisplay
from gym_batchnav.cluster.node import NodeWorker, version_here
from gym_batchnav.cluster.ray_cluster import _cause, _places, run_job
from gym_batchnav.cluster.scenes import ScenesJob
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.system import process
from gym_batchnav.system.process import num_processors


def node(alive=True, **resources):
    return {"NodeID": "abcdef", "NodeManagerHostname": "one", "Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (node(CPU=8.0), [{"num_cpus": 8}]),
        (node(CPU=8.0, GPU=2.0), [{"num_cpus": 4, "num_gpus": 1}] * 2),
        (node(CPU=1.0, GPU=2.0), [{"num_cpus": 1, "num_gpus": 1}]),
        (node(CPU=0.0), []),
        (node(GPU=1.0), []),
        (node(alive=False, CPU=8.0), []),
    ],
)
def test_a_node_has_a_worker_per_gpu_as_far_as_processors_go_or_one(found, expected):
    places = _places([found])
    assert list(places) == [("abcdef", number) for number in range(len(expected))]
    assert [resources for _, resources in places.values()] == expected
    assert {name for name, _ in places.values()} <= {"one abcd"}


@pytest.mark.parametrize(
    ("found", "num_cpus", "exclusive", "expected"),
    [
        (node(CPU=8.0), 3, False, [{"num_cpus": 3}] * 2),
        (node(CPU=2.0), 3, False, [{"num_cpus": 2}]),
        (node(CPU=8.0, GPU=2.0), 1, False, [{"num_cpus": 1, "num_gpus": 1}] * 2),
        (node(CPU=8.0, GPU=2.0), 8, False, [{"num_cpus": 8, "num_gpus": 1}]),
        (node(CPU=8.0, GPU=2.0), None, True, [{"num_cpus": 8, "num_gpus": 2}]),
        (node(CPU=8.0), 3, True, [{"num_cpus": 3}]),
    ],
)
def test_processors_of_workers_can_be_chosen(found, num_cpus, exclusive, expected):
    assert [resources for _, resources in _places([found], num_cpus, exclusive).values()] == expected
    with pytest.raises(ValueError, match="num_cpus=0"):
        next(run_job(SimpleNamespace(), "nowhere", num_cpus=0))


def test_a_worker_uses_the_processors_that_it_was_given(monkeypatch):
    monkeypatch.setattr(process, "_limit", None)
    before = numba.get_num_threads()
    seen = []

    class Job:
        def open(self):
            seen.append((num_processors(), numba.get_num_threads()))
            return self

        def run(self, pieces):
            return iter(pieces)

    try:
        assert list(NodeWorker(Job(), version_here(), 1).run([3])) == [3]
    finally:
        numba.set_num_threads(before)
    assert seen == [(1, 1)]


def test_another_version_on_a_node_is_refused():
    assert version_here() == version_here()
    worker = NodeWorker(SimpleNamespace(open=None), "0.0.1 (else)", 1)
    with pytest.raises(ValueError, match=r"0.0.1 \(else\) where the command runs: install the same version"):
        list(worker.run([0]))


def test_errors_of_nodes_name_the_node_and_the_remedy():
    class Wrapped(Exception):
        cause: Exception | None = None

    missing = _cause(Wrapped("ModuleNotFoundError: No module named 'gym_batchnav'"), "one")
    assert "gym_batchnav is not installed on one: install the same version on all nodes" in str(missing)
    error = Wrapped("a long trace")
    error.cause = ValueError("no such scene")
    assert type(_cause(error, "one")) is ValueError and str(_cause(error, "one")) == "on one: no such scene"
    error.cause = FileNotFoundError(2, "No such file")
    assert _cause(error, "one") is error.cause


def test_a_cache_that_is_not_shared_is_refused(tmp_path):
    job = ScenesJob(("apartments",), {}, ("apartment_0",), NavigationPreparer(), tmp_path, ".cluster-0", 1)
    with pytest.raises(ValueError, match=r"cache_dir=.*nodes do not share this folder: name one that they share"):
        job.open()


def test_work_is_divided_in_one_way():
    check_one_division("1/2", None)
    check_one_division(None, "auto")
    with pytest.raises(ValueError, match="shard=1/2 with ray=auto"):
        check_one_division("1/2", "auto")
    with pytest.raises(ValueError, match="ray_cpus=2 without ray="):
        check_one_division(None, None, 2)


def test_the_display_counts_by_node(capsys):
    with NodesDisplay("Episodes", 10) as display:
        for name, pieces in (("a", 3), ("b", 5), ("a", 2)):
            display.joined(name)
            display.finished(name, pieces)
        display.lost("b", 1)
    said = capsys.readouterr().err
    assert "Lost a worker on b: 1 unfinished piece" in said
    assert "Episodes: 10 of 10 after 0 s (a 5, b 5)" in said
