"""An agent learns the example of a custom task."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_task.py"


def run(*arguments, timeout):
    paths = [str(EXAMPLE.parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments], capture_output=True, text=True, timeout=timeout, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def steps_strolled(output):
    return [float(number) for number in re.findall(r"([\d.]+) steps strolled", output)]


@pytest.mark.slow
def test_it_learns():
    steps = steps_strolled(run("--frames", "120000", timeout=280))
    assert steps[-1] > 3 * max(steps[0], 1)
