"""The kernels that programs need, compiled ahead."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest

# These also take 32-bit points or a flag that is a constant, so they are compiled for more than one signature.
COMPILED_TWICE = {"_is_diagonal", "nearest_on_segment", "distance_3d", "spot_at"}


@pytest.mark.slow
def test_each_kernel_is_compiled_for_one_signature(tmp_path):
    """A literal or a 32-bit integer among the arguments costs every program seconds at its first start."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "gym_batchnav", "warmup"]
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    machine_code = [re.match(r"(.+)\.(\w+)-\d+\..+\.\d+\.nbc", path.name) for path in tmp_path.rglob("*.nbc")]
    signatures = Counter((found[1], found[2]) for found in machine_code if found)
    assert len(signatures) > 150
    assert {name for (_, name), count in signatures.items() if count > 1} <= COMPILED_TWICE
