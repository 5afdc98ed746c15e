"""An agent learns the example of a custom task."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_task.py"


@pytest.mark.slow
def test_it_learns():
    environment = {**os.environ, "PYTHONPATH": f"{EXAMPLE.parents[1]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, str(EXAMPLE), "--frames", "120000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr
    steps = [float(number) for number in re.findall(r"([\d.]+) steps strolled", done.stdout)]
    assert steps[-1] > 3 * max(steps[0], 1)
