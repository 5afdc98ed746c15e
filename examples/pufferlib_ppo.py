"""PPO with PufferLib's trainer on a one-dimensional depth scan and the goal: python examples/pufferlib_ppo.py --help.

Success rises from 0 to about 0.5 in the default 600,000 steps, which took two minutes on two processor cores.
"""

import argparse
import signal
from itertools import pairwise

import numpy as np
import pufferlib.vector
import torch
from pufferlib.pufferl import PuffeRL
from pufferlib.pytorch import layer_init
from torch import nn

from gym_batchnav.adapters.pufferlib import PufferVecEnv
from gym_batchnav.task.pointnav import PointNav

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"
HORIZON = 32  # steps of each agent between two updates


class Policy(nn.Module):
    """Separate actor and critic, each with two layers on the scan and the goal."""

    def __init__(self, env, hidden=128):
        """Make networks for the spaces of one agent of ``env``."""
        super().__init__()
        self.sizes = [env.single_observation_space.shape[0], hidden, hidden]
        self.actor = self.network(env.single_action_space.n, std=0.01)
        self.critic = self.network(1, std=1)

    def network(self, outputs, std):
        """Return linear layers; the last one starts with weights of scale ``std``."""
        layers = []
        for inputs, width in pairwise(self.sizes):
            layers += [layer_init(nn.Linear(inputs, width)), nn.Tanh()]
        return nn.Sequential(*layers, layer_init(nn.Linear(self.sizes[-1], outputs), std=std))

    def forward(self, observations, state=None):
        """Return logits [B, 4] and values [B, 1]."""
        return self.actor(observations), self.critic(observations)

    forward_eval = forward


class Trainer(PuffeRL):
    """PuffeRL without its dashboard."""

    def print_dashboard(self, *arguments, **keywords):
        """Print nothing."""


def configuration(options):
    """Return the settings of PufferLib's default.ini, for a small network on the CPU."""
    return {
        "env": "batchnav", "seed": options.seed, "device": "cpu", "data_dir": options.out, "precision": "float32",
        "total_timesteps": max(options.timesteps, HORIZON * options.num_envs), "batch_size": "auto",
        "bptt_horizon": HORIZON, "minibatch_size": 512, "max_minibatch_size": 512, "update_epochs": 4,
        "learning_rate": 1e-3, "anneal_lr": True, "optimizer": "adam",
        "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-5, "gamma": 0.99, "gae_lambda": 0.95, "clip_coef": 0.2,
        "vf_coef": 0.5, "vf_clip_coef": 10.0, "ent_coef": 0.01, "max_grad_norm": 0.5, "prio_alpha": 0.0,
        "prio_beta0": 1.0, "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "checkpoint_interval": 100, "use_rnn": False,
        "cpu_offload": False, "torch_deterministic": True, "compile": False,
    }  # fmt: skip


def main():
    """Train, then print the path of the policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=600_000, help="steps summed over agents")
    parser.add_argument("--num-envs", type=int, default=128, help="agents in the batch")
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--out", default="runs/pufferlib", help="folder for the results")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    # PuffeRL clips rewards to [-1, 1], so a success pays 1 instead of 2.5.
    keywords = {"id": "BatchNav/PointNavScan-v0", "task": PointNav(success_reward=1.0)}
    keywords |= {"num_envs": options.num_envs, "scenes": options.scenes, "max_episode_steps": 200}
    env = pufferlib.vector.make(PufferVecEnv.make, env_kwargs=keywords)
    trainer = Trainer(configuration(options), env, Policy(env.driver_env))
    # PufferLib ends the process at once on Ctrl-C. This handler saves the policy first.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = ("episode_return", "episode_length", "success", "spl")
    rows = []
    try:
        while trainer.global_step < options.timesteps:
            trainer.evaluate()
            logs = trainer.train()
            if logs and "environment/spl" in logs:
                rows.append([logs[f"environment/{name}"] for name in names])
            if rows and (len(rows) == 8 or trainer.global_step >= options.timesteps):
                summary = ", ".join(f"{name} {mean:.2f}" for name, mean in zip(names, np.mean(rows, 0), strict=True))
                print(f"{trainer.global_step} steps: {summary}", flush=True)
                rows.clear()
    except KeyboardInterrupt:
        print(f"stopped after {trainer.global_step} steps")
    finally:  # A thread of PuffeRL keeps an interrupted run alive until it is closed.
        print(f"the policy is in {trainer.close()}")


if __name__ == "__main__":
    main()
