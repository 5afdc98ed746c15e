"""Stable-Baselines3 on a batch: its statistics, buffers and bootstrapping, compared with the environment's record."""

# ruff: noqa: E402 - what is not installed is not imported

from libraries import GYMNASIUM, require

require("stable_baselines3")

import csv
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from ledger import LedgerEnv
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.torch_layers import NatureCNN
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize, VecVideoRecorder

from gym_batchnav.adapters.sb3 import NavEvalCallback, SB3Agent, SB3VecEnv, evaluate_once
from gym_batchnav.env.config import Episodes
from gym_batchnav.env.flat import ScanObservation
from gym_batchnav.env.single import SingleEnv
from gym_batchnav.evaluation.agents import env_keywords_of
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.geometry import Camera

N = 4
LIMIT = 12
GOAL = "pointgoal_with_gps_compass"


@pytest.fixture
def make(library, opened):
    """Make a batch with the smallest images for SB3's own network and short time limits."""

    def make(num_envs=N, mode="same_step", **keywords):
        keywords = {"camera": Camera(36, 36), "max_episode_steps": LIMIT, "episodes": 10, **keywords}
        return opened(LedgerEnv(num_envs, library=library, autoreset_mode=mode, **keywords))

    return make


class Seen(BaseCallback):
    """Records the inputs of SB3's algorithm and its rollouts."""

    def __init__(self):
        super().__init__()
        self.steps = []
        self.stored = None

    def _on_step(self):
        given = [self.locals[name] for name in ("actions", "rewards", "dones")]
        self.steps.append((*(np.array(values) for values in given), self.locals["infos"]))
        return True

    def _on_rollout_end(self):
        if hasattr(self.model, "rollout_buffer"):
            self.stored = self.model.rollout_buffer.rewards.copy()


def policy_of(env, seed=0, **keywords):
    """Make PPO with episodes that end by STOP and by time-out."""
    model = PPO("MultiInputPolicy", env, **{"n_steps": 32, "batch_size": 64, "n_epochs": 1, "seed": seed, **keywords})
    with torch.no_grad():
        model.policy.action_net.bias[0] -= 2.5
    return model


