"""Collections that are killed at random moments, as by kill -9, and resumed."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from gathering import assert_same_content

from gym_batchnav.collect.collector import collect

KEYWORDS = {
    "scenes": ["apartment_1", "apartment_2"],
    "sensors": (),
    "policy": "random",
    "renderer": "embree",
    "episodes_per_scene": 40,
    "episodes_per_shard": 3,
    "num_envs": 6,
    "max_episode_steps": 60,
}
# Kills itself a moment after it began to write a certain shard. Writing slowly makes kills within files likely.
CHILD = f"""
import os, signal, sys, threading, time
import gym_batchnav.collect.folder as folder
from gym_batchnav.collect.collector import collect
plain = folder._put
begun = []
def slow(*paths):
    begun.append(True)
    if len(begun) == int(sys.argv[3]):
        threading.Timer(float(sys.argv[4]), os.kill, (os.getpid(), signal.SIGKILL)).start()
    time.sleep(0.01)
    plain(*paths)
folder._put = slow
collect(sys.argv[1], to=sys.argv[2], **{KEYWORDS!r})
os._exit(0)
"""


def kill_and_resume(folder, style, moments):
    """Run a collection that is killed at each moment, then to its end; return how many runs were killed.

    A moment is the number of shards that the run begins to write, and the seconds after the last of them.
    """
    killed = 0
    for number, delay in moments:
        command = [sys.executable, "-c", CHILD, folder, style, str(number), str(delay)]
        done = subprocess.run(command, timeout=300, check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        killed += done.returncode == -signal.SIGKILL
    found = collect(folder, to=style, **KEYWORDS)
    assert found.num_missing == 0
    return killed


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="kill -9")
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("style", ["zarr", "webdataset"])
def test_collections_after_fifty_kills_equal_the_undisturbed_ones(tmp_path, style, number):
    """Five of fifty kills; the first ones come before the collection of 28 shards is complete."""
    collect(tmp_path / "whole", to=style, **KEYWORDS)
    random = np.random.default_rng(number)
    moments = zip(random.integers(1, 6, 5), random.uniform(0, 0.02, 5), strict=True)
    assert kill_and_resume(tmp_path / "killed", style, moments) >= 2
    assert_same_content(tmp_path / "whole", tmp_path / "killed")
