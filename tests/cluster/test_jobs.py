"""The jobs of commands, in one process: pickled as for a node, in parts, with a part that is lost and done again."""

import json
import os
import pickle
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from rooms import box_room
from typer.testing import CliRunner

from gym_batchnav.cli import app
from gym_batchnav.cluster.scenes import prepare_on
from gym_batchnav.cluster.tuning import Measured, kinds_of
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.features import SceneFeatures
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.library.workers import PreparationWorker
from gym_batchnav.scene.save import save_glb
from gym_batchnav.system.runs import read_runs
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.tuning.features import Machine, Run, Situation, SpeedSettings
from gym_batchnav.tuning.measure import Workload
from gym_batchnav.tuning.tune import Limits, SearchSpace


def run_here(job, address, num_cpus=None, nodes=None):
    """Do a job as two nodes would, in another folder; the first is lost after its first message."""
    before = Path.cwd()
    os.chdir("/")
    try:
        yield from run_on_nodes(job)
    finally:
        os.chdir(before)


def run_on_nodes(job):
    pieces = list(range(job.num_pieces))
    lost = pickle.loads(pickle.dumps(job)).open()
    try:
        half = pieces[: max(len(pieces) // 2, 1)]
        first = next(iter(lost.run(half)))
    finally:
        lost.close()
    assert set(first.pieces) <= set(half) and len(set(first.pieces)) == len(first.pieces)
    yield first
    left = [piece for piece in pieces if piece not in first.pieces]
    runner = pickle.loads(pickle.dumps(job)).open()
    try:
        found = []
        for finished in runner.run(left):
            yield finished
            found += finished.pieces
    finally:
        runner.close()
    assert sorted(found) == left


@pytest.mark.slow
def test_an_evaluation_equals_that_of_one_process(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    from gym_batchnav.cluster import evaluation
    from gym_batchnav.evaluation.comparison import Asked, make_comparison
    from gym_batchnav.evaluation.report import summary as summary_of
    from gym_batchnav.evaluation.world import PolicyAbout
    from gym_batchnav.geometry import Camera
    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.policy_agent import load_agent
    from gym_batchnav.train.policy_file import save_policy

    monkeypatch.setattr(evaluation, "run_job", run_here)
    monkeypatch.setattr(evaluation, "REPORT_SECONDS", 0.01)
    save_glb(box_room("hall"), tmp_path / "hall.glb")
    about = PolicyAbout(
        "small", sensors=("depth",), camera=Camera(16, 16), forward_step=0.25, turn_angle_deg=10.0,
        max_episode_steps=40, preset="mine", frames=7, seed=0,
    )  # fmt: skip
    torch.manual_seed(0)
    save_policy(tmp_path / "policy.safetensors", make_policy("small", about.observation_space()), about)
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    comparison = make_comparison(
        Asked((str(tmp_path / "policy.safetensors"),), scenes=("hall.glb",), episodes=7, num_envs=3), load_agent
    )
    try:
        comparison.run(0)
        summary = summary_of(comparison, 0)
        columns = {agent: repr_of(episodes) for agent, episodes in comparison.results.items()}
        card = comparison.protocol()
        comparison.results.clear()
        evaluation.run_comparison(comparison, "nowhere")
        assert summary_of(comparison, 0) == summary and comparison.protocol() == card
        assert {agent: repr_of(episodes) for agent, episodes in comparison.results.items()} == columns
    finally:
        comparison.close()


def repr_of(episodes):
    """All values of episodes, which repr gives to the last bit."""
    names = ("scene_index", "episode_index", "num_steps", "total_reward", "start_distance", *episodes.measures)
    return {name: repr(getattr(episodes, name).tolist()) for name in names}


def test_files_with_names_of_agents_do_not_travel(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    from gym_batchnav.cluster.evaluation import _contents
    from gym_batchnav.evaluation.comparison import Asked

    monkeypatch.chdir(tmp_path)
    names = ("random", "follower", "mapper", "blind", "pointnav_depth", "mine.safetensors")
    for name in names:
        Path(name).write_bytes(name.encode())
    asked = Asked(("mine.safetensors",), agents=("blind", "random", "follower", "mapper", "pointnav_depth", "./random"))
    contents = _contents(asked)
    assert contents == {"mine.safetensors": b"mine.safetensors", "./random": b"random"}
    there = asked.with_files({name: Path("/there") / name for name in contents})
    assert there.policies == ("/there/mine.safetensors",)
    assert there.agents == ("blind", "random", "follower", "mapper", "pointnav_depth", "/there/random")
    blind = replace(asked, policies=("random",), agents=("blind", "random"), blind_file=Path("random"))
    assert _contents(blind) == {"random": b"random"}  # of the blind policy alone
    there = blind.with_files({"random": Path("/there/random")})
    assert there.policies == ("random",) and there.agents == ("blind", "random")
    assert there.blind_file == Path("/there/random")


def test_scenes_are_prepared_and_refused_as_by_one_process(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.cluster.scenes.run_job", run_here)
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    for number in range(3):
        save_glb(box_room(width=5.0 + number), rooms / f"room_{number}.glb")
    (rooms / "broken.glb").write_bytes(b"glTF but no more")
    monkeypatch.chdir(tmp_path)
    cache = tmp_path / "cache"
    arguments = ["scene", "prepare", "rooms", "--num-episodes", "20", "--cache-dir", str(cache), "--workers", "1"]
    result = CliRunner().invoke(app, [*arguments, "--ray", "nowhere"])
    assert result.exit_code == 1 and "3 of 4 scenes ready" in result.output, result.output
    assert "broken" in result.output and "cut short" in result.output
    disk = DiskCache(cache)
    worker = PreparationWorker(NavigationPreparer(num_episodes=20, cache=disk))
    ready = {source.name for source in scene_sources(str(rooms), disk) if worker.is_prepared(source.recipe)}
    assert ready == {f"room_{number}" for number in range(3)}
    assert not list(cache.glob(".cluster-*"))


@pytest.mark.slow
def test_scenes_are_prepared_for_the_task_that_was_given(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.cluster.scenes.run_job", run_here)
    for name in ("hall", "room"):
        save_glb(box_room(name), tmp_path / f"{name}.glb")
    disk = DiskCache(tmp_path / "cache")
    sources = scene_sources(str(tmp_path / "*.glb"), disk)
    preparer = NavigationPreparer(num_episodes=20, cache=disk, sampler=MultiGoalNav().sampler)
    worker = PreparationWorker(preparer)
    assert not any(worker.is_prepared(source.recipe) for source in sources)
    assert not prepare_on("nowhere", [str(tmp_path / "*.glb")], {}, ["hall", "room"], preparer, 1)
    assert all(worker.is_prepared(source.recipe) for source in sources)


def test_a_collection_equals_that_of_one_process(tmp_path, monkeypatch):
    pytest.importorskip("zarr", reason="zarr is not installed")
    monkeypatch.setattr("gym_batchnav.cluster.collection.run_job", run_here)
    monkeypatch.setattr("gym_batchnav.cluster.collection.NUM_PARTS", 2)
    save_glb(box_room("hall"), tmp_path / "hall.glb")
    monkeypatch.chdir(tmp_path)
    words = ["collect", "--scenes", "hall.glb", "--episodes-per-scene", "5", "--num-envs", "2"]
    words += ["--episodes-per-shard", "2", "--size", "8", "--to", "webdataset", "--out"]
    for name, options in (("here", []), ("there", ["--ray", "nowhere"])):
        result = CliRunner().invoke(app, [*words, str(tmp_path / name), *options])
        assert result.exit_code == 0, (result.output, result.exception)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert not list(tmp_path.rglob(".cluster-*")) and not (tmp_path / "there" / ".aside").exists()


@pytest.fixture
def fake_nodes(monkeypatch):
    """Run tune's jobs here, with figures by formula, on nodes that differ in their processors."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    nodes = iter([("a", 2), ("b", 8), ("b", 8), ("b", 8)])  # each job has two; those that measure have one kind
    here = {}

    def facts(self):
        here["node"], cores = next(nodes)
        machine = Machine(cores, 500.0 if cores == 2 else 700.0)
        situation = Situation("step", ("depth",), SceneFeatures(1, 5e3, 0, 10.0), machine)
        return situation, Limits(self.resolutions, ("embree",), 1, cores, self.num_envs, 10**10)

    def measure(self, settings, seconds):
        situation = Situation("step", ("depth",), SceneFeatures(1, 5e3, 0, 10.0), Machine(99, 600.0))
        situation = replace(situation, machine=Machine(2 if here["node"] == "a" else 8, 600.0))
        return Run(situation, settings, 100.0 * settings.num_envs**0.5 * settings.threads, seconds)

    monkeypatch.setattr("gym_batchnav.cluster.tuning.run_job", run_here)
    monkeypatch.setattr("gym_batchnav.cluster.tuning.node_id", lambda: here["node"])
    monkeypatch.setattr("gym_batchnav.cluster.ray_cluster.connected", nullcontext)
    monkeypatch.setattr(SearchSpace, "here", facts)
    monkeypatch.setattr(Workload, "measure", measure)


def test_runs_of_nodes_come_into_the_log_with_the_facts_of_their_node(fake_nodes, tmp_path, monkeypatch):
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(tmp_path / "runs.jsonl"))
    done = CliRunner().invoke(app, ["tune", "--scenes", "apartment_0", "--explore", "14", "--ray", "nowhere", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    runs = [Run.from_line(line) for line in read_runs(tmp_path / "runs.jsonl")]
    assert [run.situation.machine.cores for run in runs] == [2] + [8] * 13
    assert all(run.settings.threads <= run.situation.machine.cores for run in runs)
    assert len({run.settings for run in runs[1:]}) == 13
    found = json.loads(done.stdout.splitlines()[-1])
    small, large = found["machines"]
    assert found["runs"] == 14 and (small["cores"], large["cores"]) == (2, 8) and small["nodes"] == large["nodes"] == 1
    assert all(choice["settings"]["threads"] <= 2 for choice in small["choices"])
    assert large["choices"][0]["settings"]["threads"] == 8


def test_a_cluster_without_anything_to_measure_is_refused():
    done = CliRunner().invoke(app, ["tune", "--ray", "auto", "--measure"])
    assert isinstance(done.exception, ValueError) and "--ray auto with --explore 0" in str(done.exception)


def test_nodes_are_grouped_by_their_machine():
    def measured(node, cores, speed, memory):
        situation = Situation("step", ("depth",), SceneFeatures(1, 5e3, 0, 10.0), Machine(cores, speed))
        settings = SpeedSettings(8, 1, 1, "embree")
        return Measured(Run(situation, settings, 1.0), node, situation, Limits((), (), 1, cores, memory=memory))

    kinds = kinds_of([measured("a", 4, 500, 9), measured("b", 8, 700, 9), measured("c", 4, 600, 7)])
    assert [kind.nodes for kind in kinds] == [("a", "c"), ("b",)]
    assert kinds[0].situation.machine == Machine(4, 550.0) and kinds[0].limits.memory == 7


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
