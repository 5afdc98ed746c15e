"""PPO with rl_games on a one-dimensional depth scan and the goal: python examples/rl_games_ppo.py --help.

rl_games' own network takes one array; give it a network of your own for BatchNav/PointNav-v0, whose observation is a
Dict of pictures and the goal.
"""

import argparse

import gymnasium
import numpy as np
from rl_games.common.algo_observer import AlgoObserver
from rl_games.torch_runner import Runner

import gym_batchnav  # noqa: F401  registers the environments
from gym_batchnav.adapters.rl_games import register

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"


class Scores(AlgoObserver):
    """Prints what the episodes that ended since the last line came to."""

    def after_init(self, algo):
        """Keep the agent, whose counts are printed."""
        self.algo, self.ended = algo, []

    def process_infos(self, infos, done_indices):
        """Called after every step."""
        done = done_indices[:, 0].cpu().numpy()
        if len(done):
            self.ended += infos["final_info"]["spl"][done].tolist()

    def after_print_stats(self, frame, epoch_num, total_time):
        """Called after every epoch, twice by rl_games 1.6.5."""
        if len(self.ended) >= 200:
            reward, length = self.algo.game_rewards.get_mean().item(), self.algo.game_lengths.get_mean().item()
            print(f"frame {frame}: return {reward:.2f}, length {length:.0f}, SPL {np.mean(self.ended):.3f}")
            self.ended.clear()


def configuration(options):
    """What rl_games reads from a YAML file in its own examples."""
    return {"params": {
        "seed": options.seed,
        "algo": {"name": "a2c_discrete"},
        "model": {"name": "discrete_a2c"},
        "network": {
            "name": "actor_critic", "separate": False, "space": {"discrete": {}},
            "mlp": {"units": [256, 128], "activation": "elu", "initializer": {"name": "default"}},
        },
        "config": {
            "name": "batchnav", "env_name": "batchnav", "num_actors": options.num_envs, "device": "cpu",
            "env_config": {},  # where the Runner puts the seed; without it the environment is not seeded
            "train_dir": options.out, "torch_compile": False, "print_stats": False, "games_to_track": 200,
            "max_frames": options.timesteps, "horizon_length": 32, "minibatch_size": 8 * options.num_envs,
            "mini_epochs": 4, "learning_rate": 1e-3, "lr_schedule": "linear", "gamma": 0.99, "tau": 0.95,
            "e_clip": 0.2, "clip_value": True, "critic_coef": 1.0, "entropy_coef": 0.01, "grad_norm": 0.5,
            "truncate_grads": True, "normalize_advantage": True, "normalize_input": True, "normalize_value": True,
            "value_bootstrap": True, "reward_shaper": {"scale_value": 1.0},
        },
    }}  # fmt: skip


def main():
    """Train and say where the result lies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=1_000_000, help="steps of all environments together")
    parser.add_argument("--num-envs", type=int, default=128, help="environments that step at a time")
    parser.add_argument("--scenes", default=HOMES, help="what to train in, also a file or folder")
    parser.add_argument("--out", default="runs/rl_games", help="where the results go")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    keywords = {"scenes": options.scenes, "max_episode_steps": 200, "autoreset_mode": "same_step"}
    env = register(gymnasium.make_vec("BatchNav/PointNavScan-v0", num_envs=options.num_envs, **keywords))
    runner = Runner(Scores())
    runner.load(configuration(options))
    runner.run({"train": True})
    env.close()
    print(f"checkpoints and curves are in {options.out}: tensorboard --logdir {options.out}")


if __name__ == "__main__":
    main()
