"""``gym-batchnav train``, run as a user types it."""

import json
import signal
import subprocess
import sys
import time

import pytest
from rooms import box_room

from gym_batchnav.cli.train import Interruption, seconds_of
from gym_batchnav.scene.save import save_glb

PROGRAM = "import sys; from gym_batchnav.cli import main; sys.argv[0] = 'gym-batchnav'; main()"
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; " + PROGRAM


def command(*arguments, program=PROGRAM):
    return [sys.executable, "-c", program, "train", *map(str, arguments)]


def need_torch():
    for name in ("torch", "safetensors", "tensorboard", "matplotlib"):
        pytest.importorskip(name, reason=f"{name} is not installed")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("60m", 3600), ("2h", 7200), ("1.5h", 5400), (" 5M ", 300)])
def test_durations(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "60", "m", "-5m", "0s", "1h30m", "1e3s", "nan s"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match=r"--time-limit .*: write a positive duration such as 90s, 60m or 2h"):
        seconds_of(text)


def test_without_torch_it_says_what_to_install(tmp_path):
    done = subprocess.run(command("--out", tmp_path, program=WITHOUT_TORCH), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and 'pip install "gym-batchnav[train]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_help_is_quick_and_needs_no_torch():
    done = subprocess.run(command("--help", program=WITHOUT_TORCH), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "--time-limit" in done.stdout


def test_an_unknown_policy_or_device_is_refused_before_anything_is_loaded(tmp_path):
    need_torch()
    for option in ("--policy", "--device"):
        done = subprocess.run(
            command(option, "huge", "--out", tmp_path / "run"), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 1 and f"{option} 'huge': choose one of" in done.stderr
        assert "Loading" not in done.stdout and not (tmp_path / "run").exists()


def test_signals_are_given_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption() as interruption:
        assert not interruption.requested
        signal.raise_signal(signal.SIGTERM)
        assert interruption.requested
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_signal_ends_the_process_at_once():
    program = (
        "import os, signal\nfrom gym_batchnav.cli.train import Interruption\n"
        "with Interruption():\n    signal.raise_signal(signal.SIGINT)\n    print('on', flush=True)\n"
        "    try:\n        signal.raise_signal(signal.SIGINT)\n    finally:\n        print('cleaned')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "on\n")


@pytest.mark.slow
def test_a_run_is_interrupted_and_resumed(tmp_path):
    need_torch()
    save_glb(box_room(width=5, depth=4), tmp_path / "room.glb")
    out = tmp_path / "run"
    few = ("--scenes", tmp_path / "room.glb", "--num-envs", 8, "--policy", "blind", "--threads", 1, "--out", out)
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

    again = subprocess.run(command(*few), capture_output=True, text=True, timeout=250)
    assert again.returncode == 1 and "contains a run: resume it with --resume" in again.stderr

    frames = json.loads((out / "curve.jsonl").read_text().splitlines()[-1])["frames"]
    ends = ("--out", out, "--resume", "--frames", frames + 1000, "--json")
    done = subprocess.run(command(*ends), capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["complete"] and frames + 1000 <= figures["frames"] < frames + 1500
    assert f"Resuming after {frames:,} frames" in done.stderr
