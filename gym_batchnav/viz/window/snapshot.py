"""Snapshots: what the window shows of a batch at one moment, copied by the thread that steps it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera, camera_to_world
from gym_batchnav.library.prepare import Navigation
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene
from gym_batchnav.viz.views import AgentViews

SENSORS = ("rgb", "depth", "semantic")  # the panes, whatever the agents' own sensors
MAX_AGENTS = 64  # drawn at once: the selected one and the first others of its scene
_WIDEST = 2.0  # tangent of half the field of view that is drawn of a wide camera


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The selected agent, its scene, and the other agents there."""

    scene: Scene  # not copied
    navigation: Navigation  # its navmesh and shortest paths, not copied
    picked: int  # the number of the selected agent
    indices: np.ndarray  # [M] int, the agents in this scene that are drawn, ``picked`` first
    position: np.ndarray  # [3] float32, metres, where the selected agent stands
    goal: np.ndarray  # [3] float32, metres, its goal
    poses: np.ndarray  # [M, 4, 4] float32, camera to world, in OpenGL's convention; see ``camera_to_world``
    fov: float  # vertical field of view of the camera, radians
    aspect: float  # width of its pictures divided by their height
    episode: int  # number that changes when the selected agent begins an episode
    facts: dict[str, str]  # rows of the table in the side panel
    pictures: dict[str, np.ndarray]  # [H, W, 3] uint8 by sensor, the view of the selected agent

    @property
    def navmesh(self) -> NavMesh:
        """The navmesh of the scene."""
        return self.navigation.navmesh


class Photographer:
    """Takes snapshots of a batch; all calls come from the thread that steps it."""

    def __init__(self, env: BatchNavEnv, size: int) -> None:
        self._env = env
        self._views = AgentViews(env, SENSORS, size, num_views=1)

    def take(self, picked: int) -> Snapshot:
        """Copy what is shown of a batch that has been reset, and draw the view of the agent that is picked."""
        env = self._env
        picked = min(max(picked, 0), env.num_envs - 1)
        agents = env.agents
        camera = env.cameras.rig.first
        slot = int(agents.slot[picked])
        others = np.flatnonzero(agents.slot == slot)
        drawn = self._views.of(np.array([picked]))
        indices = np.concatenate([[picked], others[others != picked]])[:MAX_AGENTS]
        return Snapshot(
            scene=env.library.scene(slot),
            navigation=env.simulator.navigation(slot),
            picked=picked,
            indices=indices,
            position=agents.position[picked].copy(),
            goal=env.episodes.goal[picked].copy(),
            poses=camera_to_world(env.cameras.views(agents, indices)),
            fov=_vertical_fov(camera),
            aspect=camera.width / camera.height,
            episode=int(env.episodes.count[picked]),
            facts=self._facts(picked),
            pictures={name: images[0] for name, images in drawn.items()},
        )

    def close(self) -> None:
        """Release the render target; idempotent."""
        self._views.close()

    def _facts(self, picked: int) -> dict[str, str]:
        env = self._env
        episodes = env.episodes
        rows = {
            "scene": env.scene_name(picked),
            "episode": env.episode_name(picked),
            "step": f"{episodes.num_steps[picked]} of {env.max_episode_steps}",
            "distance to goal": f"{episodes.distance[picked]:.2f} m",
            "walked": f"{episodes.path_length[picked]:.2f} m",
            "collisions": f"{episodes.num_collisions[picked]}",
        }
        rows["state"] = _state(env, picked)
        return rows


def _vertical_fov(camera: Camera) -> float:
    """Return the vertical field of view to draw, radians; another lens is drawn as a pinhole of ``hfov_deg``."""
    half_height = float(np.tan(np.radians(camera.hfov_deg) / 2)) * camera.height / camera.width
    return 2 * float(np.arctan(min(half_height, _WIDEST)))


def _state(env: BatchNavEnv, index: int) -> str:
    episodes = env.episodes
    if not episodes.valid[index]:
        return "no episode left"
    if not episodes.done[index]:
        return "under way"
    ended = "ended by STOP" if episodes.stopped[index] else "ended"
    success = env.components.measures.get("success")
    if success is None:
        return ended
    if success.measure(env.stepper.state)[index]:
        return f"{ended}: success"
    return f"{ended}: failure, {episodes.distance[index]:.2f} m from the goal"
