"""PPO of RLlib with agents by name, who share a policy or have one each: python examples/rllib_worlds.py --help."""

from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env
from rllib_run import connect, make_parser, train

from gym_batchnav.adapters.rllib import make_world


def make_config(options):
    """Return RLlib's PPO on worlds of several agents."""
    register_env("batchnav_world", make_world)
    names = [f"agent_{index}" for index in range(options.agents)]
    own = {name: name if options.own_policies else "shared" for name in names}
    steps = max(options.env_runners, 1) * options.num_envs * options.rollout
    keywords = {
        "agents_per_world": options.agents,
        "scenes": options.scenes,
        "max_episode_steps": options.episode_steps,
    }
    return (
        PPOConfig()
        .environment("batchnav_world", env_config={"id": "BatchNav/PointNavScan-v0", **keywords})
        .env_runners(
            num_env_runners=options.env_runners,
            num_envs_per_env_runner=options.num_envs,
            rollout_fragment_length=options.rollout,
        )
        .multi_agent(policies=set(own.values()), policy_mapping_fn=lambda agent, *_, **__: own[agent])
        .learners(num_learners=0)  # learn in this process
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .training(train_batch_size_per_learner=steps, minibatch_size=128, num_epochs=2)
        .debugging(seed=options.seed)
    )


def main():
    """Train, print the mean returns of the agents, and save a checkpoint."""
    parser = make_parser(
        __doc__, scenes="apartment_0", env_runners=0, num_envs=4, rollout=100, frames=20_000, episode_steps=100,
        out="runs/rllib_worlds",
    )  # fmt: skip
    parser.add_argument("--agents", type=int, default=2, help="agents in each world, an environment of RLlib")
    parser.add_argument("--own-policies", action="store_true", help="one policy per agent instead of a shared one")
    options = parser.parse_args()
    connect(options)
    train(make_config(options), options)


if __name__ == "__main__":
    main()
