"""Worlds of several agents in RLlib: each agent's episodes, and how they end, against the environment's own record."""

# ruff: noqa: E402
from libraries import require

require("ray")

import json
import os
import sys
from functools import partial

import numpy as np
import pytest
import ray
from ray import cloudpickle
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.env_context import EnvContext
from ray.tune import register_env
from rooms import box_room

from gym_batchnav.adapters.rllib import RLlibWorld, make_world
from gym_batchnav.geometry import Camera
from gym_batchnav.task.pointnav import PointNav

LIMIT = 6
# Env runners are processes that cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def write(file, rows):
    with file.open("a") as stream:
        print(json.dumps(rows), file=stream)


class Recorder(RLlibWorld):
    """Writes down each agent's episode: return, length, how it ended, and the last observation."""

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed, options=options)
        if seed is not None:  # RLlib tries a step before the first reset that counts
            self.file.unlink(missing_ok=True)
        self.totals = {name: [0.0, 0] for name in self.acting}
        self.ended = {}
        return found

    def step(self, action_dict):
        found = super().step(action_dict)
        worlds = self.batch.worlds.state
        for name in action_dict:
            self.totals[name][0] += found[1][name]
            self.totals[name][1] += 1
            row = self.possible_agents.index(name)
            if worlds.waiting[0, row]:
                ends = bool(worlds.terminated[0, row]), bool(worlds.truncated[0, row])
                self.ended[name] = [*self.totals[name], *ends, float(found[0][name].sum())]
        if not self.acting:
            write(self.file, self.ended)
        return found


def make_recorder(config):
    """Make a recorded world in a room."""
    config = dict(config)
    folder = config.pop("folder")
    world = Recorder.make(
        config.pop("agents_per_world"),
        "BatchNav/PointNavScan-v0",
        scenes=[box_room()],
        camera=Camera(width=4, height=1),
        episodes=50,
        max_episode_steps=LIMIT,
        task=PointNav(success_distance=6.0),
        renderer="embree",
        **config,
    )
    world.file = folder / f"truth-{os.getpid()}.jsonl"
    return world


def note_end(*, episode, prev_episode_chunks, folder, **_):
    """Write down RLlib's view of an episode that ended."""
    ended = {}
    for name in {name for chunk in (*prev_episode_chunks, episode) for name in chunk.agent_episodes}:
        chunks = [one.agent_episodes[name] for one in (*prev_episode_chunks, episode) if name in one.agent_episodes]
        total = sum(chunk.get_return() for chunk in chunks)
        last = chunks[-1]
        ends = bool(last.is_terminated), bool(last.is_truncated)
        ended[name] = [float(total), sum(map(len, chunks)), *ends, float(last.get_observations(-1).sum())]
    write(folder / f"seen-{os.getpid()}.jsonl", ended)


@pytest.fixture(scope="module")
def cluster():
    path = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(num_cpus=2, runtime_env=path, logging_level="error", log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


@pytest.mark.parametrize("agents_per_world", [3, (2, 3)])
def test_every_agents_episodes_are_counted_right(cluster, tmp_path, agents_per_world):
    register_env("recorder", make_recorder)
    config = (
        PPOConfig()
        .environment("recorder", env_config={"folder": tmp_path, "agents_per_world": agents_per_world})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, rollout_fragment_length=200)
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent, *_, **__: "shared")
        .training(train_batch_size_per_learner=400, minibatch_size=200, num_epochs=1)
        .learners(num_learners=0)
        .debugging(seed=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .callbacks(on_episode_end=partial(note_end, folder=tmp_path))
    )
    algorithm = config.build_algo()
    try:
        algorithm.train()
    finally:
        algorithm.stop()
    truth, seen = (
        [json.loads(line) for path in sorted(tmp_path.glob(f"{kind}-*")) for line in path.read_text().splitlines()]
        for kind in ("truth", "seen")
    )
    assert len(truth) == len(seen) > 30
    kinds = {True: 0, False: 0}
    mixed = 0
    for own, found in zip(truth, seen, strict=True):
        assert own.keys() == found.keys()
        for name, (total, length, terminated, truncated, last) in own.items():
            assert found[name][1] == length and found[name][2] == terminated
            assert found[name][3] or not truncated
            assert [found[name][0], found[name][4]] == pytest.approx([total, last], abs=1e-4)
            kinds[terminated] += 1
        mixed += len({row[2] for row in own.values()}) == 2
    assert min(kinds.values()) > 10 and mixed > 5


def test_worlds_of_other_env_runners_run_other_episodes(tmp_path):
    begun = []
    for runner in (1, 2):
        config = {"agents_per_world": 2, "scenes": [box_room()], "sensors": (), "id": "BatchNav/PointNav-v0"}
        world = make_world(EnvContext({**config, "episodes": 1000}, worker_index=runner))
        for seed in (runner, np.int32(runner + 1)):  # RLlib's seeds of two worlds in this env runner
            _, infos = world.reset(seed=seed)
            begun.append(int(infos["agent_0"]["episode_index"]))
        world.close()
    assert len(set(begun)) == 4
