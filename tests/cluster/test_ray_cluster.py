"""Jobs on a Ray cluster of three local nodes, one of which is killed: every piece once. ``nox -s ray`` runs these."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

ray = pytest.importorskip("ray", reason="ray is not installed")
if not hasattr(ray, "init"):  # a folder of that name
    pytest.skip("ray is not installed", allow_module_level=True)

from gym_batchnav.cluster.display import NodesDisplay  # noqa: E402
from gym_batchnav.cluster.job import Finished  # noqa: E402
from gym_batchnav.cluster.ray_cluster import connected, run_job  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # a hang, not a busy machine
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the nodes cannot import tests


@dataclass(frozen=True)
class Squares:
    """The squares of numbers; leaves a line in a file when it begins one.

    Attributes:
        diary: The file.
        seconds: Time for a number.
        workers: Wait with the first number until so many processes have begun one.
        fails_at: Number that raises an error.
        dies_at: Number that kills the process.
    """

    diary: Path
    num_pieces: int = 60
    seconds: float = 0.1
    what: str = "Squares"
    grain: int = 2
    exclusive: bool = False
    workers: int = 1
    fails_at: int = -1
    dies_at: int = -1

    def open(self):
        return self

    def close(self):
        pass

    def run(self, pieces):
        for piece in pieces:
            if piece == self.fails_at:
                raise ValueError(f"{piece} is not to be squared")
            if piece == self.dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            with self.diary.open("a") as file:
                file.write(f"{os.getpid()} {piece}\n")
            while len({line.split()[0] for line in self.diary.read_text().splitlines()}) < self.workers:
                time.sleep(0.05)
            time.sleep(self.seconds)
            yield Finished([piece], piece**2)


def begun(diary):
    """The processes and the pieces that they began, in order."""
    return [tuple(map(int, line.split())) for line in diary.read_text().splitlines()]


def test_errors_of_the_job_reach_the_caller(cluster, tmp_path):
    job = Squares(tmp_path / "diary", fails_at=7, seconds=0.01)
    with pytest.raises(ValueError, match=r"on .*: 7 is not to be squared"):
        list(run_job(job, cluster.address))


def test_a_process_that_always_dies_is_given_up(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.cluster.ray_cluster.MAX_LOST", 2)
    monkeypatch.setattr("gym_batchnav.cluster.ray_cluster.REST_SECONDS", 0)
    job = Squares(tmp_path / "diary", dies_at=0, num_pieces=1)
    with pytest.raises(RuntimeError, match="2 workers in a row were lost"):
        list(run_job(job, cluster.address))


def test_workers_end_when_the_caller_stops(cluster, tmp_path):
    diary = tmp_path / "diary"
    job = Squares(diary, num_pieces=10_000)
    with connected(cluster.address):
        results = run_job(job, cluster.address)
        next(results)
        results.close()
        while any(Path(f"/proc/{process}").exists() for process, _ in begun(diary)):
            time.sleep(0.1)
        count = len(begun(diary))
        time.sleep(0.5)
        assert len(begun(diary)) == count < job.num_pieces


def test_every_piece_is_there_once_although_a_node_is_killed(cluster, tmp_path, capsys):
    diary = tmp_path / "diary"
    found = {}
    killed = None
    for finished in run_job(Squares(diary, workers=3), cluster.address):
        (piece,) = finished.pieces
        assert piece not in found
        found[piece] = finished.result
        if killed is None:
            killed = set(found)
            cluster.kill()
    assert found == {piece: piece**2 for piece in range(60)}
    by_process = {}
    for process, piece in begun(diary):
        by_process.setdefault(piece, []).append(process)
    repeated = {piece: processes for piece, processes in by_process.items() if len(processes) > 1}
    assert not set(repeated) & killed  # what had arrived before is not done again
    assert all(len(processes) == 2 for processes in repeated.values())
    assert len({first for first, _ in repeated.values()}) <= 1  # nor what others had begun
    said = capsys.readouterr().err
    assert "Lost a worker on" in said and "60 of 60" in said


def test_nodes_and_processors_are_chosen(cluster, tmp_path, capsys):
    chosen = cluster.nodes[1].node_id
    assert len(list(run_job(Squares(tmp_path / "diary", seconds=0.01), cluster.address, 1, [chosen]))) == 60
    assert f"{chosen[:4]} 60)" in capsys.readouterr().err


class Holder:
    """An actor of somebody else's."""


def test_why_workers_wait_is_said(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("gym_batchnav.cluster.ray_cluster.NOTE_SECONDS", 1.0)
    say = NodesDisplay.say

    def free_and_say(self, text):
        while holders:
            ray.kill(holders.pop())
        say(self, text)

    monkeypatch.setattr(NodesDisplay, "say", free_and_say)
    with connected(cluster.address):
        holders = [ray.remote(num_cpus=1)(Holder).remote() for _ in range(3)]
        ray.get([one.__ray_ready__.remote() for one in holders])
        assert len(list(run_job(Squares(tmp_path / "diary", num_pieces=6, seconds=0), cluster.address))) == 6
    said = capsys.readouterr().err
    assert said.index("has not started for 1 s: other work on the cluster may hold") < said.index("6 of 6")


def test_an_address_without_a_cluster(tmp_path):
    with pytest.raises(ConnectionError, match=r"no Ray cluster at 'nowhere'.*start one with ray start --head"):
        list(run_job(Squares(tmp_path / "diary"), "nowhere"))
