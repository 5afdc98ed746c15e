"""RLlib's episodes and metrics, of one process and of two nodes, against the environment's own record."""

# ruff: noqa: E402
from libraries import require

require("ray")

import json
import os
import re
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import ray
from ledger import LedgerEnv, read_ledger
from ray import cloudpickle
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env
from ray_nodes import connected_nodes
from rooms import box_room

from gym_batchnav.adapters.rllib import RLlibEnv, make_batch
from gym_batchnav.env.flat import ScanObservation
from gym_batchnav.geometry import Camera
from gym_batchnav.task.pointnav import PointNav

N = 6
LIMIT = 4
EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = r"(\d+) frames, (\d+) episodes: .*, success (\S+), spl (\S+)"
# Env runners are processes that cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Recorder(LedgerEnv):
    """Records its node, and the true end of each episode."""

    def __init__(self, *arguments, folder, **keywords):
        super().__init__(*arguments, ledger=folder, **keywords)
        self.file = folder.parent / "truth" / f"{os.getpid()}.jsonl"
        self.written = 0

    def recv(self):
        returned = super().recv()
        observation = returned[4].get("final_obs", returned[0])
        for ended in self.ended[self.written :]:
            goal = observation["pointgoal_with_gps_compass"][ended.env]
            node = ray.get_runtime_context().get_node_id()
            row = [ended.env, ended.length, ended.terminated, ended.truncated, ended.success, ended.spl, ended.reward]
            write(self.file, row, goal[0], node)
        self.written = len(self.ended)
        return returned


def write(file, episode, distance, node=""):
    with file.open("a") as stream:
        print(json.dumps([episode, float(distance), node]), file=stream)


def read(folder):
    """Read the records of each process, in order."""
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in folder.glob("*.jsonl")}


def make_ledger(config, wrap=RLlibEnv):
    """Make the batch of an env runner with a ledger."""
    keywords = {"scenes": [box_room()], "camera": Camera(width=8, height=1), "episodes": 50, **config}
    task = PointNav(success_distance=6.0)  # so large that chance meets it
    return wrap(ScanObservation(Recorder(max_episode_steps=LIMIT, task=task, **keywords)))


def make_ledger_of_example(config, folder):
    """Make the example's batch with a ledger."""
    return make_ledger({"num_envs": config["num_envs"], "folder": folder / "ledger"})


def note_end(*, episode, prev_episode_chunks, env_index, folder, **_):
    """Record RLlib's view of an episode that ended: its parts, infos, and last observation."""
    chunks = [*prev_episode_chunks, episode]
    length = sum(map(len, chunks))
    reward = sum(chunk.get_return() for chunk in chunks)
    measures = episode.get_infos(-1)
    ends = (bool(episode.is_terminated), bool(episode.is_truncated))
    judged = bool(measures.get("success", False)), float(measures.get("spl", np.nan))
    row = [env_index, length, *ends, *judged, float(reward)]
    nearness = episode.get_observations(-1)[-1]
    write(folder / f"{os.getpid()}.jsonl", row, nearness / (1 - nearness))


def config_of(folder, creator, num_env_runners, **keywords):
    register_env("ledger", creator)
    for name in ("ledger", "truth", "rllib"):
        (folder / name).mkdir()
    return (
        PPOConfig()
        .environment("ledger", env_config={"folder": folder / "ledger", **keywords})
        .env_runners(
            num_env_runners=num_env_runners,
            num_envs_per_env_runner=N,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=50 // max(num_env_runners, 1),
        )
        .training(train_batch_size_per_learner=50 * N, minibatch_size=100, num_epochs=1)
        .learners(num_learners=0)
        .debugging(seed=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .callbacks(on_episode_end=partial(note_end, folder=folder / "rllib"))
        .reporting(metrics_num_episodes_for_smoothing=100_000)
    )


@pytest.fixture(scope="module")
def cluster():
    """Connect to a head node and a second node with room for one env runner each."""
    with connected_nodes(2) as cluster:
        yield cluster


def train(config, iterations):
    algorithm = config.build_algo()
    try:
        for _ in range(iterations):
            results = algorithm.train()
    finally:
        algorithm.stop()
    return results["env_runners"]


def check(folder, metrics):
    """Check that episodes, returns, time-outs, measures and last observations are those of the environments."""
    truth = read(folder / "truth")
    seen = read(folder / "rllib")
    assert truth.keys() == seen.keys()
    for process in truth:
        rows = truth[process]
        found = seen[process]
        assert [row[0][:5] for row in found] == [row[0][:5] for row in rows]
        np.testing.assert_allclose([row[0][5:] for row in found], [row[0][5:] for row in rows], atol=1e-5)
        np.testing.assert_allclose([row[1] for row in found], [row[1] for row in rows], rtol=1e-4)
    ended = read_ledger(folder / "ledger")
    assert sum(row.truncated for row in ended) > 10 and sum(row.terminated for row in ended) > 10
    assert sum(row.success for row in ended) > 10
    assert metrics["num_episodes_lifetime"] == len(ended)
    return ended


def test_one_process_counts_right(cluster, tmp_path):
    # In one process RLlib's PPO lengthens the pieces it learns from in place, and with them what its metrics take an
    # episode that goes on in the next iteration for. One iteration has none.
    metrics = train(config_of(tmp_path, make_ledger, num_env_runners=0), iterations=1)
    ended = check(tmp_path, metrics)
    for name, key in (("len", "length"), ("return", "reward")):
        values = [getattr(row, key) for row in ended]
        for kind, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max)):
            np.testing.assert_allclose(metrics[f"episode_{name}_{kind}"], reduce(values), rtol=1e-5, atol=1e-5)


