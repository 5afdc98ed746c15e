"""One world of agents through PettingZoo: python examples/pettingzoo_world.py --help."""

import argparse

from gym_batchnav.adapters.pettingzoo import PettingZooEnv
from gym_batchnav.worlds.people import People


def main():
    """Play episodes, in which every second agent follows shortest paths and the others act at random."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--env", default="BatchNav/PointNav-v0", help="id of the task")
    parser.add_argument("--scenes", default="apartment_0", help="scenes; also a file or folder")
    parser.add_argument("--agents", type=int, default=4, help="agents in the world")
    parser.add_argument("--people", type=int, default=2, help="people who walk about")
    parser.add_argument("--episodes", type=int, default=3, help="episodes to play")
    parser.add_argument("--seed", type=int, default=1, help="seed of episodes and actions")
    options = parser.parse_args()

    people = (People(options.people),) if options.people else ()
    env = PettingZooEnv.make(options.agents, options.env, scenes=options.scenes, bodies=people, max_episode_steps=200)
    for index, name in enumerate(env.possible_agents):
        env.action_space(name).seed(options.seed + index)
    for episode in range(options.episodes):
        env.reset(seed=options.seed if episode == 0 else None)
        returns = dict.fromkeys(env.agents, 0.0)
        ends = {}
        while env.agents:
            shortest = env.batch.shortest_path_actions()
            actions = {}
            for index, name in enumerate(env.possible_agents):
                if name in env.agents:
                    actions[name] = shortest[index] if index % 2 == 0 else 1 + env.action_space(name).sample() % 3
            _, rewards, terminations, truncations, infos = env.step(actions)
            for name, reward in rewards.items():
                returns[name] += reward
                if terminations[name] or truncations[name]:
                    ends[name] = f"success {infos[name]['success']:d}, collisions {infos[name]['collisions_count']}"
        print(f"episode {episode}")
        for name, total in returns.items():
            print(f"  {name}: return {total:.2f}, {ends[name]}")
    env.close()


if __name__ == "__main__":
    main()
