"""The examples of replay, of an asynchronous learner and of a population on Ray, at tiny sizes; and logged measures."""

# ruff: noqa: E402
from libraries import require

require("ray")

import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import ray
import torch
from ray import cloudpickle
from ray_nodes import connected_nodes
from rooms import box_room

from gym_batchnav.adapters.rllib import log_measures, make_batch
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.flight.task import DroneNav
from gym_batchnav.geometry import Camera
from gym_batchnav.task.pointnav import PointNav

EXAMPLES = Path(__file__).parents[2] / "examples"
NUM_NODES = 3
sys.path.insert(0, str(EXAMPLES))  # the examples share a module
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # env runners are processes that cannot import this file


@pytest.fixture(scope="module")
def cluster():
    """Connect to three nodes with room for one env runner each."""
    with connected_nodes(NUM_NODES) as cluster:
        yield cluster


def make_small(config, folder, **keywords):
    """Make the batch of an env runner in a room, and note the node that it is on."""
    (folder / ray.get_runtime_context().get_node_id()).touch()
    given = {name: config[name] for name in ("num_envs", "id", "sensors", "max_episode_steps")}
    return make_batch({**given, "scenes": [box_room()], "episodes": 30, **keywords})


def options_of(example, parser, text):
    """Return the options of an example for a line of arguments."""
    example.add_options(parser)
    return parser.parse_args(text.split())


@pytest.mark.slow
def test_drones_on_three_nodes_fill_the_replay_of_one_learner(cluster, tmp_path, monkeypatch):
    import rllib_dronenav as example
    from rllib_run import make_parser

    task = DroneNav(sampler=FlightEpisodes(num_goals=4))
    make = partial(make_small, folder=tmp_path / "nodes", task=task, renderer="embree")
    (tmp_path / "nodes").mkdir()
    monkeypatch.setattr(example, "make_batch", make)
    line = (
        "--env-runners 3 --num-envs 4 --rollout 8 --episode-steps 12 --warm-up 100 --batch 16 --intensity 1 --report 60"
    )
    algorithm = example.make_config(options_of(example, make_parser(""), line)).build_algo()
    try:
        before = algorithm.get_weights()["default_policy"]
        for _ in range(4):
            results = algorithm.train()
        after = algorithm.get_weights()["default_policy"]
        buffer = algorithm.local_replay_buffer
        steps = results["env_runners"]["num_env_steps_sampled_lifetime"]
        assert steps >= 200 and buffer.get_num_timesteps() == pytest.approx(steps, abs=60)
        priorities = np.array([buffer._sum_segment[index] for index in range(100)])
        assert len(set(priorities[priorities > 0].round(6))) > 20  # the errors of steps that were learned from
        acting = algorithm.env_runner_group.foreach_env_runner(
            lambda runner: runner.module.state_dict(), local_env_runner=False
        )
    finally:
        algorithm.stop()
    assert any(not np.allclose(before[name], after[name]) for name in before)
    assert len(acting) == NUM_NODES
    for state in acting:
        shared = [name for name in state if name in after]
        assert shared and all(np.allclose(state[name], after[name], atol=0.05) for name in shared)
    nodes = {path.name for path in (tmp_path / "nodes").iterdir()}
    assert nodes == {node["NodeID"] for node in ray.nodes()} and len(nodes) == NUM_NODES


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 8])
def test_the_asynchronous_learner_learns_from_what_was_sampled(cluster, tmp_path, monkeypatch, size):
    import rllib_appo as example
    from rllib_run import make_parser

    (tmp_path / "nodes").mkdir()
    keywords = {"task": PointNav(success_distance=4.0), "renderer": "embree"}
    if size:
        keywords["camera"] = Camera(size, size)
    monkeypatch.setattr(example, "make_batch", partial(make_small, folder=tmp_path / "nodes", **keywords))
    line = f"--env-runners 2 --num-envs 4 --rollout 10 --episode-steps 9 --size {size} --report 0.5"
    algorithm = example.make_config(options_of(example, make_parser(""), line)).build_algo()
    learned = episodes = succeeded = 0
    try:
        before = algorithm.get_weights()["default_policy"]
        for _ in range(800):  # the first steps may wait for kernels
            results = algorithm.train()
            learned = results.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained_lifetime", 0)
            counted = results["env_runners"]
            episodes += np.nan_to_num(counted.get("num_episodes", 0))
            succeeded += np.nan_to_num(counted.get("success", 0))
            if learned > 400 and episodes > 20:
                break
        after = algorithm.get_weights()["default_policy"]
    finally:
        algorithm.stop()
    assert learned > 400 and 0 < succeeded <= episodes
    assert any(not np.allclose(before[name], after[name]) for name in before)


