"""Displacement from a log, against distances computed by hand."""

import numpy as np
import pytest

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.task.log_agreement import FinalDisplacement, MeanDisplacement


@pytest.fixture
def make(library, opened):
    def make(path, num_envs=1, **keywords):
        given = {"library": library, "sensors": (), "episodes": 20, "max_episode_steps": 9}
        measures = (MeanDisplacement(path), FinalDisplacement(path))
        return opened(BatchNavEnv(num_envs, measures=measures, **{**given, **keywords}))

    return make


@pytest.mark.parametrize(("num_steps", "agents"), [(5, 1), (9, 2), (20, 2)])
def test_the_mean_runs_over_the_steps_of_the_log(make, num_steps, agents):
    path = np.random.default_rng(0).normal(size=(num_steps + 1, agents, 3)).astype(np.float32)
    env = make(path.tolist(), num_envs=2 * agents, agents_per_world=agents)  # as from a JSON file
    env.reset(seed=0)
    distances = []
    for step in range(9):
        _, _, _, _, info = env.step(np.full(2 * agents, 1 + step % 3))
        logged = path[min(step + 1, num_steps)]
        distances.append(np.linalg.norm(env.agents.position - np.tile(logged, (2, 1)), axis=1))
        np.testing.assert_allclose(info["mean_displacement"], np.mean(distances[:num_steps], axis=0), rtol=1e-6)
    np.testing.assert_allclose(info["final_displacement"], distances[-1], rtol=1e-6)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (np.zeros((4, 2)), r"path is float64 \(4, 2\)"),
        (np.zeros((1, 1, 3)), "path is"),
        (np.zeros((4, 1, 3), int), "path is int64"),
        (np.full((4, 1, 3), np.inf), "not finite"),
    ],
)
def test_wrong_paths_are_refused(path, message):
    with pytest.raises(ValueError, match=message):
        MeanDisplacement(path)


def test_every_agent_needs_a_path(make):
    with pytest.raises(ValueError, match="path of 1 agents for worlds of 2"):
        make(np.zeros((4, 3)), num_envs=2, agents_per_world=2).reset()
