"""PPO with TorchRL on depth images and the direction to the goal."""

import argparse
from pathlib import Path

import gymnasium
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Unbounded
from torchrl.envs import GymWrapper, RewardSum, StepCounter, TransformedEnv
from torchrl.envs.gym_like import default_info_dict_reader
from torchrl.envs.transforms import Compose
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from gym_batchnav import Camera

HOMES = "procedural:0-7?area=28&closed_doors=0&triangles=8000"
SENSORS = ["depth", "pointgoal_with_gps_compass"]


class Network(nn.Module):
    """A small CNN; depth [..., 32, 32, 1] and goal [..., 2] give outputs [..., ``outputs``]."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.eye = nn.Sequential(
            nn.Conv2d(1, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 128)
        )
        self.head = nn.Sequential(nn.Linear(131, 128), nn.Tanh(), nn.Linear(128, outputs))

    def forward(self, depth: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        """Metres and radians of the goal become numbers of about 1."""
        seen = self.eye(depth.flatten(0, -4).movedim(-1, 1)).unflatten(0, depth.shape[:-3])
        distance, angle = goal.unbind(-1)
        return self.head(torch.cat([seen, torch.stack([distance / 10, angle.cos(), angle.sin()], -1)], -1))


def make_env(num_envs: int, scenes: str, seed: int) -> TransformedEnv:
    """The batch as TorchRL steps it: with DISABLED, TorchRL itself says which environments to reset."""
    envs = gymnasium.make_vec(
        "gym_batchnav:BatchNav/PointNav-v0", num_envs=num_envs, scenes=scenes, autoreset_mode="disabled",
        camera=Camera(width=32, height=32), max_episode_steps=200,
    )  # fmt: skip
    env = GymWrapper(envs, categorical_action_encoding=True)
    specs = {"success": Unbounded((num_envs,), dtype=torch.bool), "spl": Unbounded((num_envs,), dtype=torch.float64)}
    env.set_info_dict_reader(default_info_dict_reader(list(specs), spec=specs))
    env = TransformedEnv(env, Compose(RewardSum(), StepCounter()))
    env.set_seed(seed)
    return env


def main() -> None:
    """Train, print the progress of every update, and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=300_000, help="environment steps to train for")
    parser.add_argument("--num-envs", type=int, default=128, help="environments in the batch")
    parser.add_argument("--num-steps", type=int, default=32, help="steps of each environment from update to update")
    parser.add_argument("--scenes", default=HOMES, help="training scenes; also a file or folder")
    parser.add_argument("--seed", type=int, default=0, help="seed of environments and networks")
    parser.add_argument("--out", type=Path, default=Path("runs/torchrl"), help="folder for the policy's weights")
    args = parser.parse_args()
    torch.manual_seed(args.seed)

    env = make_env(args.num_envs, args.scenes, args.seed)
    network = Network(4)
    network.head[-1].bias.data[0] = -4  # STOP: a policy that ends its episodes at once sees too little to learn from
    logits = TensorDictModule(network, in_keys=SENSORS, out_keys=["logits"])
    actor = ProbabilisticActor(
        logits, in_keys=["logits"], distribution_class=torch.distributions.Categorical, return_log_prob=True
    )
    critic = ValueOperator(Network(1), in_keys=SENSORS)
    advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    frames = args.num_envs * args.num_steps
    updates = max(args.timesteps // frames, 1)
    collector = Collector(
        env, actor, frames_per_batch=frames, total_frames=updates * frames, auto_register_policy_transforms=True
    )

    for update, rollout in enumerate(collector, 1):  # [num_envs, num_steps]
        with torch.no_grad():
            advantage(rollout)
        for _ in range(4):
            for rows in torch.randperm(frames).split(1024):
                losses = loss(rollout.reshape(-1)[rows])
                optimizer.zero_grad()
                (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        ended = rollout["next"][rollout["next", "done"].squeeze(-1)]  # one row an episode that ended
        means = {name: ended[name].float().mean().item() for name in ("episode_reward", "step_count", "success", "spl")}
        print(f"{update * frames} steps: {len(ended)} episodes,", ", ".join(f"{k} {v:.3f}" for k, v in means.items()))
    collector.shutdown()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(actor.state_dict(), args.out / "policy.pt")
    print(f"The policy's weights are in {args.out / 'policy.pt'}")


if __name__ == "__main__":
    main()
