"""PPO with RLlib on depth scans, on one machine or a Ray cluster: python examples/rllib_ppo.py --help."""

from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env
from rllib_run import connect, make_parser, train

from gym_batchnav.adapters.rllib import log_measures, make_batch


def make_config(options):
    """Return RLlib's PPO on batches of gym_batchnav, one per env runner."""
    register_env("batchnav", make_batch)
    steps = options.env_runners * options.num_envs * options.rollout
    return (
        PPOConfig()
        .environment(
            "batchnav",
            env_config={"id": options.env, "scenes": options.scenes, "max_episode_steps": options.episode_steps},
        )
        .env_runners(
            num_env_runners=options.env_runners,
            num_envs_per_env_runner=options.num_envs,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=options.rollout,
        )
        .learners(num_learners=0)  # learn in this process
        .rl_module(model_config={"fcnet_hiddens": [128, 128], "vf_share_layers": True})
        .training(
            lr=5e-4,
            entropy_coeff=0.01,
            vf_loss_coeff=0.5,
            num_epochs=4,
            train_batch_size_per_learner=steps,
            minibatch_size=max(steps // 8, 1),
        )
        .callbacks(on_episode_end=log_measures)
        .debugging(seed=options.seed)
    )


def main():
    """Train, print RLlib's statistics, and save a checkpoint."""
    parser = make_parser(__doc__)
    parser.add_argument("--env", default="BatchNav/PointNavScan-v0", help="id with observations of one array")
    options = parser.parse_args()
    connect(options)
    train(make_config(options), options)


if __name__ == "__main__":
    main()
