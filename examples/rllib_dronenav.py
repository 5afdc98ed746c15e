"""SAC with prioritised replay and several env runners of RLlib, on DroneNav: python examples/rllib_dronenav.py --help.

As in Ape-X (Horgan et al. 2018), many actors fill a replay buffer from which one learner takes what it can learn most
from. Each env runner is a process with a batch of drones in its own homes, on one machine or on the nodes of a cluster.
"""

import argparse
from pathlib import Path

import numpy as np
import ray
from ray.rllib.algorithms.sac import SACConfig
from ray.tune import register_env

from gym_batchnav.adapters.rllib import make_batch

HOMES = "procedural:0-15?area=28&closed_doors=0&triangles=8000"


def log_measures(*, episode, metrics_logger, **_):
    """Add the measures of an episode that ended to sums, which RLlib resets in each iteration."""
    measures = episode.get_infos(-1)
    for name in ("spl", "success"):
        metrics_logger.log_value(name, float(measures[name]), reduce="sum")


def make_config(options):
    """Return RLlib's SAC on batches of gym_batchnav, one per env runner."""
    register_env("batchnav", make_batch)
    return (
        SACConfig()
        .environment(
            "batchnav",
            env_config={
                "id": "BatchNav/DroneNavScan-v0", "scenes": options.scenes, "max_episode_steps": options.episode_steps,
            },
        )
        .env_runners(
            num_env_runners=options.env_runners,
            num_envs_per_env_runner=options.num_envs,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=options.rollout,
        )
        .learners(num_learners=0)  # learn in this process
        .rl_module(model_config={"fcnet_hiddens": [256, 256], "head_fcnet_hiddens": []})
        .training(
            actor_lr=3e-4,
            critic_lr=3e-4,
            alpha_lr=3e-4,
            gamma=0.98,
            n_step=3,
            train_batch_size_per_learner=options.batch,
            training_intensity=options.intensity,
            num_steps_sampled_before_learning_starts=options.warm_up,
            replay_buffer_config={
                "type": "PrioritizedEpisodeReplayBuffer", "capacity": options.capacity, "alpha": 0.6, "beta": 0.4,
            },
        )
        .reporting(min_sample_timesteps_per_iteration=options.report)
        .callbacks(on_episode_end=log_measures)
        .debugging(seed=options.seed)
    )  # fmt: skip


def main():
    """Train, print RLlib's statistics, and save a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--env-runners", type=int, default=2, help="processes, each with one batch")
    parser.add_argument("--num-envs", type=int, default=16, help="drones in each batch")
    parser.add_argument("--rollout", type=int, default=4, help="steps per drone that an env runner sends at once")
    parser.add_argument("--batch", type=int, default=256, help="steps in an update")
    parser.add_argument("--intensity", type=float, default=8.0, help="steps learned from per step sampled")
    parser.add_argument("--capacity", type=int, default=300_000, help="steps in the replay buffer")
    parser.add_argument("--warm-up", type=int, default=5_000, help="steps sampled before learning starts")
    parser.add_argument("--frames", type=int, default=500_000, help="steps, summed over drones")
    parser.add_argument("--report", type=int, default=10_000, help="steps between two lines of statistics")
    parser.add_argument("--episode-steps", type=int, default=150, help="actions after which an episode is truncated")
    parser.add_argument("--address", help="address of a Ray cluster, such as auto; by default one is started here")
    parser.add_argument("--seed", type=int, default=1, help="seed of scenes, episodes and network")
    parser.add_argument("--out", default="runs/rllib_dronenav", help="folder for the checkpoint")
    options = parser.parse_args()

    start = {} if options.address else {"num_cpus": options.env_runners + 1, "include_dashboard": False}
    ray.init(address=options.address, logging_level="error", **start)
    algorithm = make_config(options).build_algo()
    frames = 0
    while frames < options.frames:
        counted = algorithm.train()["env_runners"]
        frames = int(counted["num_env_steps_sampled_lifetime"])
        ended = counted.get("num_episodes", 0)
        means = {name: counted.get(name, np.nan) for name in ("episode_return_mean", "episode_len_mean")}
        means |= {name: counted[name] / ended if ended else np.nan for name in ("spl", "success")}
        summary = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
        print(f"{frames} frames, {counted.get('num_episodes_lifetime', 0):.0f} episodes: {summary}", flush=True)
    path = algorithm.save_to_path(str(Path(options.out).resolve()))
    algorithm.stop()
    ray.shutdown()
    print(f"the checkpoint is in {path}")


if __name__ == "__main__":
    main()
