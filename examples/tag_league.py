"""Self-play in BatchNav/Tag-v0: runners and chasers learn in turn against all players of the past, and are rated.

Every generation trains a chaser against the runners of all generations before, then a runner against the chasers. At
the end all players meet in homes that nobody trained in, and a table shows their ratings and how often each chaser
catches each runner.

pip install "gym-batchnav[sb3]"
"""

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

from gym_batchnav import DiscreteActions
from gym_batchnav.adapters.sb3 import SB3VecEnv
from gym_batchnav.geometry import polar_goals
from gym_batchnav.task.sensors import WalkScan
from gym_batchnav.worlds.selfplay import SelfPlay, ratings

ROLES = {"runner": (True, False), "chaser": (False, True)}
HOMES = "procedural:{}?area=60&closed_doors=0&triangles=8000"


class RandomPlayer:
    """Acts at random; the players of generation 0."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def __call__(self, observation):
        return self._rng.integers(1, 4, len(observation["players"]))


class Player:
    """Samples actions of a trained model."""

    def __init__(self, path):
        self._policy = PPO.load(path, device="cpu").policy

    def __call__(self, observation):
        return self._policy.predict(observation)[0]


class Pathfinder:
    """A chaser that knows the scene: walks along the shortest path to the runner. It is not rated."""

    def __init__(self, envs):
        self._envs = envs.unwrapped

    def __call__(self, observation):
        position = self._envs.agents.position
        corner = position[1::2].copy()
        for world, (runner, chaser) in enumerate(position.reshape(-1, 2, 3)):
            path = self._envs.navmesh_of(2 * world).shortest_path(chaser, runner)
            corner[world] = path[1] if len(path) > 1 else runner
        angle = polar_goals(position[1::2], self._envs.agents.heading[1::2], corner)[:, 1]
        return np.where(np.abs(angle) < np.radians(16), 1, np.where(angle > 0, 2, 3))


def make_worlds(num_worlds, scenes, **keywords):
    """Make a batch of worlds with a chaser and a runner each, who know where the other is and feel walls around."""
    return gymnasium.make_vec(
        "BatchNav/Tag-v0", num_envs=2 * num_worlds, scenes=scenes, sensors=(WalkScan(),), episodes=200,
        actions=DiscreteActions(turn_angle_deg=30), max_episode_steps=50, **keywords,
    )  # fmt: skip


def train(role, opponents, start, args, path):
    """Train a player against opponents, from the model of its last generation if there is one, and save it."""
    opponents = [*opponents, *opponents[-1:] * (len(opponents) - 2)]  # the newest one plays in half of the worlds
    worlds = make_worlds(args.num_worlds, args.scenes, autoreset_mode="same_step")
    env = VecMonitor(SB3VecEnv(SelfPlay(worlds, ROLES[role], opponents)))
    settings = {"n_steps": 32, "batch_size": 256, "n_epochs": 6, "learning_rate": 5e-4, "ent_coef": 0.01}
    settings.update(gae_lambda=0.9, policy_kwargs={"net_arch": [128, 128]}, device="cpu", seed=args.seed)
    if start is None:
        model = PPO("MultiInputPolicy", env, **settings)
    else:
        model = PPO.load(start, env=env, device="cpu")
    model.learn(args.timesteps)
    model.save(path)
    env.close()


def catches(chaser, runner, envs, seed):
    """Return how many episodes a chaser wins: one in every world of a batch."""
    torch.manual_seed(seed)
    observation, info = envs.reset(seed=seed)
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
    return int(caught[1::2].sum())


def meet(league, args):
    """Let every chaser play every runner.

    Returns:
        The games won [P, P] by the row's player, chasers first; and the games that Pathfinder wins against each runner.
    """
    envs = make_worlds(args.matches, args.held_out, autoreset_mode="disabled")
    count = len(league["chaser"])
    wins = np.zeros((2 * count, 2 * count))
    for i, chaser in enumerate(league["chaser"]):
        for j, runner in enumerate(league["runner"]):
            wins[i, count + j] = catches(chaser, runner, envs, args.seed + 1000)
            wins[count + j, i] = args.matches - wins[i, count + j]
    found = [catches(Pathfinder(envs), runner, envs, args.seed + 1000) for runner in league["runner"]]
    envs.close()
    return wins, np.array(found)


def main():
    """Train the generations, let all players meet, and write ratings.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=3)
    parser.add_argument("--timesteps", type=int, default=80_000, help="of each player in each generation")
    parser.add_argument("--num-worlds", type=int, default=64)
    parser.add_argument("--matches", type=int, default=600, help="episodes between each chaser and each runner")
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
            league[role].append(Player(path))
            print(
                f"generation {generation}: trained a {role} against {len(league[other])} players of the other side",
                flush=True,
            )
    wins, found = meet(league, args)
    rated = ratings(wins)
    count = args.generations + 1
    print("chaser: rating, and share of runners 0, 1, ... that it catches")
    for i in range(count):
        shares = "  ".join(f"{wins[i, count + j] / args.matches:.2f}" for j in range(count))
        print(f"chaser {i}: {rated[i]:+6.0f}   {shares}")
    print("shortest path:     " + "  ".join(f"{share:.2f}" for share in found / args.matches))
    print("runner: rating")
    for j in range(count):
        print(f"runner {j}: {rated[count + j]:+6.0f}")
    figures = {"wins": wins.tolist(), "ratings": rated.tolist(), "generations": args.generations}
    figures["shortest_path"] = (found / args.matches).tolist()
    (args.out / "ratings.json").write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
