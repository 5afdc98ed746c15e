"""PPO of Stable-Baselines3 that all agents of many worlds share: python examples/sb3_worlds.py --help."""

import argparse

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from gym_batchnav.adapters.sb3 import SB3VecEnv
from gym_batchnav.adapters.sb3_worlds import WorldDictRolloutBuffer


def main():
    """Train blind agents, and print the means of the last episodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="BatchNav/Rendezvous-v0", help="id of a task, with Dict observations")
    parser.add_argument("--scenes", default="apartment_0", help="training scenes; also a file or folder")
    parser.add_argument("--worlds", type=int, default=32, help="worlds in the batch")
    parser.add_argument("--agents", type=int, default=2, help="agents in each world")
    parser.add_argument("--timesteps", type=int, default=300_000, help="environment steps, summed over agents")
    parser.add_argument("--episode-steps", type=int, default=100, help="actions after which an episode is truncated")
    parser.add_argument("--seed", type=int, default=1, help="seed of scenes, episodes and network")
    options = parser.parse_args()

    env = SB3VecEnv.make(
        options.worlds * options.agents,
        options.env,
        agents_per_world=options.agents,
        scenes=options.scenes,
        sensors=(),
        max_episode_steps=options.episode_steps,
    )
    model = PPO(
        "MultiInputPolicy",
        VecMonitor(env),
        n_steps=64,
        batch_size=512,
        n_epochs=4,
        ent_coef=0.01,
        seed=options.seed,
        rollout_buffer_class=WorldDictRolloutBuffer,
        rollout_buffer_kwargs={"env": env},
    )
    model.learn(options.timesteps)
    episodes = model.ep_info_buffer
    print(f"{model.num_timesteps} steps, the last {len(episodes)} episodes of agents:")
    print(f"return {np.mean([one['r'] for one in episodes]):.3f}, length {np.mean([one['l'] for one in episodes]):.1f}")
    env.close()


if __name__ == "__main__":
    main()
