"""Commands on a Ray cluster of three nodes, one of which is killed: the results of one process. ``nox -s ray``."""

import json
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
from rooms import box_room
from typer.testing import CliRunner

ray = pytest.importorskip("ray", reason="ray is not installed")
if not hasattr(ray, "init"):  # a folder of that name
    pytest.skip("ray is not installed", allow_module_level=True)
torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from gym_batchnav.cli import app  # noqa: E402
from gym_batchnav.cli.evaluate import evaluate  # noqa: E402
from gym_batchnav.cluster import evaluation  # noqa: E402
from gym_batchnav.cluster.display import NodesDisplay  # noqa: E402
from gym_batchnav.evaluation.comparison import Asked, make_comparison  # noqa: E402
from gym_batchnav.evaluation.world import PolicyAbout  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.cache import DiskCache  # noqa: E402
from gym_batchnav.library.prepare import NavigationPreparer  # noqa: E402
from gym_batchnav.library.sources import scene_sources  # noqa: E402
from gym_batchnav.library.workers import PreparationWorker  # noqa: E402
from gym_batchnav.scene.save import save_glb  # noqa: E402
from gym_batchnav.system.runs import read_runs  # noqa: E402
from gym_batchnav.train.policy import make_policy  # noqa: E402
from gym_batchnav.train.policy_agent import load_agent  # noqa: E402
from gym_batchnav.train.policy_file import save_policy  # noqa: E402
from gym_batchnav.tuning.features import Run  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # a hang, not a busy machine
EPISODES = 60


@pytest.fixture
def files(tmp_path):
    """Two policies and a scene."""
    save_glb(box_room("hall", width=9.0), tmp_path / "hall.glb")
    made = []
    for kind in ("small", "blind"):
        about = PolicyAbout(
            kind, sensors=() if kind == "blind" else ("depth",), camera=Camera(16, 16), forward_step=0.25,
            turn_angle_deg=10.0, max_episode_steps=120, preset="mine", frames=7, seed=0,
        )  # fmt: skip
        torch.manual_seed(0)
        save_policy(tmp_path / f"{kind}.safetensors", make_policy(kind, about.observation_space()), about)
        made.append(tmp_path / f"{kind}.safetensors")
    return {"policy": [str(made[0])], "blind": made[1], "scenes": [str(tmp_path / "hall.glb")], "episodes": EPISODES}


@pytest.fixture
def killed(cluster, monkeypatch):
    """Kill the node that is the first to finish a piece and has more to do; yields its name."""
    killed = []
    counted = NodesDisplay.finished

    def finished(self, node, pieces):
        counted(self, node, pieces)
        if not killed:
            killed.append(node)
            cluster.kill(node)

    monkeypatch.setattr(NodesDisplay, "finished", finished)
    return killed


def test_an_evaluation_equals_that_of_one_process_although_a_node_is_killed(cluster, killed, files, tmp_path, capsys):
    command = SimpleNamespace(invoked_subcommand=None)
    evaluate(command, **files, num_envs=4, sample=True, out=tmp_path / "here")
    evaluate(command, **files, num_envs=4, sample=True, out=tmp_path / "there", ray=cluster.address)
    assert f"Lost a worker on {killed[0]}" in capsys.readouterr().err
    for file in (tmp_path / "here").iterdir():
        assert (tmp_path / "there" / file.name).read_bytes() == file.read_bytes(), file.name
    rows = (tmp_path / "there" / "episodes.csv").read_text().splitlines()[1:]
    assert len(rows) == len({tuple(row.split(",")[:3]) for row in rows}) == 4 * EPISODES


def test_a_node_with_other_settings_is_refused(cluster, files):
    comparison = make_comparison(
        Asked(tuple(files["policy"]), files["blind"], scenes=tuple(files["scenes"]), episodes=4, num_envs=2), load_agent
    )
    try:
        other = replace(comparison.asked, episodes=5)
        comparison.asked = other
        with pytest.raises(ValueError, match=r"other scenes or versions than the driver: .*num_episodes"):
            evaluation.run_comparison(comparison, cluster.address)
    finally:
        comparison.close()


def test_a_collection_equals_that_of_one_process_although_a_node_is_killed(cluster, killed, tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.cluster.collection.NUM_PARTS", 9)
    save_glb(box_room("hall"), tmp_path / "hall.glb")
    words = ["collect", "--scenes", str(tmp_path / "hall.glb"), "--episodes-per-scene", "36", "--num-envs", "2"]
    words += ["--episodes-per-shard", "2", "--size", "8", "--to", "webdataset", "--out"]
    for name, options in (("here", []), ("there", ["--ray", cluster.address])):
        result = CliRunner().invoke(app, [*words, str(tmp_path / name), *options])
        assert result.exit_code == 0, (result.output, result.exception)
    assert f"Lost a worker on {killed[0]}" in result.stderr
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_settings_are_measured_by_all_nodes_although_one_is_killed(cluster, killed, tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    monkeypatch.setenv("GYM_BATCHNAV_RUNS", str(tmp_path / "runs.jsonl"))
    save_glb(box_room("hall"), tmp_path / "hall.glb")
    monkeypatch.chdir(tmp_path)
    words = ["tune", "--scenes", "hall.glb", "--resolution", "16", "--resolution", "32", "--renderer", "embree"]
    words += [f"--num-envs={count}" for count in (4, 8, 12, 16, 20, 24, 28, 32)]
    words += ["--explore", "14", "--seconds", "0.1", "--measure", "--json", "--ray", cluster.address]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"Lost a worker on {killed[0]}" in result.stderr
    runs = [Run.from_line(line) for line in read_runs(tmp_path / "runs.jsonl")]
    assert len(runs) == 14 + 1 and len({run.settings for run in runs[:14]}) == 14
    # The nodes have one processor each, wherever they run.
    assert {(run.situation.machine.cores, run.settings.threads) for run in runs} == {(1, 1)}
    found = json.loads(result.stdout.splitlines()[-1])
    (kind,) = found["machines"]
    assert found["runs"] == 14 and kind["nodes"] in (2, 3) and kind["measured"] == runs[-1].fps
    assert kind["choices"][0]["settings"] == asdict(runs[-1].settings)


def test_scenes_are_prepared_by_all_nodes_although_one_is_killed(cluster, killed, tmp_path):
    rooms = tmp_path / "rooms"
    rooms.mkdir()
    for number in range(6):
        save_glb(box_room(width=5.0 + number), rooms / f"room_{number}.glb")
    (rooms / "broken.glb").write_bytes(b"glTF but no more")
    cache = tmp_path / "cache"
    arguments = ["scene", "prepare", str(rooms), "--num-episodes", "20", "--cache-dir", str(cache), "--workers", "1"]
    result = CliRunner().invoke(app, [*arguments, "--ray", cluster.address])
    assert result.exit_code == 1 and "6 of 7 scenes ready" in result.output, result.output
    assert "broken" in result.output and f"Lost a worker on {killed[0]}" in result.output
    disk = DiskCache(cache)
    worker = PreparationWorker(NavigationPreparer(num_episodes=20, cache=disk))
    ready = {source.name for source in scene_sources(str(rooms), disk) if worker.is_prepared(source.recipe)}
    assert ready == {f"room_{number}" for number in range(6)}
    assert not list(cache.glob(".cluster-*"))
