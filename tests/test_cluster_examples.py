"""The scripts of examples/cluster, with stand-ins for the schedulers' commands."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rooms import box_room
from typer.main import get_command

from gym_batchnav.cli import app
from gym_batchnav.scene.save import save_glb

FOLDER = Path(__file__).parents[1] / "examples" / "cluster"
SCRIPTS = sorted(FOLDER.glob("*.sbatch"))
JOB = "4711"


@pytest.fixture
def bin_dir(tmp_path):
    """A folder for PATH: gym-batchnav, and an scontrol that writes down its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    commands = {
        "gym-batchnav": f'exec {shlex.quote(sys.executable)} -m gym_batchnav "$@"',
        "scontrol": f'echo "$@" >> {shlex.quote(str(tmp_path / "scontrol.log"))}',
        "echo-batchnav": 'printf "%s\\n" "$@"',
    }
    for name, line in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return folder


def environment(bin_dir, **variables):
    return {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}", "SLURM_JOB_ID": JOB, **variables}


def options_in(text):
    """Return gym-batchnav's commands in a string, each with its options."""
    joined = re.sub(r"\\\n[#\s]*", " ", text)
    found = []
    for line in re.findall(r"gym-batchnav ((?:train|evaluate|scene) [^\n\"']*)", joined):
        words = line.split()
        end = 2 if words[1] == "prepare" else 1
        found.append((tuple(words[:end]), re.findall(r"(?<!\S)--[a-z][a-z-]*", line)))
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid_bash(script):
    subprocess.run(["bash", "-n", script], check=True)
    given = re.findall(r"^#SBATCH (--[\w-]+)(?:=\S+)?$", script.read_text(), re.MULTILINE)
    assert "--time" in given and len(given) == script.read_text().count("#SBATCH")


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_commands_and_options_exist(file):
    found = options_in(file.read_text())
    assert found
    for words, options in found:
        command = get_command(app)
        for word in words:
            command = command.commands[word]
        known = {name for parameter in command.params for name in parameter.opts}
        assert set(options) <= known, words


def test_the_array_gives_every_task_its_shard_and_its_folder(bin_dir, tmp_path):
    (bin_dir / "gym-batchnav").write_text((bin_dir / "echo-batchnav").read_text())
    seen = set()
    for task in (1, 8):
        variables = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_COUNT": "2"}
        command = ["bash", FOLDER / "array.sbatch", "evaluate", "--policy", "a b.safetensors"]
        done = subprocess.run(
            command, env=environment(bin_dir, **variables), capture_output=True, text=True, check=True
        )
        words = done.stdout.splitlines()
        assert words[:3] == ["evaluate", "--policy", "a b.safetensors"]
        assert words[3:] == ["--shard", f"{task}/8", "--out", f"shards/12/{task}"]
        seen.add(words[4])
    assert "#SBATCH --array=1-8\n" in (FOLDER / "array.sbatch").read_text() and seen == {"1/8", "8/8"}


def test_the_help_of_shards_counts_like_the_array():
    commands = get_command(app).commands
    helps = {
        name: next(one.help for one in command.params if "--shard" in one.opts)
        for name, command in {
            "evaluate": commands["evaluate"],
            "prepare": commands["scene"].commands["prepare"],
            "collect": commands["collect"].commands["run"],
        }.items()
    }
    text = commands["collect"].commands["run"].help
    assert "In a Slurm array 1-8, the part is --shard $SLURM_ARRAY_TASK_ID/8;" in text
    assert not any("SLURM_ARRAY_TASK_ID +" in text for text in helps.values())


def test_the_kubernetes_job_is_indexed_and_its_shards_are_complete(bin_dir):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    job = yaml.safe_load((FOLDER / "kubernetes-job.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed" and spec["template"]["spec"]["restartPolicy"] == "Never"
    assert {mount["name"] for mount in spec["template"]["spec"]["containers"][0]["volumeMounts"]} == {
        volume["name"] for volume in spec["template"]["spec"]["volumes"]
    }
    (container,) = spec["template"]["spec"]["containers"]
    (bin_dir / "gym-batchnav").write_text((bin_dir / "echo-batchnav").read_text())
    shards = set()
    for index in (0, spec["completions"] - 1):
        command = [*container["command"], *container["args"]]
        variables = environment(bin_dir, JOB_COMPLETION_INDEX=str(index))
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        words = done.stdout.splitlines()
        shards.add(words[words.index("--shard") + 1])
    assert shards == {f"1/{spec['completions']}", f"{spec['completions']}/{spec['completions']}"}


def test_the_ray_cluster_file_is_valid():
    """By Ray's own schema if Ray is installed."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    cluster = yaml.safe_load((FOLDER / "ray-cluster.yaml").read_text())
    assert cluster["min_workers"] == cluster["max_workers"] == len(cluster["provider"]["worker_ips"])
    util = pytest.importorskip("ray.autoscaler._private.util", reason="ray is not installed")
    util.validate_config(util.prepare_config(cluster))


def start(bin_dir, *arguments):
    return subprocess.Popen(
        ["bash", FOLDER / "train.sbatch", *map(str, arguments)], env=environment(bin_dir), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def test_only_interrupted_training_is_requeued(bin_dir, tmp_path):
    for status, requeued in ((0, False), (1, False), (130, True)):
        (bin_dir / "gym-batchnav").write_text(f"#!/bin/sh\nexit {status}\n")
        (tmp_path / "scontrol.log").write_text("")
        assert start(bin_dir, "--out", tmp_path / "run").wait(timeout=60) == status
        assert (tmp_path / "scontrol.log").read_text() == (f"requeue {JOB}\n" if requeued else "")


def test_the_script_waits_while_the_training_saves(bin_dir, tmp_path):
    saves = "import signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: (time.sleep(0.3), sys.exit(130)))\n"
    saves += 'print("ready", flush=True)\ntime.sleep(60)\n'
    (tmp_path / "saves.py").write_text(saves)
    (bin_dir / "gym-batchnav").write_text(f"#!/bin/sh\nexec {sys.executable} {tmp_path / 'saves.py'}\n")
    job = start(bin_dir)
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGUSR1)
    assert job.wait(timeout=60) == 130
    assert (tmp_path / "scontrol.log").read_text() == f"requeue {JOB}\n"


@pytest.mark.slow
def test_a_requeued_training_goes_on_to_its_end(bin_dir, tmp_path):
    """It gets a signal a second after it has begun."""
    for name in ("torch", "safetensors"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    save_glb(box_room(width=5, depth=4), tmp_path / "room.glb")
    training = ("--policy", "blind", "--frames", 10_000, "--set", "num_envs=8", "--set", "threads=1")
    for status in (130, 0):
        job = start(bin_dir, "--scenes", tmp_path / "room.glb", *training, "--out", tmp_path / "run")
        said = ""
        for line in job.stdout:
            said += line
            if line.startswith("Training 'blind'"):
                break
        if status:
            time.sleep(1)
            job.send_signal(signal.SIGUSR1)
        said += job.communicate(timeout=200)[0]
        assert job.returncode == status, said
    assert (tmp_path / "scontrol.log").read_text() == f"requeue {JOB}\n"
    assert "Resuming after" in said
    rows = (tmp_path / "run/curve.jsonl").read_text().splitlines()
    assert 10_000 <= json.loads(rows[-1])["frames"] < 10_500
