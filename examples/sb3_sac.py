"""SAC or TD3 of Stable-Baselines3 with velocities as actions, evaluated in homes that were not trained on.

pip install "gym-batchnav[sb3]"

On cores that other programs use, set OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive; otherwise torch may nearly stand still.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise

from gym_batchnav import Episodes, VelocityActions
from gym_batchnav.adapters.sb3 import NavEvalCallback, SB3VecEnv, evaluate_once

HOMES = "procedural:{}?area=28&closed_doors=0&triangles=8000"
# Faster than a real robot, so that episodes are short. STOP is called at less than a tenth of full speed.
ACTIONS = VelocityActions(
    linear_range=(0.0, 0.5), angular_range_deg=(-45.0, 45.0), min_linear=0.05, min_angular_deg=4.5
)


def make_env(num_envs: int, scenes: str, **keywords) -> SB3VecEnv:
    """Make a batch whose observations are a depth scan of 64 numbers and the goal."""
    keywords = {"actions": ACTIONS, "max_episode_steps": 100, **keywords}
    return SB3VecEnv.make(num_envs, "BatchNav/PointNavScan-v0", scenes=scenes, **keywords)


def make_model(algorithm: str, env: SB3VecEnv, gradient_steps: int, seed: int) -> SAC | TD3:
    """Make a model that trains ``gradient_steps`` times after each step of the batch."""
    keywords = dict(
        gamma=0.98, learning_rate=1e-3, batch_size=256, buffer_size=300_000, learning_starts=50 * env.num_envs,
        train_freq=1, gradient_steps=gradient_steps, policy_kwargs={"net_arch": [256, 256]}, seed=seed,
    )  # fmt: skip
    if algorithm == "sac":
        return SAC("MlpPolicy", env, ent_coef="auto_0.1", **keywords)
    exploration = NormalActionNoise(np.zeros(2), np.full(2, 0.2))
    return TD3("MlpPolicy", env, action_noise=VectorizedActionNoise(exploration, env.num_envs), **keywords)


def main() -> None:
    """Train with evaluations in between, and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--algorithm", choices=("sac", "td3"), default="sac")
    parser.add_argument("--timesteps", type=int, default=150_000, help="environment steps, summed over environments")
    parser.add_argument("--num-envs", type=int, default=32, help="environments in the batch")
    parser.add_argument("--gradient-steps", type=int, default=4, help="per step of the batch")
    parser.add_argument("--scenes", default=HOMES.format("0-7"), help="training scenes; also a file or folder")
    parser.add_argument("--held-out", default=HOMES.format("100-103"), help="evaluation scenes")
    parser.add_argument("--evaluations", type=int, default=5, help="number of evaluations")
    parser.add_argument("--out", type=Path, default=Path("runs/sb3_sac"), help="folder for the results")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    env = make_env(args.num_envs, args.scenes)
    held_out = make_env(50, args.held_out, episodes=Episodes(order="once", count=50))
    model = make_model(args.algorithm, env, args.gradient_steps, args.seed)
    before = evaluate_once(model, held_out)
    print(f"before: success {before['success'].mean():.2f}, SPL {before['spl'].mean():.2f}", flush=True)
    calls = max(args.timesteps // args.num_envs // args.evaluations, 1)
    evaluation = NavEvalCallback(held_out, eval_freq=calls, log_path=str(args.out), verbose=1)
    started = time.perf_counter()
    model.learn(args.timesteps, callback=evaluation)
    minutes = (time.perf_counter() - started) / 60
    model.save(args.out / "model")
    after = evaluate_once(model, held_out)
    print(f"after {minutes:.1f} min: success {after['success'].mean():.2f}, SPL {after['spl'].mean():.2f}")
    env.close()
    held_out.close()


if __name__ == "__main__":
    main()
