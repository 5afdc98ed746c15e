"""A drone that learns DroneNav: it imitates the shortest-path follower, then improves with PPO of Stable-Baselines3.

pip install "gym-batchnav[sb3]"

The imitation is DAgger: the drone flies by itself more and more, and learns what the follower would do where it gets.
It is evaluated in homes that were not trained on.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from stable_baselines3 import PPO

from gym_batchnav import Episodes
from gym_batchnav.adapters.sb3 import NavEvalCallback, SB3VecEnv, evaluate_once

HOMES = "procedural:{}?area=28&closed_doors=0&triangles=8000"
ID = "BatchNav/DroneNavScan-v0"


def make_env(num_envs: int, scenes: str, **keywords) -> SB3VecEnv:
    """Make a batch whose observations are depths all around, the goal and the velocity."""
    return SB3VecEnv.make(num_envs, ID, scenes=scenes, **{"max_episode_steps": 150, **keywords})


def make_model(env: SB3VecEnv, seed: int) -> PPO:
    """Make a policy of two layers, which acts like the follower and explores little."""
    policy = {"net_arch": [256, 256], "log_std_init": -1.0}
    return PPO(
        "MlpPolicy", env, n_steps=64, batch_size=1024, n_epochs=4, learning_rate=3e-4, gamma=0.98, gae_lambda=0.9,
        clip_range=0.1, ent_coef=0.0, policy_kwargs=policy, seed=seed,
    )  # fmt: skip


class Memory:
    """The last observations and the follower's actions there, in a ring.

    Args:
        size: Number of rows.
        num_values: Numbers in an observation.
        num_actions: Numbers in an action.
    """

    def __init__(self, size: int, num_values: int, num_actions: int) -> None:
        self.observations = torch.empty(size, num_values)
        self.actions = torch.empty(size, num_actions)
        self.written = 0

    def add(self, observations: np.ndarray, actions: np.ndarray) -> None:
        """Write rows in the place of the oldest."""
        rows = (self.written + np.arange(len(actions))) % len(self.actions)
        self.observations[rows] = torch.from_numpy(observations)
        self.actions[rows] = torch.from_numpy(actions)
        self.written += len(actions)

    def sample(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return random rows."""
        rows = torch.randint(min(self.written, len(self.actions)), (count,))
        return self.observations[rows], self.actions[rows]


def imitate(
    model: PPO,
    env: SB3VecEnv,
    timesteps: int,
    updates: int = 8,
    seed: int = 0,
    evaluate: Callable[[int], None] | None = None,
    evaluations: int = 5,
) -> None:
    """Train the policy to act as the follower would.

    Args:
        model: The model, whose policy is trained.
        env: The batch.
        timesteps: Environment steps, summed over environments.
        updates: Updates per step of the batch.
        seed: Chooses who acts.
        evaluate: Called after each part of the imitation with the environment steps so far.
        evaluations: Number of parts.
    """
    rng = np.random.default_rng(seed)
    memory = Memory(200_000, env.observation_space.shape[0], env.action_space.shape[0])
    optimizer = torch.optim.Adam(model.policy.parameters(), lr=5e-4)
    observation = env.reset()
    calls = max(timesteps // env.num_envs, 1)
    parts = [calls * part // evaluations for part in range(1, evaluations + 1)]
    losses = []
    started = time.perf_counter()
    for call in range(calls):
        expert = env.batch.shortest_path_actions()
        memory.add(observation, expert)
        follows = rng.random(env.num_envs) < 1 - 2 * call / calls  # in the second half nobody does
        own, _ = model.predict(observation)
        observation, *_ = env.step(np.where(follows[:, None], expert, own))
        for _ in range(updates):
            seen, wanted = memory.sample(1024)
            distribution = model.policy.get_distribution(seen)
            loss = (distribution.distribution.mean - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if call % max(calls // 10, 1) == 0:
            seconds = time.perf_counter() - started
            print(f"imitation {call / calls:4.0%}: error {np.mean(losses[-200:]):.4f}, {seconds:.0f} s", flush=True)
        if evaluate is not None and call + 1 in parts:
            evaluate((call + 1) * env.num_envs)


def main() -> None:
    """Imitate, train with evaluations in between, and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--imitation-timesteps", type=int, default=300_000, help="environment steps, all environments")
    parser.add_argument("--timesteps", type=int, default=1_000_000, help="environment steps of PPO, all environments")
    parser.add_argument("--num-envs", type=int, default=64, help="environments in the batch")
    parser.add_argument("--scenes", default=HOMES.format("0-15"), help="training scenes; also a file or folder")
    parser.add_argument("--held-out", default=HOMES.format("100-103"), help="evaluation scenes")
    parser.add_argument("--episodes", type=int, default=25, help="episodes in each evaluation scene")
    parser.add_argument("--evaluations", type=int, default=5, help="number of evaluations of either part")
    parser.add_argument("--out", type=Path, default=Path("runs/dronenav"), help="folder for the results")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    env = make_env(args.num_envs, args.scenes)
    held_out = make_env(50, args.held_out, episodes=Episodes(order="once", count=args.episodes))
    model = make_model(env, args.seed)
    env.seed(args.seed)
    curve = [report("before", model, held_out, 0)]
    if args.imitation_timesteps:
        imitate(
            model,
            env,
            args.imitation_timesteps,
            seed=args.seed,
            evaluate=lambda steps: curve.append(report("imitation", model, held_out, steps)),
            evaluations=args.evaluations,
        )
    if args.timesteps:
        calls = max(args.timesteps // args.num_envs // args.evaluations, 1)
        evaluation = NavEvalCallback(held_out, eval_freq=calls, log_path=str(args.out), verbose=1)
        model.learn(args.timesteps, callback=evaluation)
        curve.append(report("PPO", model, held_out, args.imitation_timesteps + model.num_timesteps))
    (args.out / "curve.json").write_text(json.dumps(curve))
    model.save(args.out / "model")
    env.close()
    held_out.close()


def report(part: str, model: PPO, held_out: SB3VecEnv, steps: int) -> dict[str, float]:
    """Print and return success and SPL in homes that were not trained on."""
    episodes = evaluate_once(model, held_out)
    figures = {"success": float(episodes["success"].mean()), "spl": float(episodes["spl"].mean())}
    print(f"{part}, {steps:,} steps: success {figures['success']:.2f}, SPL {figures['spl']:.2f}", flush=True)
    return {"steps": steps, **figures}


if __name__ == "__main__":
    main()
