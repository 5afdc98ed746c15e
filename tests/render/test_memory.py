"""Renderers at constant memory: many pictures, scenes that come and go, renderers made and closed."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import psutil
import pytest
from quads import checkerboard, scene_of, wall
from rays import AHEAD

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import make_renderer
from gym_batchnav.render.embree.device import RayTree
from gym_batchnav.render.embree.renderer import EmbreeRenderer

SMALL = Camera(8, 8)
SENSORS = ("depth", "rgb", "semantic")
ALLOWED = 4 * 2**20  # bytes of noise
PARTS = 5  # in which growth is measured


def resident() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def scene(distance: float):
    """A wall with a texture whose pool is 350 KB, and which is masked."""
    return scene_of(wall(distance, texture=checkerboard(8), masked=True), wall(distance + 1))


def growth(work, rounds: int, warm_up: int) -> int:
    """Bytes by which memory grows over ``rounds`` calls of ``work``, after others.

    A leak grows in each part of them; what other tests have left behind in this process comes and goes once.
    """
    for _ in range(warm_up):
        work()
    gc.collect()
    gc.freeze()  # each of the collections below would search the objects of other tests
    try:
        held = [resident()]
        for _ in range(PARTS):
            for _ in range(rounds // PARTS):
                work()
            held.append(resident())
    finally:
        gc.unfreeze()
    return PARTS * int(np.diff(held).min())


@pytest.fixture(params=["embree", pytest.param("opengl", marks=pytest.mark.opengl)])
def name(request) -> str:
    return request.param


@pytest.mark.slow
def test_ten_thousand_pictures(name):
    renderer = make_renderer(name, SceneLibrary.from_scenes([scene(2)]))
    target = renderer.target(SMALL, SENSORS)
    slots = np.zeros(1, np.int32)
    assert growth(lambda: target.render(slots, AHEAD), 10_000, 200) < ALLOWED
    renderer.close()


def test_forty_scenes_through_one_slot(name):
    library = SceneLibrary.from_scenes([scene(2), scene(3)])
    renderer = make_renderer(name, library)
    targets = [renderer.target(SMALL, SENSORS), renderer.target(SMALL, ("depth",))]
    slots = np.ones(1, np.int32)
    distances = iter(range(1000))

    def swap() -> None:
        library.put(1, scene(2 + next(distances) % 5))
        for target in targets:
            target.render(slots, AHEAD)

    assert growth(swap, 40, 10) < ALLOWED
    renderer.close()


@pytest.mark.parametrize("empty", [False, True])
def test_a_begin_of_any_target_frees_what_has_left(empty):
    library = SceneLibrary.from_scenes([scene(2), scene(3)])
    renderer = EmbreeRenderer(library)
    target = renderer.target(SMALL, SENSORS)
    idle = renderer.target(SMALL, ("depth",))
    closed = EmbreeRenderer(library)
    of_closed = closed.target(SMALL, SENSORS)
    closed.close()
    for each in (target, idle):
        each.render(np.ones(1, np.int32), AHEAD)
    tree = weakref.ref(next(made for made in library._prepared[1].values() if isinstance(made, RayTree)))
    library.put(1, None if empty else scene(4))
    target.render(np.zeros(1, np.int32), AHEAD)
    assert tree() is None, "neither held by the idle target nor by that of the closed renderer"
    of_closed.close()
    renderer.close()


def test_twenty_rounds_of_making_and_closing(name):
    library = SceneLibrary.from_scenes([scene(2)])

    def round_() -> None:
        renderer = make_renderer(name, library)
        target = renderer.target(SMALL, SENSORS, num_views=16)
        target.render(np.zeros(1, np.int32), AHEAD)
        target.close()
        renderer.close()

    assert growth(round_, 20, 5) < ALLOWED


@pytest.mark.slow
def test_the_library_counts_its_bytes():
    """In a separate process, where no other memory changes."""
    program = """
import gc, pathlib, psutil, sys
from gym_batchnav.env.batch import BatchNavEnv

files = sorted(pathlib.Path(sys.argv[1]).glob("*.glb"))
assert len(files) == 8

def environment(*scenes):
    env = BatchNavEnv(4, scenes=scenes, sensors=("depth", "rgb"), renderer="embree")
    env.reset(seed=0)
    return env

def resident():
    gc.collect()
    return psutil.Process().memory_info().rss

warm_up = environment("procedural:0")
before = resident()
env = environment(*files)
print(resident() - before, env.library.nbytes)
"""
    assets = Path(__file__).parents[2] / "assets"
    ended = subprocess.run([sys.executable, "-c", program, str(assets)], capture_output=True, text=True, check=True)
    grown, counted = map(int, ended.stdout.split())
    assert counted == pytest.approx(grown, rel=0.25)
