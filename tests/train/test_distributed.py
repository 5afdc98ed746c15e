"""Several workers, each a process, learn the same as one worker with all environments."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")

from gym_batchnav.actions.discrete import DiscreteActions  # noqa: E402
from gym_batchnav.env.batch import BatchNavEnv  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.library import SceneLibrary  # noqa: E402
from gym_batchnav.train.distributed import Workers  # noqa: E402
from gym_batchnav.train.policy import make_policy  # noqa: E402
from gym_batchnav.train.ppo import PPO, PPOConfig  # noqa: E402

TESTS = Path(__file__).parents[1]
TOTAL_ENVS = 8  # more frames than the learning rate is meant for: it grows with the workers
STEPS = 40
SECONDS = 100.0


def make_ppo(workers, kind, num_envs, num_steps, torch_seed=0, **config):
    """Make PPO in a toy room, as worker ``workers.rank``."""
    env = BatchNavEnv(
        num_envs, library=SceneLibrary.from_scenes([box_room(width=6, depth=4)]), autoreset_mode="same_step",
        actions=DiscreteActions(forward_step=0.5, turn_angle_deg=30), max_episode_steps=12, episodes=100,
        camera=Camera(8, 8), sensors=() if kind == "blind" else ("depth", "rgb"),
    )  # fmt: skip
    torch.manual_seed(torch_seed)
    policy = make_policy(kind, env.single_observation_space, () if kind == "blind" else ("depth",))
    ppo_config = PPOConfig(
        100_000, num_steps, num_minibatches=1, normalize_advantages=True, depth_batch=num_envs * num_steps, **config
    )
    return PPO(env, policy, ppo_config, seed=3, workers=workers)


def train(workers):
    """Run three iterations and return their results. Actions do not depend on the number of workers."""
    num_envs = TOTAL_ENVS // workers.size
    own = slice(workers.rank * num_envs, (workers.rank + 1) * num_envs)
    dice = np.random.default_rng(0)

    def draw(probabilities, count, generator):
        thresholds = torch.as_tensor(dice.random((TOTAL_ENVS, 1))[own])
        return (probabilities.cumsum(-1)[:, :-1] < thresholds).sum(-1, keepdim=True)

    with mock.patch("torch.multinomial", draw):
        ppo = make_ppo(workers, "small", num_envs, STEPS, torch_seed=workers.rank, num_epochs=2)
        found = {}
        for iteration in range(3):
            report = ppo.iterate()
            flat = torch.cat([parameter.grad.flatten() for parameter in ppo.policy.parameters()])
            found |= {f"gradient_{iteration}": flat.numpy()}
            found |= {f"{name}_{iteration}": value for name, value in report.losses.items()}
    found["weights"] = torch.cat([parameter.detach().flatten() for parameter in ppo.policy.parameters()]).numpy()
    moments = ppo.policy.encoder.channels.moments
    found |= {"mean": moments.mean.numpy(), "variance": moments.variance.numpy(), "count": moments.count.numpy()}
    found |= {"frames": ppo.frames, "rate": ppo.optimizer.param_groups[0]["lr"], "waited": report.seconds["wait"]}
    ppo.collector.env.close()
    return found


def average(workers):
    """Average the gradients of two losses, which are means over 10 and over 30 frames."""
    torch.manual_seed(workers.rank)  # the first worker's weights are those of all
    layer = torch.nn.Linear(2, 3)
    parallel = workers.parallel(layer)
    (weight,) = workers.loss_weights([(10, 30)[workers.rank]])
    inputs = torch.full((5, 2), 1.0 + workers.rank)
    with workers.explains_lost_workers():
        (parallel(inputs).sum(1).mean() * weight).backward()
    return torch.cat([parameter.grad.flatten() for parameter in layer.parameters()]).numpy(), layer.bias.detach()


def work_in_pairs(workers):
    found = train(workers)
    found["average"], found["bias"] = average(workers)
    found["gathered"] = workers.gather(f"worker {workers.rank}")
    found["broadcast"] = workers.broadcast({"rank": workers.rank})["rank"]
    workers.barrier()
    workers.close()
    workers.close()
    return found


def work_until_one_dies(workers):
    """Run an iteration; then the last worker dies."""
    ppo = make_ppo(workers, "blind", num_envs=4, num_steps=32)
    found = {"frames": ppo.iterate().frames}
    if workers.rank == workers.size - 1:
        np.savez(sys.argv[2], **found)
        os._exit(7)
    with pytest.raises(RuntimeError, match=f"worker {workers.rank} of 2 lost the others"):
        ppo.iterate()
    return found


@contextmanager
def meeting_place():
    """Serve the store where workers meet, as torchrun does, and yield the variables that name it."""
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }  # fmt: skip
    del store


def run_workers(work, count, tmp_path):
    """Run ``work`` in several processes and return the results."""
    with meeting_place() as place:
        return _run_workers(work, count, tmp_path, place)


def _run_workers(work, count, tmp_path, place):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    shared = {"WORLD_SIZE": str(count), "PYTHONPATH": path, **place}
    shared |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    processes = []
    for rank in range(count):
        environment = {**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        arguments = [work.__name__, str(tmp_path / f"{rank}.npz")]
        processes.append(
            subprocess.Popen([sys.executable, __file__, *arguments], env=environment, stderr=subprocess.PIPE, text=True)
        )
    try:
        said = [process.communicate(timeout=2 * SECONDS)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    files = [tmp_path / f"{rank}.npz" for rank in range(count)]
    assert all(file.exists() for file in files), "\n".join(said)
    return [process.returncode for process in processes], [dict(np.load(file)) for file in files]


@pytest.mark.slow
def test_two_workers_learn_what_one_learns_in_all_their_environments(tmp_path):
    codes, (first, second) = run_workers(work_in_pairs, 2, tmp_path)
    assert codes == [0, 0]
    expected = train(Workers())
    for name in expected.keys() - {"waited"}:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)
        np.testing.assert_allclose(first[name], expected[name], rtol=1e-4, atol=2e-6, err_msg=name)
    assert np.abs(expected["gradient_2"]).max() > 0.01 and expected["frames"] == 3 * STEPS * TOTAL_ENVS
    for found in (first, second):
        # Of the weights [3, 2], whose gradients are the inputs, and of the biases [3].
        np.testing.assert_allclose(found["average"], [(10 * 1 + 30 * 2) / 40] * 6 + [1.0] * 3)
        np.testing.assert_array_equal(found["bias"], first["bias"])
        assert found["gathered"].tolist() == ["worker 0", "worker 1"] and found["broadcast"] == 0


@pytest.mark.slow
def test_the_death_of_a_worker_is_noticed(tmp_path):
    codes, found = run_workers(work_until_one_dies, 2, tmp_path)
    assert codes == [0, 7] and all(worker["frames"] == 2 * 4 * 32 for worker in found)


def test_alone_nothing_waits(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    workers = Workers.from_environment()
    assert (workers.rank, workers.size, workers.local_rank) == (0, 1, 0)
    assert workers.gather(2.5) == [2.5] and workers.broadcast("said") == "said"
    workers.barrier()
    layer = torch.nn.Linear(2, 2)
    assert workers.parallel(layer) is layer
    assert workers.loss_weights([5, 3]) == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="an error of its own"), workers.explains_lost_workers():
        raise RuntimeError("an error of its own")
    assert workers.seconds == 0
    workers.close()


def test_who_waits_in_vain_says_so(monkeypatch):
    with meeting_place() as place:
        for name, value in {"WORLD_SIZE": "2", "RANK": "1", **place}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(RuntimeError, match="worker 1 of 2 could not join the others within 1 s"):
            Workers.from_environment(timeout=1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, file = sys.argv[1:]
    np.savez(file, **globals()[name](Workers.from_environment(timeout=SECONDS)))
