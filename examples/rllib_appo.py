"""APPO of RLlib with images and a custom network, on PointNav: python examples/rllib_appo.py --help.

Env runners sample without waiting for the learner, and V-trace (Espeholt et al. 2018) corrects for the older policies
that acted. The network is a custom RLModule, so observations stay a Dict, which RLlib's models do not take.
"""

import torch
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS, TargetNetworkAPI, ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.tune import register_env
from rllib_run import connect, make_parser, train
from torch import nn

from gym_batchnav.adapters.rllib import log_measures, make_batch
from gym_batchnav.geometry import Camera
from gym_batchnav.task.sensors import PointGoal
from gym_batchnav.train.encoder import SmallEncoder


class Actor(nn.Module):
    """Logits of the actions, from the goal and, if there is one, the depth image."""

    def __init__(self, space, num_actions):
        super().__init__()
        depth = space.spaces.get("depth")
        self.encoder = None if depth is None else SmallEncoder(("depth",), *depth.shape[:2])
        num_features = 3 + (0 if depth is None else self.encoder.num_features)
        self.body = nn.Sequential(nn.Linear(num_features, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.head = nn.Linear(256, num_actions)

    def features(self, observation):
        """Return features [B, 256]."""
        distance, angle = observation[PointGoal.name].unbind(-1)
        inputs = [torch.stack([distance / (1 + distance), torch.cos(angle), torch.sin(angle)], dim=-1)]
        if self.encoder is not None:
            inputs.append(self.encoder({"depth": observation["depth"]}))
        return self.body(torch.cat(inputs, dim=-1))


class Navigator(TorchRLModule, ValueFunctionAPI, TargetNetworkAPI):
    """Actor and critic on the same features, with the copy of the actor that APPO clips against."""

    def setup(self):
        """Make the layers."""
        self.actor = Actor(self.observation_space, int(self.action_space.n))
        self.critic = nn.Linear(256, 1)

    def _forward(self, batch, **_):
        features = self.actor.features(batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: self.actor.head(features), Columns.EMBEDDINGS: features}

    def compute_values(self, batch, embeddings=None):
        """Return values [B]."""
        features = self.actor.features(batch[Columns.OBS]) if embeddings is None else embeddings
        return self.critic(features).squeeze(-1)

    def make_target_networks(self):
        """Make the copy."""
        self.old_actor = make_target_network(self.actor)

    def get_target_network_pairs(self):
        """Return the actor and its copy."""
        return [(self.actor, self.old_actor)]

    def forward_target(self, batch):
        """Return the logits of the copy."""
        features = self.old_actor.features(batch[Columns.OBS])
        return {TARGET_NETWORK_ACTION_DIST_INPUTS: self.old_actor.head(features)}


def make_config(options):
    """Return RLlib's APPO on batches of gym_batchnav, one per env runner."""
    register_env("batchnav", make_batch)
    images = {"sensors": ("depth",), "camera": Camera(options.size, options.size)} if options.size else {"sensors": ()}
    return (
        APPOConfig()
        .environment(
            "batchnav",
            env_config={
                "id": "BatchNav/PointNav-v0", "scenes": options.scenes, "max_episode_steps": options.episode_steps,
                **images,
            },
        )
        .env_runners(
            num_env_runners=options.env_runners,
            num_envs_per_env_runner=options.num_envs,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=options.rollout,
        )
        .learners(num_learners=0)  # in a thread of this process
        .rl_module(rl_module_spec=RLModuleSpec(module_class=Navigator))
        .training(
            lr=options.learning_rate,
            entropy_coeff=0.01,
            vf_loss_coeff=0.5,
            grad_clip=1.0,
            train_batch_size_per_learner=options.num_envs * options.rollout,
            circular_buffer_num_batches=4,
            circular_buffer_iterations_per_batch=2,
        )
        .reporting(min_time_s_per_iteration=options.report)
        .callbacks(on_episode_end=log_measures)
        .debugging(seed=options.seed)
    )  # fmt: skip


def add_options(parser):
    """Add the options of APPO to a parser."""
    parser.add_argument("--size", type=int, default=32, help="pixels per side of the depth image; 0 for none")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--report", type=float, default=5.0, help="seconds between two lines of statistics")


def main():
    """Train, print RLlib's statistics, and save a checkpoint."""
    parser = make_parser(__doc__, env_runners=2, num_envs=16, frames=500_000, out="runs/rllib_appo")
    add_options(parser)
    options = parser.parse_args()
    connect(options)
    train(make_config(options), options)


if __name__ == "__main__":
    main()
