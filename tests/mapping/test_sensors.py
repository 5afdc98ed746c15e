"""MapPath in a batch: the same for every N, repeatable, restored with the state, and checked."""

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav import Camera, CameraJitter, RedwoodNoise
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.evaluation.agents import ShortestPathAgent
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.lenses import Equirectangular
from gym_batchnav.mapping.agent import MapAgent
from gym_batchnav.mapping.drawing import BLOCKED
from gym_batchnav.mapping.sensors import MapPath

SMALL = MapPath(num_cells=128)


@pytest.fixture
def batch(opened):
    def batch(num_envs, **keywords):
        given = {"scenes": box_room(), "episodes": 12, "sensors": ("depth", SMALL), "camera": Camera(32, 32)}
        return opened(BatchNavEnv(num_envs, **{**given, "renderer": "embree", **keywords}))

    return batch


def readings(batch, num_envs, **keywords):
    """Readings [episodes, steps, 4] of each of 6 episodes under the actions of the shortest-path follower."""
    found = {}
    env = batch(num_envs, episodes=Episodes(order="once", count=6), autoreset_mode="same_step", **keywords)
    observation, info = env.reset(seed=3)
    while info["episode_valid"].any():
        for index in np.nonzero(info["episode_valid"])[0]:
            found.setdefault(int(info["episode_index"][index]), []).append(observation["map_path"][index].copy())
        observation, *_, info = env.step(env.shortest_path_actions())
    return found


def test_readings_do_not_depend_on_the_number_of_environments(batch):
    one, several = (readings(batch, count, sensor_noise={"depth": RedwoodNoise()}) for count in (1, 5))
    assert one.keys() == several.keys() and len(one) == 6
    for number, values in one.items():
        np.testing.assert_array_equal(values, several[number])


def test_a_camera_that_varies_draws_the_same_room(batch):
    jitter = CameraJitter(eye_height=(0.8, 1.4), pitch_deg=(-20, 10), yaw_deg=(-30, 30))
    env = batch(6, camera=Camera(32, 32, jitter=jitter))
    assert evaluate(env, MapAgent(), 12).success.mean() == 1.0
    cells = env.stepper.state.buffers["map_cells"]
    places = env.stepper.state.buffers["map_places"]
    for own, place in zip(cells, places, strict=True):  # the room is 8 by 6 metres around the origin
        rows, columns = np.nonzero(own & BLOCKED)
        x = (columns - SMALL.num_cells // 2) * SMALL.cell_size + place[0]
        z = (rows - SMALL.num_cells // 2) * SMALL.cell_size + place[1]
        assert (np.abs(x) < 4.15).all() and (np.abs(z) < 3.15).all()


def test_the_map_agent_finds_goals_that_it_does_not_see(batch):
    env = batch(6)
    mapped = evaluate(env, MapAgent(), 12)
    best = evaluate(env, ShortestPathAgent(), 12)
    assert mapped.success.mean() == 1.0
    assert 0.85 < mapped.spl.mean() <= best.spl.mean()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"sensors": (SMALL,)}, "reads the image 'depth': add 'depth'"),
        ({"sensors": ("depth", MapPath(image="front/depth"))}, "'front/depth'"),
        ({"sensors": ("rgb", MapPath(image="rgb"))}, r"image='rgb'.*name a depth image"),
        ({"camera": Camera(32, 16, lens=Equirectangular())}, "pinhole"),
        ({"sensors": ("depth",)}, r"map_path.*add MapPath\(\) to sensors="),
    ],
)
def test_images_that_cannot_be_drawn_and_agents_without_a_map_are_refused(batch, keywords, message):
    with pytest.raises(ValueError, match=message):
        evaluate(batch(1, **keywords), MapAgent(), 1)


@pytest.mark.parametrize(
    "fields",
    [{"cell_size": 0}, {"num_cells": 8}, {"num_cells": 1025}, {"num_cells": 1.5}, {"reach": -1}, {"lowest": 2.0}],
)
def test_wrong_settings_are_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        MapPath(**fields)
