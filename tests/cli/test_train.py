"""``gym-batchnav train``, run as a user types it."""

import io
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from commands import refusal, run
from rich.console import Console
from rooms import box_room

from gym_batchnav.cli.train import Display
from gym_batchnav.scene.save import save_glb

PROGRAM = "import sys; from gym_batchnav.cli import main; sys.argv[0] = 'gym-batchnav'; main()"
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; " + PROGRAM


def command(*arguments, program=PROGRAM):
    return [sys.executable, "-c", program, "train", *map(str, arguments)]


def need_torch():
    for name in ("torch", "safetensors", "tensorboard", "matplotlib"):
        pytest.importorskip(name, reason=f"{name} is not installed")


def test_without_torch_it_says_what_to_install(tmp_path):
    done = subprocess.run(command("--out", tmp_path, program=WITHOUT_TORCH), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and 'pip install "gym-batchnav[train]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--preset", "huge"), "preset='huge': choose one of 'cpu', 'gpu'"),
        (("--config", "missing.toml"), "there is no run file 'missing.toml'"),
        (("--logger", "wandb"), 'pip install "gym-batchnav[wandb]"'),
        (("--watch",), 'pip install "gym-batchnav[view]"'),
    ],
)
def test_what_is_wrong_without_torch_is_said_before_it_is_imported(arguments, said, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr(sys.modules[Display.__module__], "find_spec", lambda name: None)
    assert said in refusal("train", *arguments)


def test_an_unknown_policy_is_refused_before_anything_is_loaded(tmp_path):
    need_torch()
    done = run("train", "--policy", "huge", "--out", tmp_path / "run", expect=1)
    assert "policy='huge': choose one of" in str(done.exception)
    assert "Loading" not in done.output and not (tmp_path / "run").exists()


def test_flags_come_on_top_of_assignments_and_these_on_top_of_the_file(tmp_path, monkeypatch):
    need_torch()
    from gym_batchnav.train import run as training

    (tmp_path / "run.toml").write_text(
        'seed = 1\nnum_envs = 32\nthreads = 1\ntime_limit = "2m"\n[ppo]\ngamma = 0.9\nclip = 0.3\n'
    )
    seen = {}

    def stop(out, given, resume, note, loggers):
        seen.update(given, loggers=loggers)
        raise ValueError("time_limit=seen")

    monkeypatch.setattr(training, "TrainingRun", stop)
    arguments = ["train", "--config", str(tmp_path / "run.toml"), "--set", "ppo.clip=0.1", "--set", "seed=2"]
    arguments += ["--frames", "8", "--logger", "jsonl", "--init", "a.safetensors", "--out", str(tmp_path / "out")]
    assert refusal(*arguments) == "time_limit=seen"
    settings = {"seed": 2, "ppo.total_frames": 8, "num_envs": 32, "threads": 1, "time_limit": "2m"}
    settings |= {"ppo.gamma": 0.9, "ppo.clip": 0.1, "init": "a.safetensors", "loggers": ["jsonl"]}
    assert seen == settings


def test_the_remaining_time_is_never_more_than_the_limit_leaves(monkeypatch):
    """The share of time is that of when the last iteration began, so the first estimates are far too long."""
    now = 1000.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    run = SimpleNamespace(config=SimpleNamespace(time_limit=180.0), seconds=30.0, progress=30 / 180, rows=[])
    run.ppo = SimpleNamespace(frames=0)
    text = io.StringIO()
    display = Display(run, Console(file=text))
    now, run.seconds, run.progress, run.ppo.frames = 1060.0, 50.0, 50 / 180, 6400
    display.show(run)
    assert "1:30 left" in text.getvalue()
    run.config.time_limit, run.progress, now = None, 0.5, 1100.0
    display.show(run)
    assert "2:30 left" in text.getvalue().splitlines()[1] and "--time-limit" not in text.getvalue()
    run.progress, now = 0.17, 1200.0
    display.show(run)
    assert "left (--time-limit shortens it" in text.getvalue().splitlines()[2]


@pytest.mark.slow
def test_a_run_is_interrupted_and_resumed(tmp_path):
    need_torch()
    save_glb(box_room(width=5, depth=4), tmp_path / "room.glb")
    out = tmp_path / "run"
    few = ("--scenes", tmp_path / "room.glb", "--set", "num_envs=8", "--policy", "blind", "--set", "threads=1",
           "--out", out)  # fmt: skip
    child = subprocess.Popen(command(*few), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    limit = time.monotonic() + 250
    try:
        while not any((out / "tensorboard").glob("*")) and child.poll() is None and time.monotonic() < limit:
            time.sleep(0.1)
        for line in child.stdout:
            if line.startswith("Training 'blind'"):
                break
        time.sleep(1)
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=60)[0]
    finally:
        child.kill()
    assert child.returncode == 130, said
    assert f"Resume it with: gym-batchnav train --out '{out}' --resume" in said and "us per frame" in said

    frames = json.loads((out / "curve.jsonl").read_text().splitlines()[-1])["frames"]
    done = run("train", "--out", out, "--resume", "--frames", frames + 1000, "--json")
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["complete"] and frames + 1000 <= figures["frames"] < frames + 1500
    assert f"Resuming after {frames:,} frames" in done.stderr
