"""Use the installed package, not the checkout: ``python -I .ci/smoke.py VERSION`` in a fresh environment.

It imports the package, runs its command, and steps a batch of eight agents with images.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import gymnasium
import numpy as np

import gym_batchnav


def main() -> None:
    """Check the installed package; the first step compiles kernels, which takes half a minute."""
    (version,) = sys.argv[1:]
    assert gym_batchnav.__version__ == version, gym_batchnav.__version__
    package = Path(gym_batchnav.__file__).parent
    assert package.is_relative_to(sysconfig.get_path("purelib")), f"{package} is not the installed package"
    assert (package / "py.typed").is_file()
    command = Path(sysconfig.get_path("scripts"), "gym-batchnav")
    said = subprocess.run([command, "--help"], check=True, capture_output=True, text=True, encoding="utf-8").stdout
    assert all(name in said for name in ("demo", "doctor", "train", "evaluate", "view")), said
    step()
    print(f"gym-batchnav {version} runs on Python {sys.version.split()[0]}")


def step() -> None:
    """Step a batch in the shipped apartments."""
    envs = gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=8, scenes="apartments", sensors=("depth", "rgb"))
    observation, _ = envs.reset(seed=0)
    actions = np.ones(8, np.int64)
    observation, reward, terminated, truncated, info = envs.step(actions)
    assert observation in envs.observation_space
    assert observation["depth"].std() > 0 and observation["rgb"].std() > 0
    assert (info["distance_to_goal"] > 0).all() and np.isfinite(reward).all()
    assert not (terminated | truncated).any()
    envs.close()


if __name__ == "__main__":
    main()
