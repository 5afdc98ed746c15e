"""PPO with PufferLib's trainer on depth pictures and the goal: python examples/pufferlib_ppo.py --help."""

import argparse

import pufferlib.vector
import torch
from pufferlib.pufferl import PuffeRL
from pufferlib.pytorch import layer_init, nativize_dtype, nativize_tensor
from torch import nn

import gym_batchnav
from gym_batchnav.adapters.pufferlib import make_env
from gym_batchnav.task.pointnav import PointNav

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"


class Policy(nn.Module):
    """Depth through three convolutions, then the goal beside it; logits and value on one body."""

    def __init__(self, env, hidden=128):
        """PufferLib hands over one row an agent; ``emulated`` says where its parts are."""
        super().__init__()
        self.parts = nativize_dtype(env.emulated)
        layers = [nn.LazyConv2d(16, 5, 2), nn.ReLU(), nn.LazyConv2d(32, 3, 2), nn.ReLU(), nn.LazyConv2d(32, 3, 2)]
        self.eye = nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.LazyLinear(hidden), nn.ReLU())
        self.body = nn.Sequential(nn.Linear(hidden + 3, hidden), nn.Tanh())
        self.logits = layer_init(nn.Linear(hidden, env.single_action_space.n), std=0.01)
        self.value = layer_init(nn.Linear(hidden, 1), std=1)
        self(torch.zeros(1, *env.single_observation_space.shape))  # gives the lazy layers their sizes

    def forward(self, observations, state=None):
        """Logits [B, 4] and values [B, 1]."""
        seen = nativize_tensor(observations, self.parts)
        distance, angle = seen["pointgoal_with_gps_compass"].split(1, dim=1)
        goal = [angle.cos(), angle.sin(), distance / (1 + distance)]
        hidden = self.body(torch.cat([self.eye(seen["depth"].permute(0, 3, 1, 2)), *goal], dim=1))
        return self.logits(hidden), self.value(hidden)

    forward_eval = forward


class Trainer(PuffeRL):
    """PuffeRL without its dashboard; leave this class out to see it."""

    def print_dashboard(self, *arguments, **keywords):
        """Print nothing."""


def configuration(options):
    """What PufferLib reads from its default.ini, for a small network on the CPU."""
    return {
        "env": "batchnav", "seed": options.seed, "device": "cpu", "data_dir": options.out, "precision": "float32",
        "total_timesteps": options.timesteps, "batch_size": "auto", "bptt_horizon": 64, "minibatch_size": 1024,
        "max_minibatch_size": 1024, "update_epochs": 4, "learning_rate": 1e-3, "anneal_lr": True, "optimizer": "adam",
        "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-5, "gamma": 0.99, "gae_lambda": 0.95, "clip_coef": 0.2,
        "vf_coef": 0.5, "vf_clip_coef": 10.0, "ent_coef": 0.02, "max_grad_norm": 0.5, "prio_alpha": 0.0,
        "prio_beta0": 1.0, "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "checkpoint_interval": 100, "use_rnn": False,
        "cpu_offload": False, "torch_deterministic": True, "compile": False,
    }  # fmt: skip


def main():
    """Train and say where the result lies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=600_000, help="steps of all agents together")
    parser.add_argument("--num-envs", type=int, default=64, help="agents that step at a time")
    parser.add_argument("--scenes", default=HOMES, help="what to train in, also a file or folder")
    parser.add_argument("--out", default="runs/pufferlib", help="where the results go")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    # PuffeRL clips rewards to [-1, 1], hence the smaller one for a success.
    keywords = {"camera": gym_batchnav.Camera(width=32, height=32), "task": PointNav(success_reward=1.0)}
    keywords |= {"num_envs": options.num_envs, "scenes": options.scenes, "max_episode_steps": 200}
    env = pufferlib.vector.make(make_env, env_kwargs=keywords)
    trainer = Trainer(configuration(options), env, Policy(env.driver_env))
    shown = ("episode_return", "episode_length", "success", "spl")
    try:
        while trainer.global_step < options.timesteps:
            trainer.evaluate()
            logs = trainer.train()
            if logs and "environment/spl" in logs:
                told = ", ".join(f"{name} {logs[f'environment/{name}']:.2f}" for name in shown)
                print(f"{logs['agent_steps']} steps, {logs['SPS']:.0f} a second: {told}", flush=True)
    finally:  # PuffeRL has a thread that keeps an interrupted run alive until it is closed.
        print(f"the policy is in {trainer.close()}")


if __name__ == "__main__":
    main()
