"""Score the shortest-path follower in every action space: episodes in the shipped apartments, with and without sliding.

python benchmarks/follower.py [--episodes-per-scene 125]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav import BatchNavEnv, DiscreteActions, VelocityActions
from gym_batchnav.actions.api import Actions
from gym_batchnav.env.config import Episodes
from gym_batchnav.episodes.habitat import write_episodes
from gym_batchnav.episodes.sampling import sample_episodes
from gym_batchnav.evaluation.agents import ShortestPathAgent
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.library.sources import shipped_scenes
from gym_batchnav.navmesh.mesh import NavMesh

KINDS: dict[str, str | Actions] = {
    "discrete": "discrete",
    "discrete, 30 degrees": DiscreteActions(turn_angle_deg=30),
    "velocity": "velocity",
    "velocity, 0.1 s": VelocityActions((0.0, 2.5), (-300.0, 300.0), time_step=0.1),
    "waypoint": "waypoint",
    "holonomic": "holonomic",
}


def sample_file(folder: Path, episodes_per_scene: int) -> Path:
    """Write episodes sampled by Habitat's rules for every shipped apartment, other than those that are shipped."""
    sampled = {}
    for index, (name, scene) in enumerate(shipped_scenes().items()):
        navmesh = NavMesh.load(scene.with_suffix(".navmesh"))
        sampled[f"{name}.glb"] = sample_episodes(navmesh, episodes_per_scene, np.random.default_rng([1, index]))
    path = folder / "episodes.json.gz"
    write_episodes(sampled, path)
    return path


def score(actions: str | Actions, episode_file: Path, **keywords: Any) -> dict[str, float]:
    """Run every episode once; return their number, and the means of success, SPL, steps and collisions."""
    keywords = {"num_envs": 250, "sensors": (), "episodes": Episodes(episode_file, order="once"), **keywords}
    env = BatchNavEnv(actions=actions, **keywords)
    episodes = evaluate(env, ShortestPathAgent())
    env.close()
    names = ("success", "spl", "num_steps", "collisions_count")
    return {"episodes": len(episodes), **{name: float(getattr(episodes, name).mean()) for name in names}}


def main() -> None:
    """Print one row per action space."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes-per-scene", type=int, default=125)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = sample_file(Path(folder), args.episodes_per_scene)
        print("| actions | walls | noise | episodes | success | SPL | steps | collisions |")
        print("|---|---|---|---|---|---|---|---|")
        for name, actions in KINDS.items():
            for sliding, noise in ((True, None), (False, None), (True, "locobot")):
                found = score(actions, file, sliding=sliding, actuation_noise=noise)
                print(
                    f"| {name} | {'slide' if sliding else 'stop'} | {noise or '-'} | {found['episodes']:,} | "
                    f"{found['success']:.3f} | {found['spl']:.3f} | {found['num_steps']:.0f} | "
                    f"{found['collisions_count']:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
