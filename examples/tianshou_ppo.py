"""PPO with tianshou on depth pictures and the direction to the goal."""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
from tianshou.trainer import OnPolicyTrainerParams
from torch import nn

import gym_batchnav
from gym_batchnav.adapters.tianshou import TianshouVecEnv


class Network(nn.Module):
    """A small CNN; observations are a Batch with depth [B, 32, 32, 1] and goal [B, 2]."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.eye = nn.Sequential(
            nn.Conv2d(1, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 128)
        )
        self.head = nn.Sequential(nn.Linear(131, 128), nn.Tanh(), nn.Linear(128, outputs))

    def forward(self, obs: Batch) -> torch.Tensor:
        """Metres and radians of the goal become numbers of about 1."""
        seen = self.eye(torch.as_tensor(obs.depth).movedim(-1, 1))
        distance, angle = torch.as_tensor(obs.pointgoal_with_gps_compass).unbind(1)
        return self.head(torch.cat([seen, torch.stack([distance / 10, angle.cos(), angle.sin()], 1)], 1))


class Actor(Network):
    """tianshou asks an actor for logits and a recurrent state, here none."""

    def __init__(self) -> None:
        super().__init__(4)
        self.head[-1].bias.data[0] = -4  # STOP: a policy that ends its episodes at once sees too little to learn from

    def forward(self, obs: Batch, state: None = None, info: Batch | None = None) -> tuple[torch.Tensor, None]:
        """Logits [B, 4]."""
        return super().forward(obs), state


def make_env(num_envs: int, scenes: str) -> TianshouVecEnv:
    """A batch for tianshou."""
    camera = gym_batchnav.Camera(width=32, height=32)
    return TianshouVecEnv(
        gymnasium.make_vec(
            "BatchNav/PointNav-v0", num_envs=num_envs, scenes=scenes, camera=camera, max_episode_steps=200,
            autoreset_mode="same_step",
        )
    )  # fmt: skip


def evaluate(algorithm: PPO, env: TianshouVecEnv, num_episodes: int) -> str:
    """Mean return, success and SPL; tianshou leaves what an episode came to in the infos of its last step."""
    collector = Collector[CollectStats](algorithm, env, VectorReplayBuffer(200 * num_episodes, len(env)))
    stats = collector.collect(n_episode=num_episodes, reset_before_collect=True)
    last = collector.buffer[np.nonzero(collector.buffer.done)[0]].info
    means = f"success {last.success.mean():.3f}, SPL {last.spl.mean():.3f}"
    return f"return {stats.returns.mean():.2f}, length {stats.lens.mean():.0f}, {means} over {len(last)} episodes"


def main() -> None:
    """Train, evaluate before and after, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=300_000, help="environment steps to train for")
    parser.add_argument("--num-envs", type=int, default=64, help="environments in the batch")
    parser.add_argument("--num-steps", type=int, default=64, help="steps of each environment from update to update")
    parser.add_argument("--episodes", type=int, default=128, help="episodes of an evaluation")
    parser.add_argument("--scenes", default="apartments", help="an apartment, a file, a folder, procedural:0-99, ...")
    parser.add_argument("--seed", type=int, default=0, help="of environments and networks")
    parser.add_argument("--out", type=Path, default=Path("runs/tianshou"), help="folder for the policy's weights")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    env = make_env(args.num_envs, args.scenes)
    env.seed(args.seed)
    policy = DiscreteActorPolicy(actor=Actor(), action_space=env.action_space[0])
    algorithm = PPO(policy=policy, critic=Network(1), optim=AdamOptimizerFactory(lr=5e-4), max_grad_norm=0.5)
    print("before:", evaluate(algorithm, env, args.episodes))
    frames = args.num_envs * args.num_steps
    collector = Collector[CollectStats](algorithm, env, VectorReplayBuffer(frames, args.num_envs))
    collector.reset()
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector,
            max_epochs=max(args.timesteps // (8 * frames), 1),  # eight updates an epoch
            epoch_num_steps=min(8 * frames, args.timesteps),
            collection_step_num_env_steps=frames,
            batch_size=1024,
            update_step_num_repetitions=3,
        )
    )
    print("after:", evaluate(algorithm, env, args.episodes))
    env.close()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(policy.state_dict(), args.out / "policy.pt")
    print(f"The policy's weights are in {args.out / 'policy.pt'}")


if __name__ == "__main__":
    main()
