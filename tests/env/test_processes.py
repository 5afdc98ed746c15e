"""Forked children raise an error with a remedy; spawned ones work; programs end at once."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parents[1]
LEAVES_WITHIN = 300  # seconds; it takes one or two where nothing else runs, and what it must not wait for takes an hour

PROCESSES = """
import os, sys
sys.path.insert(0, {tests!r})
import gymnasium
import numpy as np
from functools import partial
from rooms import box_room
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.library.library import SceneLibrary

def make(kind):
    library = SceneLibrary.from_scenes([box_room()])
    return kind(library=library, episodes=10, renderer={renderer!r}, scenes=Scenes(cache_dir={cache!r}))

if __name__ == "__main__":
    batch = partial(BatchNavEnv, 64)
    env = make(batch)
    env.reset(seed=0)
    env.step(np.ones(64, int))
    if os.fork() == 0:
        said = []
        for use in (lambda: env.step(np.ones(64, int)), env.pictures, env.reset, lambda: make(batch).reset()):
            try:
                use()
            except RuntimeError as error:
                said.append('context="spawn"' in str(error))
        os._exit(0 if said == [True] * 4 else 1)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0, "the forked child was not told"
    single = partial(gymnasium.make, "gym_batchnav:BatchNav/PointNav-v0")
    envs = gymnasium.vector.AsyncVectorEnv([partial(make, single)], context="spawn")
    envs.reset(seed=0)
    assert envs.step([1])[0]["depth"].shape == (1, 64, 64, 1)
    envs.close()
    scenes = Scenes([box_room(f"room_{{i}}") for i in range(6)], resident=2, rotate_every=1, cache_dir={cache!r})
    rotating = BatchNavEnv(4, scenes=scenes, episodes=10)
    rotating.reset(seed=0)
    rotating.step(np.ones(4, int))  # and the program ends while a scene loads
"""


@pytest.mark.parametrize("renderer", ["embree", pytest.param("opengl", marks=[pytest.mark.opengl, pytest.mark.slow])])
def test_a_forked_child_is_told_to_spawn_a_spawned_one_works_and_a_program_may_end_while_a_scene_loads(
    renderer, tmp_path
):
    program = tmp_path / "program.py"
    program.write_text(PROCESSES.format(tests=str(HERE), renderer=renderer, cache=str(tmp_path)))
    run = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


UNPREPARED_HOMES = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us aside
import os, sys, threading, time
import numpy as np
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes

env = BatchNavEnv(4, scenes=Scenes("procedural:0-399", resident=2, rotate_every=1, cache_dir={cache!r}),
                  episodes=10, sensors=())
env.reset(seed=0)
for _ in range(30):
    env.step(np.ones(4, int))
end = time.monotonic() + 60
while not any(thread.name == "scene loader" for thread in threading.enumerate()) and time.monotonic() < end:
    env.step(np.ones(4, int))
print("leaving", flush=True)
if {interrupted}:
    time.sleep(3600)
"""


def leave(program, word, interrupted):
    """Let a program print its word and end at once; return what it said and its children of before."""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == f"{word}\n", child.stderr.read()
        workers = psutil.Process(child.pid).children()
        if interrupted:
            child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=LEAVES_WITHIN)
    finally:
        child.kill()
    assert child.returncode == (-signal.SIGINT if interrupted else 0), stderr
    return stderr, workers


@pytest.mark.slow
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_program_leaves_at_once_while_homes_are_prepared(interrupted, tmp_path):
    program = UNPREPARED_HOMES.format(cache=str(tmp_path), interrupted=interrupted)
    stderr, workers = leave(program, "leaving", interrupted)
    assert not interrupted or (stderr.count("Traceback") == 1 and "KeyboardInterrupt" in stderr)
    assert workers, "the homes were not prepared by a process of their own"
    psutil.wait_procs(workers, LEAVES_WITHIN)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in workers)


SLOW_SCENE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us aside
import sys, time
sys.path.insert(0, {tests!r})
from rooms import box_room
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.scene.save import save_glb

def never_ready(self, scene):
    print("preparing", flush=True)
    time.sleep(3600)

NavigationPreparer.__call__ = never_ready
save_glb(box_room(), {folder!r} + "/room.glb")
BatchNavEnv(1, scenes=Scenes({folder!r} + "/room.glb", cache_dir={folder!r} + "/cache"), sensors=())
"""


def test_a_program_leaves_at_once_while_its_only_scene_is_prepared_in_its_own_process(tmp_path):
    stderr, workers = leave(SLOW_SCENE.format(tests=str(HERE), folder=str(tmp_path)), "preparing", interrupted=True)
    assert "KeyboardInterrupt" in stderr and not workers
