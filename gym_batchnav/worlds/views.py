"""The bodies that agents see: each other and those that no policy moves."""

from __future__ import annotations

import numpy as np

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.scene.categories import SemanticIds, number_of
from gym_batchnav.state import AgentState
from gym_batchnav.worlds.api import HIDDEN, shape_number
from gym_batchnav.worlds.worlds import Worlds

FIRST_BODY_ID = 1_000_000  # the sensor "semantic" draws body b of a world as this plus b


class WorldViews:
    """The bodies in the views of agents, which see all bodies of their worlds but their own.

    Args:
        worlds: The worlds.
        navmeshes: The navmeshes of the slots, which give the visible floor under a body.
        semantic_ids: What the sensor ``"semantic"`` draws; with numbers by category, the categories of bodies are their
            shapes.

    Attributes:
        library: The shapes, for renderers.
    """

    def __init__(self, worlds: Worlds, navmeshes: NavMeshAgents, semantic_ids: SemanticIds) -> None:
        from gym_batchnav.worlds.shapes import shapes  # imports trimesh, which takes 0.7 s

        self.library = SceneLibrary.from_scenes(shapes())
        self._worlds = worlds
        self._navmeshes = navmeshes
        names = worlds.shapes
        self._is_drawn = np.array([name != HIDDEN for name in names])
        self._slot = np.array([0 if name == HIDDEN else shape_number(name, body) for body, name in enumerate(names)])
        if semantic_ids.numbers is None:
            ids = np.arange(FIRST_BODY_ID, FIRST_BODY_ID + len(names))
        else:
            numbers = dict(semantic_ids.numbers)
            ids = np.array([number_of(name, numbers) or 0 for name in names])
        self._object_id = ids.astype(np.int32)

    def bodies(self, agents: AgentState, indices: np.ndarray, num_cameras: int = 1) -> BodyViews:
        """Return the bodies in the views of agents.

        Args:
            agents: All agents.
            indices: [n] int, the agents that look.
            num_cameras: C; the views are those of all these agents through one camera, then through the next.
        """
        worlds = self._worlds
        worlds.copy_agents(agents)
        state = worlds.state
        world, agent = np.divmod(indices, worlds.num_agents)
        shown = state.present[world] & self._is_drawn
        shown[np.arange(len(indices)), agent] = False
        view, body = np.nonzero(shown)
        world = world[view]
        pose = self._poses(agents)[world, body]
        views = (view + len(indices) * np.arange(num_cameras)[:, None]).ravel()
        return BodyViews(
            views,
            np.tile(self._slot[body], num_cameras),
            np.tile(pose, (num_cameras, 1, 1)),
            np.tile(self._object_id[body], num_cameras),
        )

    def _poses(self, agents: AgentState) -> np.ndarray:
        """Return the poses [W, B, 4, 4] float32 of all bodies, on the visible floor."""
        state = self._worlds.state
        shape = state.present.shape
        slots = np.repeat(agents.slot[:: self._worlds.num_agents], shape[1])
        floor = self._navmeshes.visible_floor(slots, state.polygon.ravel(), state.position.reshape(-1, 3))
        pose = np.zeros((*shape, 4, 4), np.float32)
        cos = np.cos(state.heading)
        sin = np.sin(state.heading)
        pose[..., 0, 0] = cos
        pose[..., 0, 2] = sin
        pose[..., 2, 0] = -sin
        pose[..., 2, 2] = cos
        pose[..., 1, 1] = pose[..., 3, 3] = 1
        pose[..., :3, 3] = floor.reshape(*shape, 3)
        return pose
