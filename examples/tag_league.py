"""Self-play in BatchNav/Tag-v0: runners and chasers learn in turn against all players of the past, and are rated.

Every generation trains a chaser against the runners of all generations before, then a runner against the chasers. At
the end all players meet, and a table shows their ratings and how often each chaser catches each runner.

pip install "gym-batchnav[sb3]"
"""

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import gym_batchnav
from gym_batchnav.adapters.sb3 import SB3VecEnv
from gym_batchnav.worlds.league import ratings
from gym_batchnav.worlds.selfplay import SelfPlay

ROLES = {"runner": (True, False), "chaser": (False, True)}
HOMES = "procedural:{}?area=28&closed_doors=0&triangles=8000"


class RandomPlayer:
    """Acts at random; the players of generation 0."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def __call__(self, observation):
        return self._rng.integers(1, 4, len(observation["players"]))


class Player:
    """Samples actions of a trained model."""

    def __init__(self, path, seed):
        self._model = PPO.load(path, device="cpu")
        self._model.set_random_seed(seed)

    def __call__(self, observation):
        return self._model.predict({**observation, "depth": (observation["depth"] * 255 + 0.5).astype(np.uint8)})[0]


def make_worlds(num_worlds, scenes, autoreset_mode="same_step"):
    """Make a batch of worlds with a chaser and a runner each, who see a strip of depths."""
    return gymnasium.make_vec(
        "BatchNav/Tag-v0", num_envs=2 * num_worlds, scenes=scenes, sensors=("depth",), num_episodes=200,
        camera=gym_batchnav.Camera(width=36, height=36, hfov_deg=110), autoreset_mode=autoreset_mode,
        max_episode_steps=150,
    )  # fmt: skip


def train(role, opponents, start, args, path):
    """Train a player against opponents, from the model of its last generation if there is one, and save it."""
    env = VecMonitor(SB3VecEnv(SelfPlay(make_worlds(args.num_worlds, args.scenes), ROLES[role], opponents)))
    settings = {"n_steps": 64, "batch_size": 1024, "n_epochs": 4, "learning_rate": 7e-4, "ent_coef": 0.01}
    if start is None:
        model = PPO("MultiInputPolicy", env, seed=args.seed, **settings)
    else:
        model = PPO.load(start, env=env, device="cpu")
    model.learn(args.timesteps)
    model.save(path)
    env.close()


def catches(chaser, runner, args):
    """Return how many episodes a chaser won, and how many it played, in homes that nobody trained in."""
    envs = make_worlds(args.matches, args.held_out, "disabled")
    observation, info = envs.reset(seed=args.seed + 1000)
    done = np.zeros(envs.num_envs, bool)
    caught = np.zeros(envs.num_envs, bool)
    actions = np.zeros(envs.num_envs, int)
    while not done.all():
        for player, rows in ((runner, slice(0, None, 2)), (chaser, slice(1, None, 2))):
            actions[rows] = player({name: values[rows] for name, values in observation.items()})
        with envs.unwrapped.paused(done):
            observation, _, terminated, truncated, info = envs.step(actions)
        caught |= info["caught"] & ~done
        done |= terminated | truncated
    envs.close()
    return int(caught[1::2].sum()), args.matches


def main():
    """Train the generations, let all players meet, and write ratings.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--timesteps", type=int, default=200_000, help="of each player in each generation")
    parser.add_argument("--num-worlds", type=int, default=64)
    parser.add_argument("--matches", type=int, default=100, help="episodes between each chaser and each runner")
    parser.add_argument("--scenes", default=HOMES.format("0-7"), help="training scenes")
    parser.add_argument("--held-out", default=HOMES.format("100-103"), help="scenes of the matches")
    parser.add_argument("--out", type=Path, default=Path("runs/tag"), help="folder for models and ratings")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    league = {role: [RandomPlayer(args.seed)] for role in ROLES}
    last = dict.fromkeys(ROLES)
    for generation in range(1, args.generations + 1):
        for role, other in (("chaser", "runner"), ("runner", "chaser")):
            path = args.out / f"{role}_{generation}.zip"
            train(role, league[other], last[role], args, path)
            last[role] = path
            league[role].append(Player(path, args.seed))
            print(f"generation {generation}: trained a {role} against {len(league[other])} players of the other side")
    count = args.generations + 1
    wins = np.zeros((2 * count, 2 * count))  # chasers first
    for i, chaser in enumerate(league["chaser"]):
        for j, runner in enumerate(league["runner"]):
            won, played = catches(chaser, runner, args)
            wins[i, count + j] = won
            wins[count + j, i] = played - won
    rated = ratings(wins)
    print("chaser: rating, and share of runners 0, 1, ... that it catches")
    for i in range(count):
        shares = "  ".join(f"{wins[i, count + j] / args.matches:.2f}" for j in range(count))
        print(f"chaser {i}: {rated[i]:+6.0f}   {shares}")
    print("runner: rating")
    for j in range(count):
        print(f"runner {j}: {rated[count + j]:+6.0f}")
    figures = {"wins": wins.tolist(), "ratings": rated.tolist(), "generations": args.generations}
    (args.out / "ratings.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
