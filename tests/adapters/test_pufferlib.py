"""PufferLib's statistics, its buffers and its advantages against the environment's own record."""

# ruff: noqa: E402
from libraries import require

require("pufferlib")

import multiprocessing
from contextlib import contextmanager

import numpy as np
import pufferlib.vector
import pytest
import torch
from pufferlib.models import Default
from pufferlib.pytorch import nativize_dtype, nativize_tensor

from gym_batchnav.adapters.pufferlib import PufferVecEnv
from gym_batchnav.env.flat import ScanObservation
from gym_batchnav.geometry import Camera

try:  # its extension is built for one build of torch
    from pufferlib import pufferl
except ImportError:
    pufferl = None

N = 6
LIMIT = 9
HORIZON = 32
EPOCHS = 4
GOAL = "pointgoal_with_gps_compass"
needs_trainer = pytest.mark.skipif(pufferl is None, reason="PufferLib's trainer does not fit this build of torch")


@contextmanager
def trainer_of(env, folder):
    """Make PufferLib's trainer for an adapted batch; it keeps the statistics that it would print."""

    class Trainer(pufferl.PuffeRL):
        def print_dashboard(self, *arguments, **keywords):
            pass

        def mean_and_log(self):
            self.kept = [*getattr(self, "kept", []), {name: list(values) for name, values in self.stats.items()}]
            return super().mean_and_log()

    config = {
        "env": "test", "seed": 3, "device": "cpu", "data_dir": str(folder), "precision": "float32",
        "total_timesteps": EPOCHS * N * HORIZON, "batch_size": "auto", "bptt_horizon": HORIZON,
        "minibatch_size": N * HORIZON // 2, "max_minibatch_size": N * HORIZON, "update_epochs": 2,
        "learning_rate": 1e-3, "anneal_lr": False, "optimizer": "adam", "adam_beta1": 0.9, "adam_beta2": 0.99,
        "adam_eps": 1e-5, "gamma": 0.9, "gae_lambda": 0.9, "clip_coef": 0.2, "vf_coef": 0.5, "vf_clip_coef": 1.0,
        "ent_coef": 0.01, "max_grad_norm": 1.0, "prio_alpha": 0.0, "prio_beta0": 1.0, "vtrace_rho_clip": 1.0,
        "vtrace_c_clip": 1.0, "checkpoint_interval": 100, "use_rnn": False, "cpu_offload": False,
        "torch_deterministic": True, "compile": False,
    }  # fmt: skip
    torch.manual_seed(0)
    trainer = Trainer(config, env, Default(env.driver_env, hidden_size=16))
    try:
        yield trainer
    finally:
        trainer.close()  # or its thread keeps the process alive


@needs_trainer
def test_episodes_are_counted_as_they_were(record, tmp_path):
    batch = record()
    env = pufferlib.vector.make(lambda: PufferVecEnv(ScanObservation(batch)))
    counted = {}
    with trainer_of(env, tmp_path) as trainer:
        while trainer.global_step < EPOCHS * N * HORIZON:
            trainer.evaluate()
            trainer.train()
        for stats in [*trainer.kept, *env.infos]:  # the infos of the last step have not reached the trainer yet
            for name, values in stats.items():
                counted[name] = counted.get(name, []) + values
    ended = batch.ended
    assert sum(one.truncated for one in ended) > 10 and sum(one.terminated for one in ended) > 10
    assert counted["episode_length"] == [one.length for one in ended]
    np.testing.assert_allclose(counted["episode_return"], [one.reward for one in ended], atol=1e-6)
    np.testing.assert_array_equal(counted["success"], [one.success for one in ended])
    np.testing.assert_allclose(counted["spl"], [one.spl for one in ended])


@needs_trainer
def test_nothing_is_bootstrapped_from_the_next_episode(record, tmp_path):
    batch = record()
    with trainer_of(PufferVecEnv(ScanObservation(batch)), tmp_path) as trainer:
        trainer.evaluate()
    _, reward, terminated, truncated, _ = (np.array(column).T for column in zip(*batch.steps, strict=True))
    done = (terminated | truncated)[:, : HORIZON - 1]
    assert truncated.any() and terminated.any()
    # PufferLib keeps the reward and the end with the observation that came with them, one later than the action.
    held = np.clip(reward, -1, 1)[:, : HORIZON - 1]
    np.testing.assert_allclose(trainer.rewards[:, 1:], held, atol=1e-6)
    np.testing.assert_array_equal(trainer.terminals[:, 1:].numpy().astype(bool), done)
    shape = trainer.values.shape
    advantages = pufferl.compute_puff_advantage(
        trainer.values, trainer.rewards, trainer.terminals, torch.ones(shape), torch.zeros(shape), 0.9, 0.9, 1.0, 1.0
    ).numpy()[:, :-1]
    np.testing.assert_allclose(advantages[done], (held - trainer.values.numpy()[:, :-1])[done], atol=1e-5)
    assert not np.allclose(advantages[~done], (held - trainer.values.numpy()[:, :-1])[~done], atol=1e-3)


