"""Our example in CleanRL's style, and CleanRL's calls on single environments, compared with the ledger."""

# ruff: noqa: E402
from libraries import REQUIRED, require

require("torch")
require("tensorboard")

import csv
import importlib.util
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from ledger import LedgerEnv, read_ledger
from rooms import box_room
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gym_batchnav.env import batch, flat, single
from gym_batchnav.geometry import polar_goals
from gym_batchnav.scene.save import save_glb
from gym_batchnav.train.ppo import gae

EXAMPLE = Path(__file__).parents[2] / "examples" / "cleanrl_ppo.py"
NUM_ENVS = 6
NUM_STEPS = 16


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    folder = tmp_path_factory.mktemp("room")
    save_glb(box_room(), folder / "room.glb")
    return folder / "room.glb"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("cleanrl_ppo", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Witness(LedgerEnv):
    """A ledger that also records every step, and the goal at each time-out."""

    def __init__(self, num_envs, **keywords):
        super().__init__(num_envs, episodes=30, renderer="embree", **keywords)
        self.cut = []
        self.steps = []
        self._before = None
        begin_episodes = self.simulator.begin_episodes

        def spy(indices, requested=None):
            self._before = polar_goals(self.agents.position, self.agents.heading, self.episodes.goal)
            return begin_episodes(indices, requested)

        self.simulator.begin_episodes = spy

    def recv(self):
        returned = super().recv()
        self.cut.append(self._before[returned[3]])
        self.steps.append(returned[1:4])
        return returned


@pytest.fixture(scope="module")
def run(example, room, tmp_path_factory):
    """Run the example in a small room; return its folder, the witness, observations with values, and advantages."""
    made = []
    valued = []
    advantages = {}
    make = lambda *args, **kw: made.append(Witness(*args, **kw)) or made[-1]  # noqa: E731
    value = example.Agent.value

    def spy(agent, obs):
        values = value(agent, obs)
        if torch.is_grad_enabled():
            inside = sys._getframe(1).f_locals
            advantages[inside["update"]] = inside["advantages"].numpy()
        else:
            valued.append((obs.numpy().copy(), values.numpy()))
        return values

    options = f"--num-envs {NUM_ENVS} --num-steps {NUM_STEPS} --max-episode-steps 9 --num-minibatches 2 --device cpu"
    options += f" --total-timesteps {NUM_ENVS * NUM_STEPS * 8} --scenes {room} --out {tmp_path_factory.mktemp('run')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "BatchNavEnv", make)
        patch.setattr(example.Agent, "value", spy)
        return example.main(options.split()), made[0], valued, advantages


def test_the_example_logs_every_episode_as_the_environment_has_it(run):
    folder, env, *_ = run
    with (folder / "episodes.csv").open() as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert len(rows) == len(env.ended) > 100
    for row, truth in zip(rows, env.ended, strict=True):
        assert (row["length"], row["timed_out"], row["success"]) == (truth.length, truth.truncated, truth.success)
        assert (row["return"], row["spl"]) == pytest.approx((truth.reward, truth.spl))
    assert 10 < sum(row["timed_out"] for row in rows) < len(rows) - 10
    events = EventAccumulator(str(folder)).Reload()
    for name in ("return", "length", "timed_out", "success", "spl"):
        logged = events.Scalars(f"episodes/{name}")
        assert len(logged) == 8
        for event in logged:
            values = [row[name] for row in rows if event.step - NUM_ENVS * NUM_STEPS < row["step"] <= event.step]
            assert event.value == pytest.approx(np.mean(values), rel=1e-5, abs=1e-7)


def test_the_example_bootstraps_time_outs_from_the_last_observation(run):
    _, env, valued, _ = run
    last = np.concatenate([obs for obs, _ in valued if len(obs) < NUM_ENVS])
    truth = np.concatenate(env.cut)
    assert len(last) > 10
    np.testing.assert_allclose(last[:, -3:], flat.encode_goal(truth), atol=1e-6)


def test_the_example_takes_advantages_within_episodes(run):
    _, env, valued, advantages = run
    values = np.stack([value for obs, value in valued if len(obs) == NUM_ENVS]).reshape(-1, NUM_STEPS + 1, NUM_ENVS)
    last_values = np.concatenate([value for obs, value in valued if len(obs) < NUM_ENVS]).tolist()
    assert len(values) == len(advantages) == 8
    for update, of_update in enumerate(values):
        steps = env.steps[update * NUM_STEPS : (update + 1) * NUM_STEPS]
        rewards, terminated, truncated = map(np.array, zip(*steps, strict=True))
        bootstraps = np.zeros((NUM_STEPS, NUM_ENVS))
        bootstraps[truncated] = [last_values.pop(0) for _ in range(truncated.sum())]
        begun = np.concatenate([np.zeros((1, NUM_ENVS), bool), terminated | truncated])
        expected = gae(*map(torch.as_tensor, (rewards, of_update, begun, bootstraps)), 0.99, 0.95)
        np.testing.assert_allclose(advantages[update], expected, atol=1e-5)
    assert not last_values


def test_the_example_says_which_observations_it_takes(example, room):
    options = ["--env-id", "BatchNav/PointNavImage-v0", "--scenes", str(room), "--num-envs", "2"]
    with pytest.raises(SystemExit, match="choose BatchNav/PointNavScan-v0"):
        example.main([*options, "--out", str(room.parent / "runs")])


@pytest.mark.parametrize("name", ["Scan", "Image"])
def test_scripts_that_make_single_environments_count_right(name, room, tmp_path, monkeypatch):
    """The calls that CleanRL's ppo.py makes of Gymnasium, in their order."""
    ledger = tmp_path / "ledger"
    ledger.mkdir()
    keywords = {"scenes": str(room), "episodes": 30, "cut_after": 9}

    class RoomLedger(LedgerEnv):
        def __init__(self, num_envs=1, **kw):
            super().__init__(num_envs, ledger=ledger, **{**kw, **keywords})

    assert single.SingleEnv.metadata == batch.BatchNavEnv.metadata  # imported before the class is replaced
    monkeypatch.setattr(batch, "BatchNavEnv", RoomLedger)
    video = "moviepy" in REQUIRED or importlib.util.find_spec("moviepy") is not None

    env_id = f"gym_batchnav:BatchNav/PointNav{name}-v0"

    def make_env(index):
        if index == 0 and video:
            env = gymnasium.make(env_id, render_mode="rgb_array", max_episode_steps=9)
            env = gymnasium.wrappers.RecordVideo(env, str(tmp_path / "videos"), disable_logger=True)
        else:
            env = gymnasium.make(env_id, max_episode_steps=9)
        return gymnasium.wrappers.RecordEpisodeStatistics(env)

    envs = gymnasium.vector.SyncVectorEnv([lambda index=index: make_env(index) for index in range(3)])
    assert isinstance(envs.single_action_space, gymnasium.spaces.Discrete)
    counted = []
    seen, _ = envs.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(96):
        assert torch.Tensor(seen).shape == envs.observation_space.shape
        seen, _, terminated, truncated, infos = envs.step(rng.integers(0, 4, 3))
        ended = terminated | truncated
        if ended.any():
            np.testing.assert_array_equal(infos["_episode"], ended)
            columns = (infos["episode"]["l"], infos["episode"]["r"], truncated)
            counted += zip(*(column[ended] for column in columns), strict=True)
    envs.close()
    truth = [(one.length, one.reward, one.truncated) for one in read_ledger(ledger)]
    assert len(counted) == len(truth) > 10 and any(one[2] for one in truth)
    np.testing.assert_allclose(sorted(counted), sorted(truth), rtol=1e-5, atol=1e-5)
    if video:
        assert all(path.stat().st_size > 0 for path in (tmp_path / "videos").glob("*.mp4"))
        assert list((tmp_path / "videos").glob("*.mp4"))
