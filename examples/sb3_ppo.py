"""PPO of Stable-Baselines3 on depth images and the goal, evaluated in homes that were not trained on.

pip install "gym-batchnav[sb3]", and moviepy for --video.
"""

import argparse
from pathlib import Path

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor, VecVideoRecorder

from gym_batchnav import Camera, Episodes
from gym_batchnav.adapters.sb3 import NavEvalCallback, SB3VecEnv, evaluate_once

HOMES = "procedural:{}?area=28&closed_doors=0&triangles=8000"


def make_env(num_envs: int, scenes: str, **keywords) -> SB3VecEnv:
    """Make a batch for SB3, whose own network takes images of at least 36 x 36 pixels."""
    camera = Camera(width=36, height=36)
    keywords = {"camera": camera, "max_episode_steps": 200, **keywords}
    return SB3VecEnv.make(num_envs, scenes=scenes, **keywords)


def main() -> None:
    """Train with evaluations in between, save, and film with --video."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--timesteps", type=int, default=600_000, help="environment steps, summed over environments")
    parser.add_argument("--num-envs", type=int, default=64, help="environments in the batch")
    parser.add_argument("--scenes", default=HOMES.format("0-7"), help="training scenes; also a file or folder")
    parser.add_argument("--held-out", default=HOMES.format("100-103"), help="evaluation scenes")
    parser.add_argument("--evaluations", type=int, default=6, help="number of evaluations")
    parser.add_argument("--video", action="store_true", help="film four agents at the end")
    parser.add_argument("--out", type=Path, default=Path("runs/sb3"), help="folder for the results")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    env = VecMonitor(make_env(args.num_envs, args.scenes), str(args.out / "episodes"), info_keywords=("spl",))
    held_out = make_env(50, args.held_out, episodes=Episodes(order="once", count=25))
    model = PPO(
        "MultiInputPolicy", env, n_steps=64, batch_size=1024, n_epochs=4, learning_rate=1e-3, ent_coef=0.01,
        seed=args.seed, tensorboard_log=str(args.out), verbose=1,
    )  # fmt: skip
    calls = max(args.timesteps // args.num_envs // args.evaluations, 1)
    evaluation = NavEvalCallback(held_out, eval_freq=calls, log_path=str(args.out), deterministic=False)
    model.learn(args.timesteps, callback=evaluation, log_interval=10)
    model.save(args.out / "model")
    episodes = evaluate_once(model, held_out, deterministic=False)
    print(f"held out: success {episodes['success'].mean():.2f}, SPL {episodes['spl'].mean():.2f}")
    env.close()
    held_out.close()
    if args.video:
        film(model, args.held_out, args.out)
    print(f"model, curves and evaluations are in {args.out}: tensorboard --logdir {args.out}")


def film(model: PPO, scenes: str, folder: Path, length: int = 100) -> None:
    """Record the views of four agents."""
    env = make_env(4, scenes, episodes=25, render_mode="rgb_array")
    env = VecVideoRecorder(env, str(folder), lambda step: step == 0, video_length=length, name_prefix="agents")
    observation = env.reset()
    for _ in range(length):
        actions, _ = model.predict(observation)
        observation, _, _, _ = env.step(actions)
    env.close()


if __name__ == "__main__":
    main()