def steps(env, count=60, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield env.step(rng.choice(4, size=env.num_envs, p=[0.05, 0.55, 0.2, 0.2]))


def as_bytes(depth):
    return np.floor(np.float64(depth) * 255 + 0.5).astype(np.uint8)


def same(stored, true):
    """Compare SB3's depth and goal, in any order of axes, with those of one environment of the batch."""
    np.testing.assert_array_equal(np.ravel(stored["depth"]), as_bytes(true["depth"]).ravel())
    np.testing.assert_array_equal(np.ravel(stored[GOAL]), true[GOAL])


def replay(env, actions):
    """Replay actions with autoreset DISABLED; return observations and rewards, with true last observations."""
    env.reset(seed=list(range(env.num_envs)))
    for row in actions:
        observation, reward, terminated, truncated, _ = env.step(row)
        yield observation, reward, terminated, truncated
        if (terminated | truncated).any():
            env.reset(options={"reset_mask": terminated | truncated})


def test_sb3s_checker_is_content(library):
    env = SingleEnv(sensors=("depth", "rgb"), library=library, episodes=20)
    check_env(env, warn=False)
    assert not env.batch.closed
    env.close()


def test_what_sb3_counts_is_what_happened(make, tmp_path):
    env = VecMonitor(SB3VecEnv(make()), str(tmp_path / "log"), info_keywords=("spl", "episode_index"))
    seen = Seen()
    model = policy_of(env)
    model.learn(900, callback=seen)
    env.close()
    ended = env.unwrapped.batch.ended
    rows = list(csv.DictReader((tmp_path / "log.monitor.csv").read_text().splitlines()[1:]))
    assert len(rows) == env.episode_count == len(ended) > 80
    assert [int(row["l"]) for row in rows] == [one.length for one in ended]
    np.testing.assert_allclose([float(row["r"]) for row in rows], [one.reward for one in ended], atol=1e-5)
    assert [float(row["spl"]) for row in rows] == [one.spl for one in ended]
    assert [int(row["episode_index"]) for row in rows] == [one.episode for one in ended]
    assert [info["l"] for info in model.ep_info_buffer] == [one.length for one in ended[-100:]]
    assert list(model.ep_success_buffer) == [one.success for one in ended[-100:]]
    infos = [(index, info) for *_, done, infos in seen.steps for index, info in enumerate(infos) if done[index] or info]
    found = [(index, info["TimeLimit.truncated"], info["is_success"]) for index, info in infos]
    assert found == [(one.env, one.truncated, one.success) for one in ended]
    assert 10 < sum(one.truncated for one in ended) < len(ended) - 10


def test_a_time_out_is_bootstrapped_from_its_true_last_observation(make):
    model = policy_of(SB3VecEnv(make()), n_steps=64)
    values_of = {}

    def remember(observation):  # before the policy learns
        with torch.no_grad():
            return float(model.policy.predict_values(model.policy.obs_to_tensor(observation)[0]))

    class Ends(Seen):
        def _on_rollout_end(self):
            super()._on_rollout_end()
            twin = replay(make(mode="disabled"), [actions for actions, *_ in self.steps])
            for step, (observation, reward, terminated, truncated) in enumerate(twin):
                for index in range(N):
                    row = {name: values[index] for name, values in observation.items()}
                    if terminated[index] | truncated[index]:
                        same(self.steps[step][3][index]["terminal_observation"], row)
                    row = {**row, "depth": as_bytes(row["depth"])}
                    last = model.gamma * remember(row) if truncated[index] else 0.0
                    values_of[step, index] = (reward[index] + last, self.stored[step, index], truncated[index])

    model.learn(64 * N, callback=Ends())
    expected, stored, truncated = np.array(list(values_of.values())).T
    np.testing.assert_allclose(stored, expected, atol=1e-5)
    assert len(expected) == 64 * N and truncated.sum() > 5


@pytest.mark.parametrize(("name", "policy"), [("PointNavScan", "MlpPolicy"), ("PointNavImage", "CnnPolicy")])
def test_observations_of_one_array_train(name, policy, library):
    keywords = {"camera": Camera(36, 36)} if name == "PointNavImage" else {}
    batch = gymnasium.make_vec(
        f"BatchNav/{name}-v0", num_envs=N, library=library, episodes=10,
        autoreset_mode="same_step", max_episode_steps=LIMIT, **keywords,
    )  # fmt: skip
    env = VecMonitor(SB3VecEnv(batch))
    seen = Seen()
    PPO(policy, env, n_steps=32, batch_size=64, n_epochs=1, seed=0).learn(64 * N, callback=seen)
    infos = [info for *_, infos in seen.steps for info in infos if info]
    assert len(infos) == env.episode_count > 10
    space = env.observation_space
    shapes = {space.shape, (*space.shape[2:], *space.shape[:2])}  # SB3 puts channels first
    assert {info["terminal_observation"].shape for info in infos} <= shapes
    env.close()


def networks_of(model):
    return {name: type(network) for name, network in model.policy.features_extractor.extractors.items()}


def test_depth_is_a_picture_of_bytes_and_each_camera_has_a_network(make):
    cameras = {"front": Camera(36, 36), "back": Camera(40, 36, yaw_deg=180, normalize_depth=False, max_depth=5)}
    env, twin = (make(camera=cameras, sensors=("depth", "front/rgb", "back/semantic")) for _ in range(2))
    env = SB3VecEnv(env)
    env.seed(7)
    first = env.reset()
    true = twin.reset(seed=7)[0]
    np.testing.assert_array_equal(first["front/depth"], as_bytes(true["front/depth"]))
    np.testing.assert_array_equal(first["back/depth"], as_bytes(true["back/depth"] / 5))
    assert len(np.unique(first["front/depth"])) > 20
    for name in ("front/rgb", "back/semantic", GOAL):
        np.testing.assert_array_equal(first[name], true[name])
    assert all(env.observation_space[name].contains(values[0]) for name, values in first.items())
    assert env.observation_space["back/semantic"].dtype == np.int32
    networks = networks_of(PPO("MultiInputPolicy", env, n_steps=4, batch_size=4, n_epochs=1).learn(4 * N))
    assert {name for name, network in networks.items() if network is NatureCNN} == {
        "front/depth", "back/depth", "front/rgb",
    }  # fmt: skip


def test_depth_of_floats_keeps_its_precision(make):
    env = SB3VecEnv(make(), depth="float32")
    twin = make()
    env.seed(7)
    depth = env.reset()["depth"]
    true = twin.reset(seed=7)[0]["depth"]
    np.testing.assert_array_equal(depth, true.reshape(N, 1, 36, 36))
    assert env.observation_space["depth"].contains(depth[0])
    for expected, normalize in ((torch.nn.Flatten, True), (NatureCNN, False)):
        model = PPO("MultiInputPolicy", env, policy_kwargs={"normalize_images": normalize})
        assert networks_of(model)["depth"] is expected
        model.predict({"depth": depth[0], GOAL: np.zeros(2, np.float32)})


@pytest.mark.parametrize("wrapped", [False, True])
def test_infos_tell_of_the_episodes_that_ended_and_of_those_that_began(make, wrapped):
    batch = make()
    env = SB3VecEnv(RecordEpisodeStatistics(batch) if wrapped else batch, step_infos=True)
    env.seed(0)
    env.reset()
    own = [info["episode_index"] for info in env.reset_infos]
    lengths = np.zeros(N, int)
    # With SAME_STEP, Gymnasium before 1.4 does not count the first step of an episode that follows another.
    uncounted = np.zeros(N, int)
    for _, reward, done, infos in steps(env):
        assert reward.dtype == np.float32
        lengths += 1
        for index, info in enumerate(infos):
            assert type(info["distance_to_goal"]) is float and info["episode_index"] == own[index]
            assert ("terminal_observation" in info) == ("success" in info) == done[index]
            if done[index]:
                assert not wrapped or info["episode"]["l"] == lengths[index] - uncounted[index]
                uncounted[index] = GYMNASIUM < (1, 4)
                own[index] = env.reset_infos[index]["episode_index"]
                lengths[index] = 0
                assert own[index] == batch.simulator.schedule.index(batch.agents.slot, batch.episodes.episode)[index]
                assert "success" not in env.reset_infos[index]
    assert len(batch.ended) > 10
    assert env.env_is_wrapped(RecordEpisodeStatistics, [0, 2]) == [wrapped] * 2


def test_seeds_and_options_hold_for_one_reset(make):
    env = SB3VecEnv(make())
    twin = make()
    env.seed(3)
    np.testing.assert_array_equal(env.reset()[GOAL], twin.reset(seed=3)[0][GOAL])
    np.testing.assert_array_equal(env.reset()[GOAL], twin.reset()[0][GOAL])
    env.set_options([{"episode_index": number} for number in (4, 3, 12, 0)])
    env.reset()
    assert [info["episode_index"] for info in env.reset_infos] == [4, 3, 12, 0]
    env.set_options({"episode_order": "once"})
    env.reset()
    assert sorted(info["episode_index"] for info in env.reset_infos) == [0, 1, 10, 11]
    env.reset()  # again, since none of them has run
    assert sorted(info["episode_index"] for info in env.reset_infos) == [0, 1, 10, 11]
    env.step(np.zeros(N, int))
    assert sorted(info["episode_index"] for info in env.reset_infos) == [2, 3, 12, 13]


def test_attributes_and_methods_are_the_batchs(make):
    env = SB3VecEnv(RecordEpisodeStatistics(make(render_mode="rgb_array")))
    env.reset()
    assert env.get_attr("max_episode_steps", [0, 1]) == [LIMIT, LIMIT]
    assert env.get_attr("episode_count") == [0] * N  # the wrapper's
    assert env.has_attr("num_episodes") and not env.has_attr("no_such_thing")
    env.set_attr("max_episode_steps", 5)
    assert env.get_attr("max_episode_steps") == [5] * N
    assert env.env_method("scene_name", 1, indices=0) == ["second"]
    assert [frame.shape for frame in env.env_method("render", indices=[1, 3])] == [(256, 256, 3)] * 2
    with pytest.raises(ValueError, match=r"share it; leave out indices"):
        env.set_attr("max_episode_steps", 5, indices=[0])


def test_vec_video_recorder_films_some_of_the_environments(make, tmp_path):
    require("moviepy")
    from moviepy import VideoFileClip

    env = SB3VecEnv(make(6, render_mode="rgb_array"), render_envs=3)
    env = VecVideoRecorder(env, str(tmp_path), lambda step: step == 0, video_length=8)
    env.reset()
    np.testing.assert_array_equal(env.render()[:256, :256], env.unwrapped.batch.render()[0])
    list(steps(env, 10))
    env.close()
    with VideoFileClip(str(next(tmp_path.glob("*.mp4")))) as clip:
        assert (clip.size, clip.fps, clip.n_frames) == ([512, 512], 10, 9)  # three frames in a square of four


def test_an_evaluation_runs_every_episode_once_and_tells_spl(make, tmp_path):
    batch = make(3, episodes=Episodes(order="once", count=10))
    held_out = VecMonitor(SB3VecEnv(batch))
    model = policy_of(SB3VecEnv(make()))
    best = str(tmp_path / "best")
    callback = NavEvalCallback(held_out, eval_freq=15, log_path=str(tmp_path), best_model_save_path=best, verbose=0)
    model.learn(128, callback=callback)
    kept = np.load(tmp_path / "evaluations.npz")
    assert kept["timesteps"].tolist() == [60, 120]
    assert kept["episode_index"].tolist() == list(range(20)) == sorted(one.episode for one in batch.ended[:20])
    assert len(batch.ended) == 40
    for row, first in enumerate((0, 20)):
        ended = sorted(batch.ended[first : first + 20], key=lambda one: one.episode)
        assert kept["ep_lengths"][row].tolist() == [one.length for one in ended]
        assert kept["successes"][row].tolist() == [one.success for one in ended]
        assert kept["spl"][row].tolist() == [one.spl for one in ended]
        np.testing.assert_allclose(kept["results"][row], [one.reward for one in ended], atol=1e-5)
    assert callback.last_mean_reward == pytest.approx(kept["results"][1].mean())
    assert callback.best_mean_reward == pytest.approx(kept["results"].mean(axis=1).max())
    assert PPO.load(tmp_path / "best" / "best_model").num_timesteps in (60, 120)


def test_what_an_evaluation_writes_is_there_whole_or_not_at_all(make, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    model = policy_of(SB3VecEnv(make()))
    model.learn(40, NavEvalCallback(SB3VecEnv(make()), eval_freq=10, log_path=str(folder), verbose=0))
    before = (folder / "evaluations.npz").read_bytes()

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    for keywords in ({"log_path": str(folder)}, {"best_model_save_path": str(folder)}):
        with pytest.raises(OSError, match=r"cannot write .*No space left"):
            model.learn(40, NavEvalCallback(SB3VecEnv(make()), eval_freq=10, verbose=0, **keywords))
    assert [path.name for path in folder.iterdir()] == ["evaluations.npz"]
    assert (folder / "evaluations.npz").read_bytes() == before


def test_the_logger_is_told_of_spl_and_a_good_model_ends_training(make, tmp_path):
    from stable_baselines3.common.logger import configure

    model = policy_of(SB3VecEnv(make()))
    model.set_logger(configure(str(tmp_path), ["csv"]))
    stop = StopTrainingOnRewardThreshold(-100)
    model.learn(1000, NavEvalCallback(SB3VecEnv(make()), eval_freq=10, callback_on_new_best=stop, verbose=0))
    assert model.num_timesteps == 40
    (row,) = csv.DictReader((tmp_path / "progress.csv").open())
    assert {"eval/spl", "eval/soft_spl", "eval/success_rate", "eval/mean_reward", "eval/mean_ep_length"} <= set(row)


class ShortestPath:
    """A shortest-path follower with SB3's ``predict``."""

    def __init__(self, batch):
        self.batch = batch

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        """Return actions and, as a recurrent state, the number of steps in the episode."""
        state = np.where(episode_start, 0, np.zeros(len(episode_start)) if state is None else state)
        running = self.batch.episodes.valid
        np.testing.assert_array_equal(state[running], self.batch.episodes.num_steps[running])
        return self.batch.shortest_path_actions(), state + 1


def test_a_perfect_agent_is_scored_as_one(make):
    batch = make(7, max_episode_steps=500, sensors=())
    scores = evaluate_once(ShortestPath(batch), SB3VecEnv(batch))
    assert scores["success"].all() and scores["spl"].mean() > 0.98
    assert scores["episode_index"].tolist() == list(range(20))
    assert (scores["distance_to_goal"] < 0.2).all()
    ended = sorted(batch.ended, key=lambda one: one.episode)
    assert scores["length"].tolist() == [one.length for one in ended]
    np.testing.assert_allclose(scores["reward"], [one.reward for one in ended], atol=1e-4)


def test_an_agent_acts_in_a_batch_of_its_own_as_in_training(make):
    env = VecNormalize(SB3VecEnv(make()), norm_obs_keys=[GOAL])
    model = policy_of(env)
    model.learn(64)
    env.training = False  # of VecNormalize, whose moments an evaluation would change
    with torch.no_grad():
        model.policy.action_net.weight.mul_(1000)  # so that actions depend on what it sees
    scores = evaluate_once(model, env)
    rewards = [
        evaluate(make(3, "next_step"), agent).total_reward
        for agent in (SB3Agent(model, env), lambda observation: model.predict(observation, deterministic=True)[0])
    ]
    np.testing.assert_allclose(rewards[0], scores["reward"], atol=1e-4)
    keywords = env_keywords_of(SB3Agent(model, env))
    assert keywords["camera"] == Camera(36, 36) and keywords["max_episode_steps"] == LIMIT
    assert np.abs(rewards[1] - scores["reward"]).max() > 0.01
    with pytest.raises(ValueError, match=r"trained with depth in .*36, 36, 1.*, the batch has .*40, 40, 1"):
        evaluate(make(3, "next_step", camera=Camera(40, 40)), SB3Agent(model, env))


def test_an_agent_that_read_one_array_acts_in_a_batch_with_a_dict(make):
    """Such is the batch that ``gym-batchnav evaluate`` makes."""
    camera = Camera(8, 1)
    shapes = set()

    def predict(observation, **_):
        shapes.add(observation.shape)
        return np.ones(len(observation), np.int64), None

    agent = SB3Agent(SimpleNamespace(predict=predict), SB3VecEnv(ScanObservation(make(camera=camera))))
    evaluate(make(3, "next_step", camera=camera), agent)
    assert shapes == {(3, 11)}


def test_depths_that_cannot_become_pictures_are_refused(make):
    env = make()
    with pytest.raises(ValueError, match=r"depth='int8'.*'float32'"):
        SB3VecEnv(env, depth="int8")
    env.single_observation_space["depth"].high[:] = np.inf
    with pytest.raises(ValueError, match=r"pass depth='float32'"):
        SB3VecEnv(env)
    SB3VecEnv(env, depth="float32")


def test_pictures_too_small_for_sb3s_network_are_told_of(make):
    with pytest.warns(UserWarning, match=r"depth of 32x40 pixels is too small .* camera=Camera\(36, 36\)"):
        SB3VecEnv(make(camera=Camera(32, 40)))


def test_options_and_steps_out_of_order_are_refused(make):
    env = SB3VecEnv(make())
    for options in ([{"episode_index": 1}], [{}] * N, [{"episode_index": 1, "reset_mask": 2}] * N):
        with pytest.raises(ValueError, match=r"pass one \{'episode_index': number\} per environment"):
            env.set_options(options)
    env.reset()
    with pytest.raises(RuntimeError, match=r"without step_async"):
        env.step_wait()
    env.step_async(np.ones(N, int))
    assert env.reset()["depth"].shape == (N, 36, 36, 1)  # lets go of the step, as VecEnv promises
    env.close()
    env.close()


def test_an_evaluation_of_something_else_is_refused(make):
    with pytest.raises(ValueError, match=r"needs an SB3VecEnv, not a LedgerEnv"):
        NavEvalCallback(make())
    batch = make()
    model = policy_of(VecMonitor(SB3VecEnv(batch)))
    with pytest.raises(ValueError, match=r"that is trained on: make another one"):
        model.learn(1, NavEvalCallback(SB3VecEnv(batch)))
