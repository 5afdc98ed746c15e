"""Compile the kernels that most tests use, so that parallel test processes find them on disk.

Two processes that meet the same kernel for the first time would both compile it, for about a minute in all. The
program takes a few seconds where the kernels are on disk already.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from rooms import box_room

from gym_batchnav import BatchNavEnv, Camera
from gym_batchnav.library.library import SceneLibrary


def main() -> None:
    """Build a navmesh, sample episodes, step and draw."""
    room = box_room()
    for sensors in (("depth",), ("rgb",), ("depth", "rgb", "semantic")):
        envs = BatchNavEnv(
            4,
            library=SceneLibrary.from_scenes([room]),
            sensors=sensors,
            camera=Camera(width=8, height=8),
            renderer="embree",
            autoreset_mode="same_step",
            num_episodes=20,
            max_episode_steps=3,
        )
        envs.reset(seed=0)
        for _ in range(4):
            envs.step(envs.shortest_path_actions())
        slot = int(envs.agents.slot[0])
        navmesh = envs.navmesh(slot)
        envs.close()
    points = navmesh.random_points(8, np.random.default_rng(0))
    navmesh.geodesic_distance(points, points[::-1])
    navmesh.move(points, points[::-1])
    navmesh.shortest_path(points[0], points[1])
    navmesh.distance_to_obstacle(points)
    navmesh.top_down_map(cell=0.1)


if __name__ == "__main__":
    main()