def test_two_nodes_count_right(cluster, tmp_path):
    config = config_of(tmp_path, make_ledger, num_env_runners=2)
    check(tmp_path, train(config, iterations=3))
    nodes = {row[2] for rows in read(tmp_path / "truth").values() for row in rows}
    assert nodes == {node["NodeID"] for node in ray.nodes()} and len(nodes) == 2


@pytest.mark.slow
def test_the_example_prints_what_happened_on_two_nodes(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import rllib_ppo as example
    import rllib_run

    asked = []
    connect = SimpleNamespace(init=lambda **keywords: asked.append(keywords), shutdown=lambda: None)
    monkeypatch.setattr(rllib_run, "ray", connect)  # the cluster is connected to already
    monkeypatch.setattr(example, "make_batch", partial(make_ledger_of_example, folder=tmp_path))
    for name in ("ledger", "truth"):
        (tmp_path / name).mkdir()
    arguments = "--env-runners 2 --num-envs 6 --rollout 16 --frames 400".split()
    monkeypatch.setattr(
        sys, "argv", ["rllib_ppo.py", "--address", cluster.address, *arguments, "--out", f"{tmp_path}/out"]
    )
    example.main()
    (asked,) = asked
    assert asked["address"] == cluster.address and "num_cpus" not in asked
    assert {row[2] for rows in read(tmp_path / "truth").values() for row in rows} == {
        node["NodeID"] for node in ray.nodes()
    }
    *printed, saved = capsys.readouterr().out.splitlines()
    frames, episodes, success, spl = np.array([re.fullmatch(PRINTED, line).groups() for line in printed], float).T
    ended = read_ledger(tmp_path / "ledger")
    counts = np.diff(episodes, prepend=0)
    assert episodes[-1] == len(ended) and frames[-1] >= sum(row.length for row in ended)
    assert counts @ spl / len(ended) == pytest.approx(np.mean([row.spl for row in ended]), abs=1e-3)
    assert counts @ success / len(ended) == pytest.approx(np.mean([row.success for row in ended]), abs=1e-3)
    assert success[-1] > 0
    assert Path(saved.split()[-1]).is_dir()


def test_single_environments_are_refused_with_the_remedy(cluster, tmp_path):
    config = config_of(tmp_path, make_batch, num_env_runners=0)
    with pytest.raises(ValueError, match="gym_env_vectorize_mode='vector_entry_point'"):
        config.env_runners(gym_env_vectorize_mode="sync").build_algo()


def test_make_batch_takes_keywords_and_other_ids(tmp_path):
    keywords = {"num_envs": 2, "scenes": [box_room()], "episodes": 20}
    env = make_batch(keywords)
    assert env.num_envs == 2 and env.single_observation_space.shape == (67,)
    env.close()
    env = make_batch({**keywords, "id": "BatchNav/PointNav-v0", "sensors": ()})
    assert set(env.single_observation_space) == {"pointgoal_with_gps_compass"}
    env.close()


def test_seeds_of_neighbouring_env_runners_overlap_in_nothing(library, opened):
    env = opened(RLlibEnv(LedgerEnv(N, library=library, sensors=(), episodes=50)))
    first, second, again = (
        {tuple(goal) for goal in env.reset(seed=seed)[0]["pointgoal_with_gps_compass"].tolist()}
        for seed in (7, 8, np.int32(7))
    )
    assert first == again and len(first & second) <= 1
