"""Commands on a Ray cluster of three local nodes, one of which is killed, give the results of one process."""

import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from ray_nodes import LocalNodes
from rooms import box_room
from typer.testing import CliRunner

ray = pytest.importorskip("ray", reason="ray is not installed")
if not hasattr(ray, "init"):  # a folder of that name
    pytest.skip("ray is not installed", allow_module_level=True)

from gym_batchnav.cli import app  # noqa: E402
from gym_batchnav.cluster.shards import connected, run_shards  # noqa: E402
from gym_batchnav.scene.save import save_glb  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # a hang, not a busy machine
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the nodes cannot import tests


@pytest.fixture(scope="module")
def _cluster():
    cluster = LocalNodes(3)
    yield cluster
    ray.shutdown()
    cluster.close()


@pytest.fixture
def cluster(_cluster):
    """A cluster of three nodes; a test may kill some."""
    yield _cluster
    _cluster.complete()


def squared(diary, seconds, fails_at, dies_at, shard):
    """The square of the shard's number; leaves a line in a file when it begins."""
    with diary.open("a") as file:
        file.write(f"{os.getpid()} {shard.number}\n")
    if shard.number == fails_at:
        raise ValueError(f"{shard.number} is not to be squared")
    if shard.number == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)
    return shard.number**2


def begun(diary):
    """The processes and the shards that they began, in order."""
    return [tuple(map(int, line.split())) for line in diary.read_text().splitlines()] if diary.exists() else []


def kill_when(cluster, ready):
    """Kill a node as soon as something is ready; returns the thread."""

    def kill():
        while not ready():
            time.sleep(0.05)
        cluster.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_every_shard_is_there_once_although_a_node_is_killed(cluster, tmp_path):
    diary = tmp_path / "diary"
    killer = kill_when(cluster, lambda: len({process for process, _ in begun(diary)}) == 3)
    found = run_shards(partial(squared, diary, 1.0, -1, -1), cluster.address, "Squares", 100)
    killer.join()
    assert {shard.number: result for shard, result in found.items()} == {number: number**2 for number in range(1, 13)}
    assert len(begun(diary)) == 13  # what the killed node had begun


def test_errors_of_the_work_and_of_its_process_reach_the_caller(cluster, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"on .*: 7 is not to be squared"):
        run_shards(partial(squared, tmp_path / "diary", 0.01, 7, -1), cluster.address, "Squares", 100)
    monkeypatch.setattr("gym_batchnav.cluster.shards.MAX_RETRIES", 1)
    with pytest.raises(RuntimeError, match="shard 1/1 was started 2 times, and each time its process or node ended"):
        run_shards(partial(squared, tmp_path / "diary", 0.01, -1, 1), cluster.address, "Squares", 1)
    with pytest.raises(ConnectionError, match=r"no Ray cluster at 'nowhere'.*start one with ray start --head"):
        run_shards(str, "nowhere", "Nothing", 1)


def test_tasks_end_when_the_caller_stops(cluster, tmp_path):
    diary = tmp_path / "diary"
    with connected(cluster.address), pytest.raises(ValueError, match="1 is not to be squared"):
        run_shards(partial(squared, diary, 600.0, 1, -1), cluster.address, "Squares", 3)
    while any(Path(f"/proc/{process}").exists() for process, number in begun(diary) if number != 1):
        time.sleep(0.1)


@pytest.mark.parametrize("command", ["collect run", "evaluate"])
def test_a_command_gives_the_files_of_one_process_although_a_node_is_killed(cluster, tmp_path, command):
    save_glb(box_room("hall", width=9.0), tmp_path / "hall.glb")
    words = [*command.split(), "--scenes", str(tmp_path / "hall.glb"), "--num-envs", "2"]
    if command == "collect run":
        words += ["--episodes-per-scene", "100", "--size", "8", "--to", "webdataset"]
    else:
        pytest.importorskip("torch", reason="torch is not installed")
        words += ["--policy", "mapper", "--agents", "random,follower", "--episodes", "60"]
    here, there = tmp_path / "here", tmp_path / "there"
    result = CliRunner().invoke(app, [*words, "--out", str(here)])
    assert result.exit_code == 0, (result.output, result.exception)
    killer = kill_when(cluster, lambda: any(process_is_working()))
    result = CliRunner().invoke(app, [*words, "--out", str(there), "--ray", cluster.address])
    killer.join()
    assert result.exit_code == 0, (result.output, result.exception)
    assert contents(there) == contents(here)


def process_is_working():
    """Yield whether processes of this machine do a shard."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            yield path.read_text().startswith("ray::_on_node")
        except OSError:
            continue


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
