"""TrainingRun: a run that is interrupted and resumed produces the same curve as one without interruption."""

import io
import json
import os
import re
from functools import partialmethod

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
from gym_batchnav.train import checkpoint, run  # noqa: E402
from gym_batchnav.train.config import RunConfig, make_config  # noqa: E402
from gym_batchnav.train.curve import read_rows  # noqa: E402
from gym_batchnav.train.policy import GOAL  # noqa: E402
from gym_batchnav.train.policy_file import load_policy  # noqa: E402
from gym_batchnav.train.run import TrainingRun  # noqa: E402

NUM_ENVS = 2
FRAMES = NUM_ENVS * 32  # of an iteration


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    """Return three small rooms, of which two are resident, so scenes change during the training."""
    folder = tmp_path_factory.mktemp("rooms")
    for index in range(3):
        save_glb(box_room(f"room_{index}", width=4 + 0.5 * index, depth=4), folder / f"room_{index}.glb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GYM_BATCHNAV_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture
def start(rooms, tmp_path, opened):
    """Return a function that makes runs."""

    def start(name="run", resume=False, note=lambda text: None, loggers=None, **given):
        if not resume:
            given = {
                "scenes": (str(rooms),), "num_envs": NUM_ENVS, "threads": 1, "frames": 6 * FRAMES, "policy": "small",
                "num_episodes": 50, **given,
            }  # fmt: skip
        return opened(TrainingRun(str(tmp_path / name), given, resume, note, loggers))

    return start


def weights(one):
    return torch.cat([parameter.detach().flatten() for parameter in one.ppo.policy.parameters()])


def after(count):
    """Return a ``should_stop`` that stops before a given iteration."""
    asked = iter([False] * count)
    return lambda: next(asked, True)


def test_an_interrupted_run_goes_on_to_the_same_weights(start):
    given = {"frames": 3 * FRAMES, "rotate_every": 20}
    whole = start("whole", **given)
    assert whole.train()
    assert whole.ppo.frames == 3 * FRAMES
    assert whole.ppo.collector.env.library.stats()["swaps"] > 0, "no scene changed: the test is too easy"

    assert not start("parts", **given).train(after(1))
    middle = start("parts", resume=True)
    assert middle.ppo.frames == FRAMES
    assert not middle.train(after(1))
    last = start("parts", resume=True)
    assert last.train()
    assert last.ppo.frames == 3 * FRAMES
    assert torch.equal(weights(last), weights(whole))
    assert not torch.equal(weights(middle), weights(last))


def test_a_task_without_success_is_summed_up_by_its_own_measure(start, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LOG_SECONDS", 0.0)
    monkeypatch.setattr(RunConfig, "make_env", partialmethod(RunConfig.make_env, max_episode_steps=20))
    one = start(frames=2 * FRAMES, policy="blind", **{"task.class": "Explore", "ppo.imitation_share": 0.0})
    text = io.StringIO()
    with Display(one, Console(file=text, force_terminal=True, width=200)) as display:
        assert one.train(watch=display.show)
    summary = one.finish()
    assert summary["cells_visited"] >= 1 and "success" not in summary
    assert re.search(r"cells visited \d+\.\d\d", text.getvalue())
    assert (tmp_path / "run/curve.png").is_file()


def test_a_run_leaves_its_policy_and_its_curve(start, tmp_path):
    one = start(frames=2 * FRAMES)
    seen = []
    assert one.train(watch=lambda run: seen.append((run.ppo.frames, run.progress)))
    summary = one.finish()
    assert seen == [(FRAMES, 0.5), (2 * FRAMES, 1.0)]
    assert summary["frames"] == 2 * FRAMES and summary["fps"] > 0
    assert {"simulate", "infer", "learn", "wait"} <= set(summary["parts"])

    policy, about = load_policy(tmp_path / "run/policy.safetensors")
    trained = one.ppo.policy.state_dict()
    assert all(torch.equal(value, trained[name]) for name, value in policy.state_dict().items())
    assert (about.kind, about.sensors, about.frames, about.seed) == ("small", ("depth",), 2 * FRAMES, 0)
    assert about.camera == make_config({}).camera and about.turn_angle_deg == 10.0
    rows = read_rows(tmp_path / "run/curve.jsonl")
    assert rows[-1]["frames"] == 2 * FRAMES and rows[-1]["learning_rate"] > 0
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
    first.train(after(1))
    second = start(resume=True, time_limit=first.seconds)
    assert second.progress == pytest.approx(1.0)
    assert second.train() and second.ppo.frames == FRAMES, "its time was over"
    third = start(resume=True, time_limit=3600.0, frames=2 * FRAMES)
    assert third.train() and third.ppo.frames == 2 * FRAMES


def test_another_version_goes_on_with_a_run(start, tmp_path):
    start().train(after(1))
    path = tmp_path / f"run/checkpoint_{FRAMES}_0.pt"
    state, about = checkpoint.load(path)
    about["version"] = "0.0.1"
    about["settings"]["ppo"]["old"] = about["settings"]["old"] = True  # settings that it had
    del about["settings"]["num_episodes"], about["settings"]["ppo"]["clip"]  # and did not have
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
    start(frames=2 * FRAMES).train(after(1))
    path = tmp_path / "run/curve.jsonl"
    rows = read_rows(path)
    with path.open("a") as file:  # as if the process had died long after its last checkpoint
        file.write(json.dumps({**rows[-1], "frames": 10**6}) + "\n" + '{"frames": 12')
    second = start(resume=True)
    assert second.rows == rows == read_rows(path)
    second.train()
    frames = [row["frames"] for row in read_rows(path)]
    assert frames == sorted(set(frames)) and frames[-1] == 2 * FRAMES


def test_the_teachers_sensors_are_not_those_of_the_policy(start, tmp_path):
    changes = {"teacher_sensors": ("map_path", "walk_scan"), "ppo.imitation_share": 1.0, "ppo.teacher": "mapper"}
    run = start(**changes)
    assert run.train(after(1)) is False and "map_path" in run.env.components.sensors
    run.finish()
    policy, about = load_policy(tmp_path / "run" / "policy.safetensors")
    assert policy.task_sensors == (GOAL,) and not policy.predictions
    assert about.sensors == ("depth",) and not about.other_sensors and about.task_sensors == {GOAL: 2}


class TestRefusals:
    def test_an_unknown_logger_leaves_no_run(self, start, tmp_path, monkeypatch):
        with pytest.raises(ValueError, match="logger='comet'"):
            start(loggers=["comet"])
        monkeypatch.setattr("gym_batchnav.train.loggers.find_spec", lambda name: None)
        with pytest.raises(ModuleNotFoundError, match=r"gym-batchnav\[train\]"):
            start(loggers=["tensorboard"])
        assert not list(tmp_path.iterdir())

    def test_what_cannot_be_learned_is_refused_before_scenes_load(self, start, tmp_path, monkeypatch):
        monkeypatch.setattr("gym_batchnav.train.run._warm_env", lambda *_: pytest.fail("scenes were loaded first"))
        for says, given in (
            ("num_minibatches=99: pass at most num_envs=", {"ppo.num_minibatches": 99}),
            ("agents of ObjectNav do not observe", {"task.class": "ObjectNav", "ppo.imitation_share": 0.5}),
            ("teacher='mapper' reads 'map_path'", {"ppo.teacher": "mapper", "ppo.imitation_share": 0.5}),
        ):
            with pytest.raises(ValueError, match=says):
                start(**given)
        assert not list(tmp_path.iterdir())

    def test_without_a_checkpoint_it_begins(self, start):
        start(seed=3)
        again = start(resume=True, seed=3)
        assert again.ppo.frames == 0 and again.config.seed == 3

    def test_a_run_is_not_written_over_and_no_other_one_goes_on_in_its_folder(self, start, tmp_path):
        start().train(after(1))
        before = {file: file.read_bytes() for file in (tmp_path / "run").glob("*.*")}
        with pytest.raises(FileExistsError, match="contains a run: resume it with resume=True"):
            start()
        assert {file: file.read_bytes() for file in (tmp_path / "run").glob("*.*")} == before
        for given in ({"seed": 1}, {"preset": "gpu"}, {"policy": "blind"}, {"num_envs": 8}, {"ppo.gamma": 0.9}):
            with pytest.raises(ValueError, match=f"contains a run with {next(iter(given))}=.* another out="):
                start(resume=True, **given)
        path = tmp_path / "run/run.json"
        stored = json.loads(path.read_text())
        path.write_text(json.dumps({**stored, "given": {**stored["given"], "ppo.gamma": 0.9}}))
        with pytest.raises(ValueError, match=r"belongs to a run with ppo\.gamma=0\.99, not 0\.9"):
            start(resume=True)

    def test_damage_is_named(self, start, tmp_path):
        start().train(after(1))
        path = tmp_path / f"run/checkpoint_{FRAMES}_0.pt"
        state, about = checkpoint.load(path)
        del state["ppo"]["collector"]["env"]["agents"]
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


class TestInit:
    def test_a_training_goes_on_from_the_weights_of_a_file(self, start, tmp_path):
        first = start("first")
        first.train(after(1))
        first.finish()
        file = str(tmp_path / "first/policy.safetensors")
        again = start("again", init=file, seed=1, teacher_sensors=("walk_scan",))
        named = dict(again.ppo.policy.named_parameters())
        assert any(name.startswith("predictions.") for name in named), "these are not in the file"
        assert all(torch.equal(value, named[name]) for name, value in first.ppo.policy.named_parameters())
        assert again.ppo.frames == 0 and not again.train(after(1))
        moved = weights(again)
        assert torch.equal(weights(start("again", resume=True)), moved), "it began with the file again"

    def test_a_policy_that_does_not_fit_is_refused(self, start, tmp_path, monkeypatch):
        first = start("first", frames=FRAMES)
        first.finish()
        file = str(tmp_path / "first/policy.safetensors")
        sensors = ["depth", "heading"]
        monkeypatch.setattr("gym_batchnav.train.run._warm_env", lambda *_: pytest.fail("scenes were loaded first"))
        for says, given in (
            (r"init='.*': it is a policy of kind 'small', not 'compact': pass policy='small'", {"policy": "compact"}),
            (r"reads depth, pointgoal\w+, not depth, \w+, heading: pass its sensors", {"sensors": sensors}),
            ("its weights are for images of 32 x 32 pixels", {"camera.width": 64}),
            ("is damaged|is not a safetensors file", {"init": str(tmp_path / "first/run.json")}),
        ):
            with pytest.raises(ValueError, match=says):
                start("second", **{"init": file, **given})
        with pytest.raises(FileNotFoundError, match=r"init='pointnav_dept' is neither .* \(.*pointnav_depth, "):
            start("second", init="pointnav_dept")
