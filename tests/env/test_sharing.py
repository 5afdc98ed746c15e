"""Two batches with one library and one renderer each behave as they would alone."""

import numpy as np
import pytest
from rooms import box_room
from walks import assert_equal

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary

NUM_ENVS = 6
HALF = 3
ROOMS = [box_room(f"room_{i}", width=5 + i, depth=4 + i / 2) for i in range(7)]
ROTATING = {"scenes": Scenes(ROOMS, resident=3, rotate_every=10, deterministic_rotation=True)}


@pytest.fixture
def make(opened):
    def make(num_envs=NUM_ENVS, **kwargs):
        keywords = {"episodes": 30, "max_episode_steps": 25, "camera": Camera(16, 16)}
        keywords |= {} if "library" in kwargs else {"scenes": ROOMS[:3]}
        return opened(BatchNavEnv(num_envs, **{**keywords, "renderer": "embree", **kwargs}))

    return make


def pair(make, **kwargs):
    """Make two batches that share scenes and renderer."""
    first = make(HALF, **kwargs)
    own = {name: value for name, value in kwargs.items() if name not in (*ROTATING, "renderer")}
    return first, make(HALF, library=first.library, renderer=first.renderer, **own)


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("renderer", ["embree", pytest.param("opengl", marks=pytest.mark.opengl)])
def test_one_is_drawn_while_the_other_acts_and_both_are_the_single_batch(make, mode, renderer):
    """Environment i visits slots from i mod 3 on, so two batches of three equal the rows of a batch of six."""
    whole = make(autoreset_mode=mode, renderer=renderer)
    halves = pair(make, autoreset_mode=mode, renderer=renderer)
    beginning = whole.reset(seed=5)[0]
    for index, half in enumerate(halves):
        observation = half.reset(seed=5 + HALF * index)[0]
        np.testing.assert_allclose(observation["depth"], beginning["depth"][HALF * index :][:HALF], atol=1e-5)
    rng = np.random.default_rng(0)
    in_flight = None
    for _ in range(55):
        actions = rng.choice(4, NUM_ENVS, p=[0.04, 0.5, 0.23, 0.23])
        expected = whole.step(actions)
        found = []
        for half, own in zip(halves, np.split(actions, 2), strict=True):
            half.send(own)  # while the other's pictures have not been received
            if in_flight is not None:
                found.append(in_flight.recv())
            in_flight = half
        found.append(in_flight.recv())
        in_flight = None
        for index, (observation, *rest, info) in enumerate(found):
            rows = slice(HALF * index, HALF * index + HALF)
            for left, right in zip(expected[1:4], rest, strict=True):
                np.testing.assert_array_equal(left[rows], right)
            near = np.abs(observation["depth"] - expected[0]["depth"][rows]) < 1e-5
            assert near.all() if renderer == "embree" else near.mean() > 0.999
            for name in ("scene_index", "episode_index", "distance_to_goal"):
                np.testing.assert_array_equal(info[name], expected[4][name][rows])
    assert whole.episodes.count.min() > 2


def test_scenes_that_left_are_not_looked_into(make):
    """One batch renders during steps in which the other changes scenes."""
    first, second = pair(make, autoreset_mode="same_step", **ROTATING)
    first.reset(seed=0), second.reset(seed=0)
    rng = np.random.default_rng(0)
    second.send(np.ones(HALF, int))
    for _ in range(100):
        first.step(rng.integers(0, 4, HALF))
        second.recv()
        second.send(rng.integers(0, 4, HALF))
    assert first.library.stats()["swaps"] > 3


def test_the_batch_that_made_the_renderer_closes_it_and_the_library_outlives_both(make):
    first, second = pair(make)
    first.reset(seed=0), second.reset(seed=3)
    renderer = second.renderer
    assert renderer is first.renderer and second.config.renderer_name == "embree"
    second.close(), second.close()
    first.step(np.ones(HALF, int))
    third = make(HALF, library=first.library, renderer=renderer)
    assert_equal(third.reset(seed=0)[0], first.reset(seed=0)[0])
    first.close()
    for use in (lambda: third.step(np.ones(HALF, int)), make(library=third.library, renderer=renderer).reset):
        with pytest.raises(RuntimeError, match="let the environment that made it be the last"):
            use()
    assert np.isfinite(make(library=third.library).reset(seed=0)[0]["depth"]).all()


def test_a_renderer_of_another_library_is_refused(make):
    first = make(HALF)
    for keywords in ({}, {"library": SceneLibrary.from_scenes(ROOMS[:1])}):
        with pytest.raises(ValueError, match="renderer= draws another environment's scenes"):
            make(HALF, renderer=first.renderer, **keywords)
    with pytest.raises(ValueError, match="renderer=7: choose one of 'auto', 'warp', 'opengl', 'embree'"):
        make(HALF, renderer=7)
