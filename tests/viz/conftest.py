"""Fixtures of tests of pictures."""

from contextlib import ExitStack, closing

import pytest
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import make_renderer


@pytest.fixture
def make(opened):
    """Return a function that makes small batches in one room; they are closed after the test."""

    def make_env(num_envs=3, **keywords):
        return opened(BatchNavEnv(num_envs, **{"scenes": box_room(), "episodes": 20, "renderer": "embree", **keywords}))

    return make_env


@pytest.fixture(scope="session")
def room():
    """A room of 8 m by 6 m with a wall along x = 0 that ends at z = 1.5 and a crate at (1.5..2.5, -1..0)."""
    return box_room()


@pytest.fixture(scope="session")
def navmesh(room):
    return NavMesh.build(room.vertices, room.triangles)


@pytest.fixture
def renderer_of():
    """Return a function that makes a renderer of one scene; it is closed after the test."""
    with ExitStack() as stack:
        yield lambda scene: stack.enter_context(closing(make_renderer("embree", SceneLibrary.from_scenes([scene]))))
