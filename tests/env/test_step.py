"""The path of a step: how many modules a reader has to open."""

import sys
from pathlib import Path

import numpy as np

import gym_batchnav
from gym_batchnav import BatchNavEnv

PACKAGE = Path(gym_batchnav.__file__).parent
MOST = 16
APART = ("render/", "navmesh/kernels/")  # internals of renderers and kernels, and what they call


def test_a_step_goes_through_few_modules(library):
    env = BatchNavEnv(4, library=library, renderer="embree", episodes=20)
    env.reset(seed=0)
    env.step(np.full(4, 2))  # the first step checks what components return
    entered = set()

    def note(frame, event, argument):
        outer = frame
        files = []
        while event == "call" and outer is not None:
            files.append(outer.f_code.co_filename)
            outer = outer.f_back
        own = [Path(one).relative_to(PACKAGE).as_posix() for one in files if one.startswith(f"{PACKAGE}/")]
        if own and files[0].startswith(f"{PACKAGE}/") and not any(one.startswith(APART) for one in own):
            entered.add(own[0])

    sys.setprofile(note)
    try:
        env.step(np.full(4, 2))
    finally:
        sys.setprofile(None)
    env.close()
    assert {"env/batch.py", "env/step.py", "task/pointnav.py"} <= entered
    assert len(entered) <= MOST, sorted(entered)
