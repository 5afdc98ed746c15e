"""Options of the command line, the connection to Ray and the training loop that the examples of RLlib share."""

import argparse
from pathlib import Path

import numpy as np
import ray

from gym_batchnav.adapters.rllib import MEASURES

HOMES = "procedural:{}?area=28&closed_doors=0&triangles=8000"


def make_parser(description, **defaults):
    """Return a parser of the options that all examples have; keywords replace their defaults."""
    formatter = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=formatter)
    parser.add_argument("--scenes", default=HOMES.format("0-7"), help="training scenes; also a file or folder")
    parser.add_argument("--env-runners", type=int, default=1, help="processes, each with one batch")
    parser.add_argument("--num-envs", type=int, default=128, help="environments in each batch")
    parser.add_argument(
        "--rollout", type=int, default=32, help="steps per environment that an env runner sends at once"
    )
    parser.add_argument("--frames", type=int, default=300_000, help="environment steps, summed over environments")
    parser.add_argument("--episode-steps", type=int, default=200, help="actions after which an episode is truncated")
    parser.add_argument("--address", help="address of a Ray cluster, such as auto; by default one is started here")
    parser.add_argument("--seed", type=int, default=1, help="seed of scenes, episodes and network")
    parser.add_argument("--out", default="runs/rllib", help="folder for the checkpoint")
    parser.set_defaults(**defaults)
    return parser


def connect(options):
    """Connect to a Ray cluster, or start one here with a CPU for each env runner and one for the learner."""
    here = {} if options.address else {"num_cpus": options.env_runners + 1, "include_dashboard": False}
    ray.init(address=options.address or "local", logging_level="error", **here)


def train(config, options):
    """Train for ``options.frames``, print a line of statistics for each iteration, and save a checkpoint."""
    algorithm = config.build_algo()
    frames = 0
    while frames < options.frames:
        counted = algorithm.train()["env_runners"]
        frames = int(counted.get("num_env_steps_sampled_lifetime", 0))
        summary = ", ".join(f"{name} {value:.3f}" for name, value in means_of(counted).items())
        print(f"{frames} frames, {counted.get('num_episodes_lifetime', 0):.0f} episodes: {summary}", flush=True)
    path = algorithm.save_to_path(str(Path(options.out).resolve()))
    algorithm.stop()
    ray.shutdown()
    print(f"the checkpoint is in {path}")


def means_of(counted):
    """Return the means of an iteration's episodes: return, length and measures, or the returns of agents by name."""
    if "agent_episode_returns_mean" in counted:
        return dict(sorted(counted["agent_episode_returns_mean"].items()))
    ended = np.nan_to_num(counted.get("num_episodes", 0))
    means = {name: counted.get(name, np.nan) for name in ("episode_return_mean", "episode_len_mean")}
    return means | {name: counted[name] / ended if ended else np.nan for name in MEASURES}
