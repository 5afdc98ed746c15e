"""PPO with skrl on depth images: python examples/skrl_ppo.py --help."""

import argparse
from pathlib import Path

import numpy as np
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from skrl.utils.spaces.torch import unflatten_tensorized_space
from torch import nn

from gym_batchnav import Camera
from gym_batchnav.adapters.skrl import FinalObservations, SkrlEnv

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"


class Agent(FinalObservations, PPO):
    """PPO of skrl that bootstraps a time-out from the final observation of the episode."""


class Network(CategoricalMixin, DeterministicMixin, Model):
    """Two convolutions on depth, joined with the goal; policy and critic are heads of one body."""

    def __init__(self, env):
        """Take sizes from the environment's spaces."""
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device=env.device)
        CategoricalMixin.__init__(self, role="policy")
        DeterministicMixin.__init__(self, role="value")
        layers = [nn.LazyConv2d(16, 8, 4), nn.ReLU(), nn.LazyConv2d(32, 3, 2), nn.ReLU(), nn.Flatten()]
        self.eye = nn.Sequential(*layers, nn.LazyLinear(64), nn.ReLU())
        self.body = nn.Sequential(nn.LazyLinear(128), nn.Tanh())
        self.heads = nn.ModuleDict({"policy": nn.LazyLinear(self.num_actions), "value": nn.LazyLinear(1)})
        for role in self.heads:
            self.init_state_dict(role=role)

    def act(self, inputs, *, role):
        """Return an action or a value."""
        kind = CategoricalMixin if role == "policy" else DeterministicMixin
        return kind.act(self, inputs, role=role)

    def compute(self, inputs, role):
        """Restore the Dict from skrl's rows and return the output of the role's head."""
        seen = unflatten_tensorized_space(self.observation_space, inputs["observations"])
        distance, angle = seen["pointgoal_with_gps_compass"].split(1, dim=1)
        goal = [angle.cos(), angle.sin(), distance / (1 + distance)]
        return self.heads[role](self.body(torch.cat([self.eye(seen["depth"].permute(0, 3, 1, 2)), *goal], dim=1))), {}


def make_env(options, num_envs):
    """Make a batch for skrl."""
    camera = Camera(width=options.size, height=options.size)
    keywords = {"scenes": options.scenes, "camera": camera, "max_episode_steps": options.episode_steps}
    return SkrlEnv.make(num_envs, options.env, **keywords)


def evaluate(agent, options, num_envs=64):
    """Return mean return and SPL over the first episode of each environment."""
    env = make_env(options, num_envs)
    (seen, _), returns, spl, running = env.reset(), 0.0, np.zeros(num_envs), np.ones(num_envs, bool)
    while running.any():
        with torch.no_grad():
            actions, _ = agent.act(seen, None, timestep=0, timesteps=0)
        seen, reward, terminated, truncated, info = env.step(actions)
        returns += (reward.cpu().numpy()[:, 0] * running).mean()
        ended = (terminated | truncated).cpu().numpy()[:, 0] & running
        if ended.any():
            spl[ended] = info["final_info"]["spl"][ended]
        running &= ~ended
    env.close()
    return f"return {returns:.2f}, SPL {spl.mean():.3f} over {num_envs} episodes"


def main():
    """Train, and evaluate before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="BatchNav/PointNav-v0", help="environment id")
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--num-envs", type=int, default=64, help="environments in the batch")
    parser.add_argument("--frames", type=int, default=300_000, help="environment steps, summed over environments")
    parser.add_argument("--episode-steps", type=int, default=200, help="actions after which an episode is truncated")
    parser.add_argument("--size", type=int, default=32, help="width and height of the depth images")
    parser.add_argument("--seed", type=int, default=1, help="seed of scenes, episodes and network")
    parser.add_argument("--out", default="runs/skrl", help="folder for TensorBoard logs and the agent")
    options = parser.parse_args()

    set_seed(options.seed)
    env = make_env(options, options.num_envs)
    rollout = 64
    out = Path(options.out)
    network = Network(env)
    agent = Agent(
        models={"policy": network, "value": network},
        memory=RandomMemory(memory_size=rollout, num_envs=env.num_envs, device=env.device),
        observation_space=env.observation_space,
        action_space=env.action_space,
        device=env.device,
        cfg=PPO_CFG(
            rollouts=rollout,
            learning_epochs=3,
            mini_batches=8,
            learning_rate=5e-4,
            entropy_loss_scale=0.01,
            value_loss_scale=0.5,
            time_limit_bootstrap=True,
            experiment={"directory": str(out.parent), "experiment_name": out.name, "write_interval": rollout},
        ),
    )
    print("before:", evaluate(agent, options))
    steps = max(options.frames // env.num_envs, rollout)
    SequentialTrainer(env=env, agents=agent, cfg={"timesteps": steps, "headless": True}).train()
    agent.save(str(out / "agent.pt"))
    print("after:", evaluate(agent, options))
    print(f"the agent is in {out / 'agent.pt'}, curves in {out} (tensorboard --logdir {out})")


if __name__ == "__main__":
    main()
