"""The example that learns to fly by imitation, in a small room."""

# ruff: noqa: E402
from libraries import require

require("stable_baselines3")

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.flight.task import DroneNav

EXAMPLE = Path(__file__).parents[2] / "examples" / "dronenav.py"


@pytest.mark.slow
def test_imitation_makes_the_drone_act_like_the_follower(opened):
    spec = importlib.util.spec_from_file_location("dronenav", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    task = DroneNav(sampler=FlightEpisodes(num_goals=4))
    env = opened(example.make_env(8, [box_room()], episodes=30, task=task, renderer="embree"))
    env.seed(0)
    model = example.make_model(env, seed=0)

    def error():
        observation = env.reset()
        total = 0.0
        for _ in range(10):
            wanted = env.batch.shortest_path_actions()
            actions, _ = model.predict(observation, deterministic=True)
            total += np.square(actions - wanted).mean()
            observation, *_ = env.step(wanted)
        return total

    before = error()
    example.imitate(model, env, 800, updates=2)
    assert error() < 0.5 * before
