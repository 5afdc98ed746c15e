"""PPO with tianshou on a one-dimensional depth scan and the goal: python examples/tianshou_ppo.py --help.

Success rises from 0 to about 0.4 in the default 300,000 steps, which took three minutes on two processor cores.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, CollectStats, VectorReplayBuffer
from tianshou.trainer import OnPolicyTrainerParams
from torch import nn

from gym_batchnav.adapters.tianshou import TianshouVecEnv

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"


def network(inputs: int, outputs: int, std: float, hidden: int = 128) -> nn.Sequential:
    """Return two hidden layers and a last one with weights of scale ``std``."""
    widths = (inputs, hidden, hidden, outputs)
    stds = (2**0.5, 2**0.5, std)
    layers: list[nn.Module] = []
    for size, width, scale in zip(widths[:-1], widths[1:], stds, strict=True):
        linear = nn.Linear(size, width)
        nn.init.orthogonal_(linear.weight, scale)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Actor(nn.Module):
    """Actor for observations [B, 67]; tianshou expects logits and a recurrent state, here None."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.logits = network(inputs, 4, std=0.01)

    def forward(self, obs: np.ndarray, state: None = None, info: Batch | None = None) -> tuple[torch.Tensor, None]:
        """Return logits [B, 4]."""
        return self.logits(torch.as_tensor(obs)), state


class Critic(nn.Module):
    """Critic for observations [B, 67]."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.value = network(inputs, 1, std=1)

    def forward(self, obs: np.ndarray) -> torch.Tensor:
        """Return values [B, 1]."""
        return self.value(torch.as_tensor(obs))


def make_env(num_envs: int, scenes: str) -> TianshouVecEnv:
    """Make a batch for tianshou."""
    return TianshouVecEnv.make(num_envs, "BatchNav/PointNavScan-v0", scenes=scenes, max_episode_steps=200)


def evaluate(algorithm: PPO, env: TianshouVecEnv, num_episodes: int) -> str:
    """Return mean return, success and SPL; tianshou keeps an episode's measures in the info of its last step."""
    collector = Collector[CollectStats](algorithm, env, VectorReplayBuffer(200 * num_episodes, len(env)))
    stats = collector.collect(n_episode=num_episodes, reset_before_collect=True)
    last = collector.buffer[np.nonzero(collector.buffer.done)[0]].info
    means = f"success {last.success.mean():.3f}, SPL {last.spl.mean():.3f}"
    return f"return {stats.returns.mean():.2f}, length {stats.lens.mean():.0f}, {means} over {len(last)} episodes"


def main() -> None:
    """Evaluate, train, evaluate again and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=300_000, help="environment steps to train for")
    parser.add_argument("--num-envs", type=int, default=128, help="environments in the batch")
    parser.add_argument("--num-steps", type=int, default=32, help="steps per environment and update")
    parser.add_argument("--episodes", type=int, default=128, help="episodes per evaluation")
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--seed", type=int, default=0, help="seed of environments and networks")
    parser.add_argument("--out", type=Path, default=Path("runs/tianshou"), help="folder for the policy's weights")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    env = make_env(args.num_envs, args.scenes)
    env.seed(args.seed)
    (inputs,) = env.observation_space[0].shape
    policy = DiscreteActorPolicy(actor=Actor(inputs), action_space=env.action_space[0])
    optim = AdamOptimizerFactory(lr=1e-3, eps=1e-5)
    algorithm = PPO(policy=policy, critic=Critic(inputs), optim=optim, max_grad_norm=0.5)
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
            update_step_num_repetitions=4,
        )
    )
    print("after:", evaluate(algorithm, env, args.episodes))
    env.close()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(policy.state_dict(), args.out / "policy.pt")
    print(f"The policy's weights are in {args.out / 'policy.pt'}")


if __name__ == "__main__":
    main()