def test_pufferlibs_buffers_are_written_into_and_infos_are_of_what_ended(record):
    batch = record()
    env = PufferVecEnv(batch)
    env.reset(seed=1)
    buffers = [env.observations, env.rewards, env.terminals, env.truncations]
    for _ in range(3 * LIMIT):
        returned = env.step(np.random.default_rng(0).integers(0, 4, N))
        assert all(one is other for one, other in zip(returned, buffers, strict=False))
        assert len(returned[-1]) == env.terminals.any()
        for infos in returned[-1]:  # of the episodes that ended, not of those that have begun instead
            assert not {"episode_index", "scene_index"} & set(infos)
            np.testing.assert_array_equal(
                infos["path_length"], batch.steps[-1][-1]["final_info"]["path_length"][env.terminals]
            )


def test_a_reset_clears_the_current_episodes(record):
    env = PufferVecEnv(record())
    for steps in (4, LIMIT):
        env.reset(seed=0)
        for _ in range(steps):
            *_, infos = env.step(np.full(N, 2))
    assert infos[0]["episode_length"] == [LIMIT] * N and env.truncations.all()
    env.reset(seed=0)
    assert env.masks.all() and not (env.rewards.any() or env.terminals.any() or env.truncations.any())


def test_a_dict_comes_out_of_the_one_array_as_it_went_in(record):
    batch = record(camera=Camera(16, 12), sensors=("rgb", "depth"))
    env = PufferVecEnv(batch)
    env.reset(seed=1)
    env.step(np.ones(N, np.int32))
    given = batch.steps[-1][0]
    seen = nativize_tensor(torch.from_numpy(env.observations), nativize_dtype(env.emulated))
    assert set(seen) == {"rgb", "depth", GOAL}
    for name, values in given.items():
        np.testing.assert_array_equal(seen[name].numpy(), values)
    logits, value = Default(env)(torch.from_numpy(env.observations))
    assert logits.shape == (N, 4) and value.shape == (N, 1)


def test_two_batches_in_one_process_fill_one_buffer_with_different_episodes(record):
    batches = []

    def create(buf=None, seed=0):
        batches.append(record(num_envs=3))
        return PufferVecEnv(batches[-1], buf)

    envs = pufferlib.vector.make(create, backend=pufferlib.vector.Serial, num_envs=2)
    first, _ = envs.reset(seed=5)
    assert len(np.unique(first[:, -2:], axis=0)) == 6, "every agent has a goal of its own"
    observation, *_ = envs.step(np.ones(6, np.int32))
    given = np.concatenate([batch.steps[-1][0][GOAL] for batch in batches[1:]])
    np.testing.assert_array_equal(observation[:, -2:], given)
    envs.close()
    assert batches[1].closed and batches[2].closed


def test_a_forked_worker_is_told_to_be_spawned(record):
    PufferVecEnv(record()).reset(seed=0)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_step_in_child, args=(theirs,))
    process.start()
    assert 'context="spawn"' in (ours.recv() if ours.poll(60) else "nothing was heard")
    process.join(60)


def _step_in_child(pipe):
    try:
        env = PufferVecEnv.make(num_envs=1, scenes="apartment_0")
        env.reset()
        env.step(np.ones(1, np.int32))
        pipe.send("went on")
    except RuntimeError as error:
        pipe.send(str(error))


@pytest.mark.slow
def test_spawned_workers_step():
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("spawn", force=True)
    try:
        keywords = {"num_envs": 2, "scenes": "apartment_0", "camera": Camera(width=16, height=16)}
        envs = pufferlib.vector.make(
            PufferVecEnv.make, backend=pufferlib.vector.Multiprocessing, num_envs=2, num_workers=2, env_kwargs=keywords,
            overwork=True,
        )  # fmt: skip
        first, _ = envs.reset(seed=1)
        assert len(np.unique(np.array(first)[:, -2:], axis=0)) == 4
        _, reward, terminal, _, _ = envs.step(np.ones(4, np.int32))
        assert reward.shape == (4,) and not terminal.any()
        envs.close()
    finally:
        multiprocessing.set_start_method(before, force=True)
