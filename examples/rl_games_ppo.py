"""PPO with rl_games on a one-dimensional depth scan and the goal: python examples/rl_games_ppo.py --help.

rl_games' own network takes one array; give it a network of your own for BatchNav/PointNav-v0, whose observation is a
Dict of images and the goal.
"""

import argparse

import numpy as np
from rl_games.common.algo_observer import AlgoObserver
from rl_games.torch_runner import Runner

from gym_batchnav.adapters.rl_games import RLGamesVecEnv, register

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"


class Scores(AlgoObserver):
    """Print return, length and SPL of the episodes that ended since the last line."""

    def after_init(self, algo):
        """Store the algorithm, whose statistics are printed."""
        self.algo = algo
        self.ended = []

    def process_infos(self, infos, done_indices):
        """Collect the SPL of episodes that ended; rl_games calls this after every step."""
        done = done_indices[:, 0].cpu().numpy()
        if len(done):
            self.ended += infos["final_info"]["spl"][done].tolist()

    def after_print_stats(self, frame, epoch_num, total_time):
        """Print means; rl_games calls this after every epoch (1.6.5 twice)."""
        if len(self.ended) >= 200:
            reward = self.algo.game_rewards.get_mean().item()
            length = self.algo.game_lengths.get_mean().item()
            print(f"frame {frame}: return {reward:.2f}, length {length:.0f}, SPL {np.mean(self.ended):.3f}")
            self.ended.clear()


def configuration(options):
    """Return the settings that rl_games' own examples read from a YAML file."""
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
            "env_config": {},  # the Runner puts its seed here; without it the environment is not seeded
            "train_dir": options.out, "torch_compile": False, "print_stats": False, "games_to_track": 200,
            "max_frames": options.timesteps, "horizon_length": 32, "minibatch_size": 8 * options.num_envs,
            "mini_epochs": 4, "learning_rate": 1e-3, "lr_schedule": "linear", "gamma": 0.99, "tau": 0.95,
            "e_clip": 0.2, "clip_value": True, "critic_coef": 1.0, "entropy_coef": 0.01, "grad_norm": 0.5,
            "truncate_grads": True, "normalize_advantage": True, "normalize_input": True, "normalize_value": True,
            "value_bootstrap": True, "reward_shaper": {"scale_value": 1.0},
        },
    }}  # fmt: skip


def main():
    """Train, then print the folder of the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=1_000_000, help="environment steps, summed over environments")
    parser.add_argument("--num-envs", type=int, default=128, help="environments in the batch")
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--out", default="runs/rl_games", help="folder for the results")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    keywords = {"scenes": options.scenes, "max_episode_steps": 200}
    env = RLGamesVecEnv.make(options.num_envs, "BatchNav/PointNavScan-v0", **keywords)
    register(env, "batchnav")
    runner = Runner(Scores())
    runner.load(configuration(options))
    runner.run({"train": True})
    env.close()
    print(f"checkpoints and curves are in {options.out}: tensorboard --logdir {options.out}")


if __name__ == "__main__":
    main()
