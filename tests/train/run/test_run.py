"""TrainingRun: a run that is interrupted and resumed produces the same curve as one without interruption."""

import dataclasses
import io
import json
import os
import re

import numpy as np
import pytest
from rich.console import Console
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")
for _name in ("safetensors", "tensorboard", "matplotlib"):
    pytest.importorskip(_name, reason=f"{_name} is not installed")

from PIL import Image  # noqa: E402

from gym_batchnav.cli.train import Display  # noqa: E402
from gym_batchnav.scene.save import save_glb  # noqa: E402
from gym_batchnav.train.policy import GOAL  # noqa: E402
from gym_batchnav.train.policy_file import load_policy  # noqa: E402
from gym_batchnav.train.run import checkpoint, run  # noqa: E402
from gym_batchnav.train.run.log import Sums, cut_curve, read_rows, row_of  # noqa: E402
from gym_batchnav.train.run.presets import PRESETS  # noqa: E402
from gym_batchnav.train.run.run import TrainingRun  # noqa: E402
from gym_batchnav.train.run.settings import RunSettings, check_same_run  # noqa: E402

NUM_ENVS = 4  # of an iteration
FRAMES = 4 * 32


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Return six small rooms, of which four are resident, so scenes change during the training."""
    folder = tmp_path_factory.mktemp("rooms")
    for index in range(6):
        save_glb(box_room(f"room_{index}", width=4 + 0.5 * index, depth=4), folder / f"room_{index}.glb")
    before = os.environ.get("GYM_BATCHNAV_CACHE")
    os.environ["GYM_BATCHNAV_CACHE"] = str(folder / "cache")
    yield folder
    os.environ.pop("GYM_BATCHNAV_CACHE")
    if before is not None:
        os.environ["GYM_BATCHNAV_CACHE"] = before


@pytest.fixture
def start(rooms, tmp_path):
    """Return a function that makes runs; close them at the end."""
    made = []

    def start(name="run", resume=False, note=lambda text: None, **given):
        if not resume:
            given = {
                "scenes": (str(rooms),), "num_envs": NUM_ENVS, "threads": 1, "frames": 6 * FRAMES, "policy": "small",
                **given,
            }  # fmt: skip
        made.append(TrainingRun(tmp_path / name, given, resume, note))
        return made[-1]

    yield start
    for one in made:
        one.close()


def weights(one):
    return torch.cat([parameter.detach().flatten() for parameter in one.ppo.policy.parameters()])


def after(count):
    """Return a ``should_stop`` that stops before a given iteration."""
    asked = iter([False] * count)
    return lambda: next(asked, True)


def test_an_interrupted_run_goes_on_to_the_same_weights(start):
    whole = start("whole")
    assert whole.train()
    assert whole.ppo.frames == 6 * FRAMES
    assert whole.ppo.collector.envs[0].library.stats()["swaps"] > 0, "no scene changed: the test is too easy"

    assert not start("parts").train(after(2))
    middle = start("parts", resume=True)
    assert middle.ppo.frames == 2 * FRAMES
    assert not middle.train(after(3))
    last = start("parts", resume=True)
    assert last.train()
    assert last.ppo.frames == 6 * FRAMES
    assert torch.equal(weights(last), weights(whole))
    assert not torch.equal(weights(middle), weights(last))


def test_a_task_without_success_is_summed_up_by_its_own_measure(start, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LOG_SECONDS", 0.0)
    # 544 steps of each environment: an episode ends after 500.
    one = start(frames=17 * FRAMES, changes={"task.class": "Explore", "ppo.imitation_share": 0.0})
    text = io.StringIO()
    with Display(one, Console(file=text, force_terminal=True, width=200)) as display:
        assert one.train(watch=display.show)
    summary = one.finish()
    assert summary["cells_visited"] >= 1 and "success" not in summary
    assert re.search(r"cells visited \d+\.\d\d", text.getvalue())
    assert (tmp_path / "run/curve.png").is_file()


def test_a_run_leaves_its_policy_and_its_curve(start, tmp_path):
    one = start(frames=3 * FRAMES)
    seen = []
    assert one.train(watch=lambda run: seen.append((run.ppo.frames, run.progress)))
    summary = one.finish()
    assert seen == [(FRAMES, pytest.approx(1 / 3)), (2 * FRAMES, pytest.approx(2 / 3)), (3 * FRAMES, 1.0)]
    assert summary["frames"] == 3 * FRAMES and summary["fps"] > 0
    assert {"simulate", "infer", "learn", "wait"} <= set(summary["parts"])

    policy, about = load_policy(tmp_path / "run/policy.safetensors")
    trained = one.ppo.policy.state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in policy.state_dict().items())
    assert (about.kind, about.sensors, about.frames, about.seed) == ("small", ("depth",), 3 * FRAMES, 0)
    assert about.camera == PRESETS["cpu"].camera and about.turn_angle_deg == 10.0
    rows = read_rows(tmp_path / "run/curve.jsonl")
    assert rows[-1]["frames"] == 3 * FRAMES and rows[-1]["learning_rate"] > 0
    assert {"imitation", "value", "grad_norm", "teacher"} <= set(rows[0]["losses"])
    with Image.open(tmp_path / "run/curve.png") as image:
        assert np.asarray(image.convert("L")).std() > 5
    assert list((tmp_path / "run/tensorboard").glob("events.*"))
    assert all(os.path.exists(file) for file in summary["files"])


def test_the_share_of_time_counts_where_it_is_more(start, monkeypatch):
    """The learning rate and the end of the run follow the clock."""
    one = start(frames=10**6, time_limit=40.0)
    clock = iter(np.arange(0, 1000, 10.0))
    monkeypatch.setattr(run, "perf_counter", lambda: next(clock))
    shares = []
    monkeypatch.setattr(one.ppo, "iterate", lambda share, iterate=one.ppo.iterate: shares.append(share) or iterate())
    assert one.train()
    assert shares == pytest.approx([0.25, 0.5, 0.75])
    assert one.progress == 1.0


def test_a_run_that_is_gone_on_with_keeps_its_clock_and_may_get_more_time(start):
    first = start(frames=10**6)
    first.train(after(2))
    second = start(resume=True, time_limit=first.seconds)
    assert second.progress == pytest.approx(1.0)
    assert second.train() and second.ppo.frames == 2 * FRAMES, "its time was over"
    third = start(resume=True, time_limit=3600.0, frames=3 * FRAMES)
    assert third.train() and third.ppo.frames == 3 * FRAMES


def test_another_version_goes_on_with_a_run(start, tmp_path):
    start().train(after(1))
    path = tmp_path / f"run/checkpoint_{FRAMES}_0.pt"
    state, about = checkpoint.load(path)
    about["version"] = "0.0.1"
    about["preset"]["ppo"]["old"] = about["settings"]["old"] = True  # settings that it had
    del about["preset"]["num_episodes"], about["settings"]["seed"]  # and did not have
    checkpoint.save(path, state, about)
    said = []
    assert start(resume=True, note=said.append).ppo.frames == FRAMES
    assert any("was written by version 0.0.1" in text for text in said)


def test_a_damaged_checkpoint_costs_the_time_since_the_one_before(start, tmp_path):
    start().train(after(1))
    start(resume=True).train(after(1))
    assert {path.name for path in (tmp_path / "run").glob("*.pt")} == {f"checkpoint_{n * FRAMES}_0.pt" for n in (1, 2)}
    (tmp_path / f"run/checkpoint_{2 * FRAMES}_0.pt").write_bytes(b"")
    last = start(resume=True)
    assert last.ppo.frames == FRAMES and [row["frames"] for row in last.rows] == [FRAMES]
    assert not (tmp_path / f"run/checkpoint_{2 * FRAMES}_0.pt").exists(), "it could be resumed from later"


def test_lines_of_the_curve_that_come_again_are_taken_out(start, tmp_path):
    start().train(after(2))
    path = tmp_path / "run/curve.jsonl"
    rows = read_rows(path)
    with path.open("a") as file:  # as if the process had died long after its last checkpoint
        file.write(json.dumps({**rows[-1], "frames": 10**6}) + "\n" + '{"frames": 12')
    second = start(resume=True)
    assert second.rows == rows == read_rows(path)
    second.train()
    frames = [row["frames"] for row in read_rows(path)]
    assert frames == sorted(set(frames)) and frames[-1] == 6 * FRAMES


def test_the_teachers_sensors_are_not_those_of_the_policy(start, tmp_path):
    changes = {"teacher_sensors": ("map_path", "walk_scan"), "ppo.imitation_share": 1.0, "ppo.teacher": "mapper"}
    run = start(changes=changes)
    assert run.train(after(1)) is False and "map_path" in run.env.components.sensors
    run.finish()
    policy, about = load_policy(tmp_path / "run" / "policy.safetensors")
    assert policy.task_sensors == (GOAL,) and not policy.predictions
    assert about.sensors == ("depth",) and not about.other_sensors and about.task_sensors == {GOAL: 2}


class TestRefusals:
    def test_a_folder_with_a_run_is_not_written_over(self, start, tmp_path):
        start().train(after(1))
        before = {file: file.read_bytes() for file in (tmp_path / "run").glob("*.*")}
        with pytest.raises(FileExistsError, match="contains a run: resume it with resume=True"):
            start()
        assert {file: file.read_bytes() for file in (tmp_path / "run").glob("*.*")} == before

    def test_an_unknown_logger_leaves_no_run(self, rooms, tmp_path):
        given = {"scenes": (str(rooms),), "num_envs": NUM_ENVS, "threads": 1, "frames": FRAMES, "policy": "blind"}
        with pytest.raises(ValueError, match="logger='comet'"):
            TrainingRun(tmp_path / "run", given, loggers=["comet"])
        assert not (tmp_path / "run/run.json").exists()

    def test_without_a_checkpoint_it_begins(self, start):
        start(seed=3)
        again = start(resume=True, seed=3)
        assert again.ppo.frames == 0 and again.settings.seed == 3

    @pytest.mark.parametrize("given", [{"seed": 1}, {"preset": "gpu"}, {"policy": "blind"}, {"num_envs": 8}])
    def test_another_run_is_not_gone_on_with(self, start, given):
        start().train(after(1))
        with pytest.raises(ValueError, match=f"contains a run with {next(iter(given))}=.* another out="):
            start(resume=True, **given)

    def test_another_preset_is_named(self, start, monkeypatch):
        start().train(after(1))
        preset = PRESETS["cpu"]
        other = dataclasses.replace(preset, ppo=dataclasses.replace(preset.ppo, gamma=0.9))
        monkeypatch.setattr("gym_batchnav.train.run.settings.PRESETS", {"cpu": other})
        with pytest.raises(ValueError, match=r"belongs to a run with ppo\.gamma=0\.99, not 0\.9"):
            start(resume=True)

    def test_damage_is_named(self, start, tmp_path):
        start().train(after(1))
        path = tmp_path / f"run/checkpoint_{FRAMES}_0.pt"
        state, about = checkpoint.load(path)
        del state["ppo"]["collector"]["envs"][0]["agents"]
        checkpoint.save(path, state, about)
        with pytest.raises(ValueError, match="does not fit this run"):
            start(resume=True)
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(ValueError, match=r"_0\.pt' is damaged"):
            start(resume=True)
        (tmp_path / "run/run.json").write_text("{")
        with pytest.raises(ValueError, match=r"run\.json' is damaged"):
            start(resume=True)

    def test_a_gpu_that_is_not_there(self, start, monkeypatch, tmp_path):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(RuntimeError, match=r"'paper-depth' trains on an NVIDIA GPU.*preset='cpu' or device='cpu'"):
            start(preset="paper-depth")
        with pytest.raises(RuntimeError, match="device='cuda': torch finds no NVIDIA GPU: leave device= out"):
            start(device="cuda")
        assert not list(tmp_path.iterdir()), "a folder was made for a run that cannot begin"

    @pytest.mark.parametrize(
        "given",
        [
            {"preset": "tpu"},
            {"device": "mps"},
            {"policy": "huge"},
            {"seed": -1},
            {"num_envs": 0},
            {"time_limit": float("nan")},
        ],
    )
    def test_impossible_settings(self, given):
        with pytest.raises(ValueError, match=next(iter(given))):
            RunSettings(**given)


class TestSettings:
    def test_they_change_the_preset(self):
        preset = RunSettings("cpu", scenes=("a", "b"), num_envs=2, policy="blind", frames=7, threads=1).resolved()
        assert (preset.scenes, preset.num_envs, preset.policy, preset.threads) == (("a", "b"), 2, "blind", 1)
        assert preset.sensors == () and preset.ppo.total_frames == 7 and preset.ppo.num_minibatches == 2

    @pytest.mark.parametrize(
        ("policy", "asked", "sensors"),
        [
            ("blind", None, ()),
            ("blind", ("walk_scan",), ("walk_scan",)),
            ("blind", ("depth", "gps"), ("gps",)),
            ("scan", None, ("walk_scan",)),
            ("scan", ("rgb", "walk_scan", "heading"), ("walk_scan", "heading")),
            ("small", ("rgb",), ("rgb",)),
            ("blind", ("rgb", "depth", "map_path"), ("depth", "map_path")),
            ("scan", ("depth", "walk_scan", "map_path"), ("depth", "walk_scan", "map_path")),
        ],
    )
    @pytest.mark.parametrize("preset", ["cpu", "cpu-long"])
    def test_policies_without_images_keep_the_other_sensors_that_are_asked_for(self, preset, policy, asked, sensors):
        changes = {} if asked is None else {"sensors": asked}
        assert RunSettings(preset, policy=policy, changes=changes).resolved().sensors == sensors

    def test_mini_batches_that_are_asked_for_are_not_lowered(self, start):
        assert RunSettings(num_envs=2).resolved().ppo.num_minibatches == 2
        with pytest.raises(ValueError, match="num_minibatches=8 of 4 environments: pass at most as many"):
            start(changes={"ppo.num_minibatches": 8})

    def test_the_mapper_of_a_preset_gives_way_to_the_follower_where_there_is_no_map(self):
        def teacher(changes=None, **given):
            return RunSettings("cpu-long", changes=changes or {}, **given).resolved().ppo.teacher

        assert teacher() == "mapper" and teacher({"sensors": ["rgb", "depth", "map_path"]}) == "mapper"
        assert teacher(policy="scan") == teacher({"sensors": ["depth"]}) == "follower"
        assert teacher({"ppo.teacher": "mapper"}, policy="scan") == "mapper"  # which is refused by its name
        assert teacher({"sensors": ["depth"], "teacher_sensors": ["map_path"]}) == "mapper"

    @pytest.mark.parametrize("name", PRESETS)
    def test_every_preset_describes_itself_in_json(self, name):
        settings = RunSettings(name)
        assert settings.resolved() == PRESETS[name]
        check_same_run(settings.description(), dataclasses.replace(settings, frames=5, time_limit=1.0), "path")

    @pytest.mark.parametrize("name", PRESETS)
    def test_held_out_scenes_are_held_out(self, name):
        from gym_batchnav.evaluation.comparison import held_out_scenes
        from gym_batchnav.library.sources import scene_sources

        trained, held = (
            {source.name for source in scene_sources(specs)} for specs in (PRESETS[name].scenes, held_out_scenes(name))
        )
        assert len(held) == 20 and not trained & held


class TestCurve:
    def test_a_line_tells_means_and_rates(self):
        window = Sums()
        episodes = {"success": np.array([1.0, 0.0, 1.0]), "spl": np.array([0.5, 0.0, 1.0])}
        window.add(100, {"infer": 0.5, "learn": 1.0}, {"value": 2.0, "kl": 0.5}, episodes)
        window.add(300, {"infer": 1.5, "learn": 1.0}, {"value": 4.0}, {name: one[:0] for name, one in episodes.items()})
        row = row_of(window, frames=1000, seconds=12.0, wall=5.0)
        assert row == {
            "frames": 1000, "seconds": 12.0, "fps": 80.0, "episodes": 3,
            "success": pytest.approx(2 / 3), "spl": pytest.approx(0.5),
            "losses": {"value": 3.0, "kl": 0.5},
            "parts": {"infer": pytest.approx(5000.0), "learn": pytest.approx(5000.0)},
        }  # fmt: skip

    def test_without_episodes_nothing_is_claimed(self):
        window = Sums()
        window.add(10, {}, {}, {"success": np.zeros(0)})
        assert row_of(window, 10, 1.0, 1.0)["success"] is None

    def test_damage_inside_is_an_error(self, tmp_path):
        path = tmp_path / "curve.jsonl"
        path.write_text('{"frames": 1, "seconds": 1}\n{"fra\n{"frames": 3, "seconds": 3}\n')
        with pytest.raises(ValueError, match="line 2, is damaged"):
            read_rows(path)
        path.unlink()
        assert cut_curve(path, 5) == []
