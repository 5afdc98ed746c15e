"""PPO with RLlib on depth scans, on one machine or a Ray cluster: python examples/rllib_ppo.py --help."""

import argparse
from pathlib import Path

import numpy as np
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env

from gym_batchnav.adapters.rllib import make_batch

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"


def log_measures(*, episode, metrics_logger, **_):
    """Add the measures of an episode that ended to sums, which RLlib resets in each iteration."""
    measures = episode.get_infos(-1)
    for name in ("spl", "success"):
        metrics_logger.log_value(name, float(measures[name]), reduce="sum")


def make_config(options):
    """Return RLlib's PPO on batches of gym_batchnav, one per env runner."""
    register_env("batchnav", make_batch)
    steps = options.env_runners * options.num_envs * options.rollout
    return (
        PPOConfig()
        .environment(
            "batchnav",
            env_config={"id": options.env, "scenes": options.scenes, "max_episode_steps": options.episode_steps},
        )
        .env_runners(
            num_env_runners=options.env_runners,
            num_envs_per_env_runner=options.num_envs,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=options.rollout,
        )
        .learners(num_learners=0)  # learn in this process
        .rl_module(model_config={"fcnet_hiddens": [128, 128], "vf_share_layers": True})
        .training(
            lr=5e-4,
            entropy_coeff=0.01,
            vf_loss_coeff=0.5,
            num_epochs=4,
            train_batch_size_per_learner=steps,
            minibatch_size=max(steps // 8, 1),
        )
        .callbacks(on_episode_end=log_measures)
        .debugging(seed=options.seed)
    )


def main():
    """Train, print RLlib's statistics, and save a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "--env",
        default="BatchNav/PointNavScan-v0",
        help="id with observations of one array",
    )
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--env-runners", type=int, default=1, help="processes, each with one batch")
    parser.add_argument("--num-envs", type=int, default=128, help="environments in each batch")
    parser.add_argument("--rollout", type=int, default=32, help="steps per environment and update")
    parser.add_argument("--frames", type=int, default=300_000, help="environment steps, summed over environments")
    parser.add_argument("--episode-steps", type=int, default=200, help="actions after which an episode is truncated")
    parser.add_argument("--address", help="address of a Ray cluster, such as auto; by default one is started here")
    parser.add_argument("--seed", type=int, default=1, help="seed of scenes, episodes and network")
    parser.add_argument("--out", default="runs/rllib", help="folder for the checkpoint")
    options = parser.parse_args()

    start = {} if options.address else {"num_cpus": options.env_runners + 1, "include_dashboard": False}
    ray.init(address=options.address, logging_level="error", **start)
    algorithm = make_config(options).build_algo()
    frames = 0
    while frames < options.frames:
        counted = algorithm.train()["env_runners"]
        frames = int(counted["num_env_steps_sampled_lifetime"])
        means = {name: counted.get(name, np.nan) for name in ("episode_return_mean", "episode_len_mean")}
        ended = counted.get("num_episodes", 0)
        means |= {name: counted[name] / ended if ended else np.nan for name in ("spl", "success")}
        summary = ", ".join(f"{name} {value:.3f}" for name, value in means.items())
        print(f"{frames} frames, {counted.get('num_episodes_lifetime', 0):.0f} episodes: {summary}", flush=True)
    path = algorithm.save_to_path(str(Path(options.out).resolve()))
    algorithm.stop()
    ray.shutdown()
    print(f"the checkpoint is in {path}")


if __name__ == "__main__":
    main()
