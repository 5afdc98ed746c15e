"""Commands with --ray, in one process: each shard is pickled and run as on a node; the results are those of one run."""

import os
import pickle
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from rooms import box_room
from typer.testing import CliRunner

from gym_batchnav.cli import app
from gym_batchnav.cli.flags import check_one_division
from gym_batchnav.cluster import jobs, shards
from gym_batchnav.cluster.shards import SharedFolder, _cause, _on_node, _resources, version_here
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.library.workers import PreparationWorker
from gym_batchnav.scene.save import save_glb
from gym_batchnav.system.parts import Part, all_parts


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    """Three nodes with another working folder; what was lost is done twice."""

    def run_here(work, address, what, most, num_cpus=None):
        pickled = pickle.dumps(work)
        before = Path.cwd()
        os.chdir("/")
        try:
            parts = all_parts(min(most, 3))
            return {shard: pickle.loads(pickled)(shard) for shard in (parts[-1], *parts)}
        finally:
            os.chdir(before)

    monkeypatch.setattr(jobs, "run_shards", run_here)
    monkeypatch.setattr(jobs, "connected", lambda address: nullcontext())
    monkeypatch.chdir(tmp_path)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_an_evaluation_equals_that_of_one_process(nodes, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    from gym_batchnav.evaluation.world import PolicyAbout
    from gym_batchnav.geometry import Camera
    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.policy_file import save_policy

    save_glb(box_room("hall"), tmp_path / "hall.glb")
    about = PolicyAbout(
        "small", sensors=("depth",), camera=Camera(16, 16), forward_step=0.25, turn_angle_deg=10.0,
        max_episode_steps=40, preset="mine", frames=7, seed=0,
    )  # fmt: skip
    torch.manual_seed(0)
    save_policy(tmp_path / "policy.safetensors", make_policy("small", about.observation_space()), about)
    words = ["evaluate", "--policy", "policy.safetensors", "--scenes", "hall.glb", "--episodes", "8", "--num-envs", "3"]
    for name, options in (("here", []), ("there", ["--ray", "nowhere"])):
        result = CliRunner().invoke(app, [*words, "--out", name, *options])
        assert result.exit_code == 0, (result.output, result.exception)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_a_collection_and_its_figures_equal_those_of_one_process(nodes, tmp_path):
    save_glb(box_room("hall"), tmp_path / "hall.glb")
    words = ["collect", "run", "--scenes", "hall.glb", "--episodes-per-scene", "33", "--num-envs", "4"]
    words += ["--size", "8", "--renderer", "embree", "--to", "webdataset", "--out"]
    ray = ["--ray", "nowhere"]
    for name, options, found, made in (
        ("here", [], 0, "33 in 3 shards"),
        ("there", ray, 1, "32 in 2 shards"),  # the last part is done twice, and its shard is there the second time
        ("there", ray, 3, "0 in 0 shards"),
    ):
        result = CliRunner().invoke(app, [*words, name, *options])
        assert result.exit_code == 0, (result.output, result.exception)
        rows = {line.strip()[:14].strip(): line.strip()[14:].strip() for line in result.stdout.splitlines()}
        assert rows["shards before"] == str(found) and rows["episodes"].startswith(made), result.output
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert not list(tmp_path.rglob(".cluster-*")) and not (tmp_path / "there" / ".aside").exists()


def test_scenes_are_prepared_and_refused_as_by_one_process(nodes, tmp_path):
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    save_glb(box_room(), rooms / "room.glb")
    (rooms / "broken.glb").write_bytes(b"glTF but no more")
    cache = tmp_path / "cache"
    words = ["scene", "prepare", "rooms", "--num-episodes", "20", "--workers", "1", "--ray", "nowhere"]
    result = CliRunner().invoke(app, words, env={"GYM_BATCHNAV_CACHE": str(cache)})
    assert result.exit_code == 1 and "1 of 2 scenes ready" in result.output, result.output
    assert "broken" in result.output and "cut short" in result.output
    disk = DiskCache(cache)
    worker = PreparationWorker(NavigationPreparer(num_episodes=20, cache=disk))
    ready = {source.name for source in scene_sources(str(rooms), disk) if worker.is_prepared(source.recipe)}
    assert ready == {"room"}
    assert not list(cache.glob(".cluster-*"))


def test_the_users_policy_files_travel_and_names_of_agents_do_not(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    from gym_batchnav.evaluation.comparison import Asked

    monkeypatch.chdir(tmp_path)
    for name in ("random", "follower", "mapper", "blind", "pointnav_depth", "mine.safetensors"):
        Path(name).write_bytes(name.encode())
    asked = Asked(("mine.safetensors",), agents=("blind", "random", "follower", "mapper", "pointnav_depth", "./random"))
    assert jobs.contents_of(asked) == {"mine.safetensors": b"mine.safetensors", "./random": b"random"}


def node(alive=True, **resources):
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("nodes", "num_cpus", "expected"),
    [
        ([node(CPU=8.0), node(CPU=0.0), node(alive=False, CPU=1.0)], None, (8, 0, 1)),
        ([node(CPU=8.0, GPU=2.0), node(CPU=32.0, GPU=4.0)], None, (4, 1, 6)),
        ([node(CPU=8.0), node(CPU=32.0, GPU=4.0)], None, (8, 0, 5)),
        ([node(CPU=1.0, GPU=2.0)], None, (1, 1, 1)),
        ([node(CPU=8.0), node(CPU=2.0)], 3, (3, 0, 2)),
    ],
)
def test_a_task_takes_an_equal_share_of_the_smallest_node(nodes, num_cpus, expected):
    assert _resources(nodes, num_cpus) == expected


def test_shares_that_no_node_has_are_refused():
    for count in (0, 9):
        with pytest.raises(ValueError, match=f"num_cpus={count}: pass 1 to 8"):
            _resources([node(CPU=8.0)], count)
    with pytest.raises(RuntimeError, match="no node with a processor"):
        _resources([node(CPU=0.0)], None)


def test_another_version_on_a_node_is_refused():
    with pytest.raises(ValueError, match=r"the command runs with 0\.0\.1 \(else\): install the same version"):
        _on_node(str, Part(), "0.0.1 (else)", 1)


def test_a_task_uses_the_processors_that_it_was_given(monkeypatch):
    used = []
    monkeypatch.setattr(shards, "limit_processors", used.append)
    monkeypatch.setattr(shards, "num_processors", lambda: 1)
    monkeypatch.setattr(shards.numba, "set_num_threads", used.append)
    assert _on_node(str, Part(2, 3), version_here(), 1) == "2/3" and used == [1, 1]


def test_errors_of_nodes_name_the_node_and_the_remedy():
    missing = _cause(SimpleNamespace(ip="10.0.0.2", args="No module named 'gym_batchnav.cluster'"))
    assert "gym_batchnav is not installed on 10.0.0.2: install the same version on all nodes" in str(missing)
    error = _cause(SimpleNamespace(ip="10.0.0.2", cause=ValueError("no such scene")))
    assert type(error) is ValueError and str(error) == "on 10.0.0.2: no such scene"
    cause = FileNotFoundError(2, "No such file")
    assert _cause(SimpleNamespace(ip="10.0.0.2", cause=cause)) is cause


def test_a_folder_that_is_not_shared_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"cache_dir=.*nodes do not share this folder: name one that all"):
        SharedFolder(tmp_path, tmp_path / ".cluster-0", "cache_dir").check()


def test_work_is_divided_in_one_way():
    check_one_division("1/2", None)
    check_one_division(None, "auto")
    with pytest.raises(ValueError, match="shard=1/2 with ray=auto"):
        check_one_division("1/2", "auto")
