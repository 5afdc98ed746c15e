"""PPO of RLlib with agents by name, who share a policy or have one each: python examples/rllib_worlds.py --help."""

import argparse

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune import register_env

from gym_batchnav.adapters.rllib import make_world


def make_config(options):
    """Return RLlib's PPO on worlds of several agents."""
    register_env("batchnav_world", make_world)
    names = [f"agent_{index}" for index in range(options.agents)]
    own = {name: name if options.own_policies else "shared" for name in names}
    keywords = {
        "agents_per_world": options.agents,
        "scenes": options.scenes,
        "max_episode_steps": options.episode_steps,
    }
    return (
        PPOConfig()
        .environment("batchnav_world", env_config={"id": "BatchNav/PointNavScan-v0", **keywords})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=options.worlds, rollout_fragment_length=options.rollout)
        .multi_agent(policies=set(own.values()), policy_mapping_fn=lambda agent, *_, **__: own[agent])
        .learners(num_learners=0)  # learn in this process
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .training(train_batch_size_per_learner=options.worlds * options.rollout, minibatch_size=128, num_epochs=2)
        .debugging(seed=options.seed)
    )


def main():
    """Train, and print the mean returns of the agents."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--scenes", default="apartment_0", help="training scenes; also a file or folder")
    parser.add_argument("--agents", type=int, default=2, help="agents in each world")
    parser.add_argument("--worlds", type=int, default=4, help="worlds")
    parser.add_argument("--rollout", type=int, default=100, help="steps per world and update")
    parser.add_argument("--frames", type=int, default=20_000, help="steps, summed over worlds")
    parser.add_argument("--episode-steps", type=int, default=100, help="actions after which an episode is truncated")
    parser.add_argument("--own-policies", action="store_true", help="one policy per agent instead of a shared one")
    parser.add_argument("--seed", type=int, default=1, help="seed of scenes, episodes and network")
    options = parser.parse_args()

    ray.init(num_cpus=1, include_dashboard=False, logging_level="error")
    algorithm = make_config(options).build_algo()
    frames = 0
    while frames < options.frames:
        counted = algorithm.train()["env_runners"]
        frames = int(counted["num_env_steps_sampled_lifetime"])
        returns = counted.get("agent_episode_returns_mean", {})
        summary = ", ".join(f"{name} {value:.3f}" for name, value in sorted(returns.items()))
        print(f"{frames} frames, {counted.get('num_episodes_lifetime', 0):.0f} episodes: {summary}", flush=True)
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