def test_the_copy_of_the_actor_stays_until_it_is_updated():
    import gymnasium
    import rllib_appo as example

    space = gymnasium.spaces.Dict({example.PointGoal.name: gymnasium.spaces.Box(-5, 5, (2,), np.float32)})
    module = example.Navigator(observation_space=space, action_space=gymnasium.spaces.Discrete(4))
    module.make_target_networks()
    batch = {"obs": {example.PointGoal.name: torch.randn(5, 2)}}
    (logits,) = module.forward_target(batch).values()
    out = module.forward_train(batch)
    torch.testing.assert_close(out["action_dist_inputs"], logits)
    values = module.compute_values(batch, out["embeddings"])
    torch.testing.assert_close(values, module.compute_values(batch))
    with torch.no_grad():
        module.actor.head.bias += 1
    torch.testing.assert_close(*module.forward_target(batch).values(), logits)
    torch.testing.assert_close(module.forward_train(batch)["action_dist_inputs"], logits + 1)


def test_measures_are_logged_as_sums():
    sums = Counter()
    metrics = SimpleNamespace(log_value=lambda name, value, reduce: sums.update({(name, reduce): value}))
    for success, spl in ((True, 0.5), (False, 0.0), (True, 1.0)):
        infos = {-1: {"success": np.bool_(success), "spl": np.float32(spl), "path_length": 3.0}}
        log_measures(episode=SimpleNamespace(get_infos=infos.get), metrics_logger=metrics, env_index=0)
    assert sums == {("success", "sum"): 2.0, ("spl", "sum"): 1.5}


@pytest.fixture
def population():
    import tag_population

    return tag_population


CONFIG = {
    "scenes": [box_room()], "num_worlds": 4, "matches": 6, "episode_steps": 20, "rollouts": 1, "seed": 0,
    "learning_rate": 1e-3, "entropy_weight": 0.01, "horizon": 10.0,
}  # fmt: skip


def weights_of(member):
    return torch.cat([values.flatten() for values in member.policy.state_dict().values()])


def test_a_member_goes_on_from_anothers_checkpoint_with_its_own_settings(population, tmp_path):
    best, worst = (population.Member({**CONFIG, "seed": seed, "learning_rate": 1e-3 * (1 + seed)}) for seed in (0, 1))
    result = best.train()
    assert result["frames"] == 2 * CONFIG["num_worlds"] * 32
    assert result["score"] == pytest.approx((result["caught"] + result["escaped"]) / 2)
    assert not torch.equal(weights_of(best), weights_of(worst))
    best.save_checkpoint(str(tmp_path))
    worst.reset_config({**CONFIG, "seed": 1, "learning_rate": 5e-3, "horizon": 20.0})
    worst.load_checkpoint(str(tmp_path))
    assert torch.equal(weights_of(best), weights_of(worst)) and worst.ppo.frames == best.ppo.frames
    assert worst.ppo.config.learning_rate == 5e-3 and worst.ppo.config.gamma == pytest.approx(0.95)
    worst.train()
    assert not torch.equal(weights_of(best), weights_of(worst))
    for member in (best, worst):
        member.stop()


def test_the_pursuer_walks_straight_at_the_runner(population):
    ahead = np.array([[2, 0], [2, 0.1], [1, 1], [1, -1], [-1, -0.1]])
    observation = {"opponent": np.column_stack([ahead, np.zeros((5, 2))])}
    assert population.pursuer(observation).tolist() == [1, 1, 3, 2, 2]
    arena = population.make_worlds(12, {**CONFIG, "episode_steps": 120}, "disabled")
    stands = lambda observation: np.zeros(len(observation["opponent"]), int)  # noqa: E731
    assert population.catches(arena, population.pursuer, stands, seed=0) > 0.2
    assert population.catches(arena, stands, stands, seed=0) == 0
    arena.close()


@pytest.mark.slow
def test_a_population_takes_over_and_is_rated(cluster, population, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(population, "ray", SimpleNamespace(init=lambda *_, **__: None, shutdown=lambda: None))
    line = "--members 3 --steps 4 --rollouts 1 --interval 1 --num-worlds 4 --matches 6 --episode-steps 20"
    scenes = ["--scenes", "apartment_0", "--held-out", "apartment_1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["tag_population.py", *line.split(), *scenes])
    population.main()
    figures = json.loads((tmp_path / "population.json").read_text())
    assert set(figures["ratings"]) == {"random", "pursuer", "untrained", "member 0", "member 1", "member 2"}
    assert sum(figures["ratings"].values()) == pytest.approx(0, abs=1e-6)
    for member in figures["members"]:  # one that took over counts the frames of the other
        # A slow one that takes over goes on from the other's step, so it may have fewer scores.
        assert 1 <= len(member["scores"]) <= 4 and member["frames"] > 0 and member["frames"] % (4 * 2 * 32) == 0
    assert "rating" in capsys.readouterr().out
