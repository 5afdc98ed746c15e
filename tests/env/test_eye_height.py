"""The camera is ``eye_height`` above the visible floor below it."""

from __future__ import annotations

import numpy as np
import pytest
from rays import highest_surface
from rooms import box, box_room, scene_of

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera, camera_to_world
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer, cached_drops
from gym_batchnav.library.sources import assets_dir
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.scene.load import load_scene
from gym_batchnav.scene.scene import Scene

POINTS = 100
EYE = 1.25  # metres
SHARED = ("aws_small_house/aws_small_house.glb", "aws_bookstore/aws_bookstore.glb", "godot/living_room.glb")
SHARED += ("godot/room.glb", "drake_livingroom/drake_furnished_living_room.glb")


def spread_out(scene: Scene, **keywords: object) -> BatchNavEnv:
    """Make a batch with agents at random navigable points of a scene."""
    env = BatchNavEnv(POINTS, scenes=scene, episodes=20, **keywords)
    env.reset(seed=0)
    points = env.navmesh_of(0).random_points(POINTS, np.random.default_rng(1))
    env.set_pose(points, np.zeros(POINTS))
    return env


@pytest.mark.parametrize(
    "name", ["apartment_0", *(pytest.param(f"apartment_{index}", marks=pytest.mark.long) for index in range(1, 8))]
)
def test_in_the_shipped_apartments(name: str) -> None:
    check(load_scene(assets_dir() / f"{name}.glb"))


@pytest.mark.data
@pytest.mark.parametrize("name", SHARED)
@pytest.mark.slow
def test_in_scenes_of_others(name: str, data_dir) -> None:
    check(load_scene(data_dir / "scenes" / name))


def check(scene: Scene) -> None:
    """Fail unless 99% of the heights of eyes above the first surface below are ``EYE`` within 2 cm.

    The others are within half a node's distance (1.25 cm) of an edge: of a tread, of something small on the floor, or
    of furniture that the simplified outline of the navmesh reaches into.
    """
    env = spread_out(scene, sensors=())
    eyes = camera_to_world(env.cameras.views(env.agents))[:, :3, 3].astype(np.float64)
    env.close()
    corners = scene.vertices[scene.triangles]
    heights = np.array([eye[1] - highest_surface(corners, eye) for eye in eyes])
    wrong = ~(np.abs(heights - EYE) <= 0.02)  # also NaN
    assert wrong.mean() <= 0.01, np.round(heights[wrong], 3)


@pytest.mark.parametrize("cell_height", [0.2, 0.13])
def test_in_a_level_room_it_is_exact(cell_height: float) -> None:
    """The floor is at -0.07 m, where rounding to voxels matters, and has a rug 1 cm thick."""
    room = box((-3, -0.07, -3), (3, 2.5, 3), inward=True)
    level = scene_of("level", room, box((0.5, -0.07, -3), (3, -0.06, 3)))
    env = spread_out(level, sensors=(), navmesh_settings=NavMeshSettings(cell_height=cell_height))
    x = env.agents.position[:, 0]
    away = np.abs(x - 0.5) > 0.03  # from the edge of the rug
    floor = np.where(x > 0.5, -0.06, -0.07)
    assert (env.agents.position[:, 1] - floor > 0.02).all()  # the navmesh itself is higher
    eyes = camera_to_world(env.cameras.views(env.agents))[:, 1, 3]
    np.testing.assert_allclose((eyes - floor)[away], EYE, atol=1e-3)
    env.close()


def test_every_picture_is_taken_from_there() -> None:
    camera = Camera(16, 16, hfov_deg=120, normalize_depth=False, max_depth=20)
    env = spread_out(
        box_room(), sensors=("depth",), camera=camera, renderer="embree", autoreset_mode="same_step",
        max_episode_steps=2,
    )  # fmt: skip
    observation = env.step(np.full(POINTS, 2))[0]["depth"]
    check_depth(observation, camera)
    *_, info = env.step(np.full(POINTS, 2))  # the time limit
    check_depth(info["final_obs"]["depth"], camera)
    mask = np.arange(POINTS) == 3
    check_depth(env.reset(options={"reset_mask": mask})[0]["depth"], camera)
    env.close()


def check_depth(depth: np.ndarray, camera: Camera) -> None:
    """Check that the lowest row of pixels sees the level floor 1.25 m below the eye, unless a wall is nearer."""
    row = camera.height - 1
    below = (row + 0.5 - camera.height / 2) / (camera.height / 2) * camera.tan_half_height
    floor = EYE / below
    lowest = depth[:, row, :, 0]
    assert (lowest <= floor + 1e-3).all()
    assert (np.abs(lowest - floor) < 1e-3).mean() > 0.5


def test_drops_are_cached_and_a_damaged_entry_is_measured_again(tmp_path, monkeypatch) -> None:
    scene = box_room()
    cache = DiskCache(tmp_path)
    navmesh = NavigationPreparer(cache=cache).navmesh(scene)
    made = cached_drops(scene, navmesh, cache)
    stored = {}
    monkeypatch.setattr(DiskCache, "store", lambda self, key, arrays: stored.update({key: arrays}))
    for name, expected in cached_drops(scene, navmesh, cache)._asdict().items():
        np.testing.assert_array_equal(getattr(made, name), expected)
    assert not stored
    damaged = {**made._asdict(), "size": np.full_like(made.size, 9999)}
    monkeypatch.setattr(DiskCache, "load", lambda self, key: damaged)
    np.testing.assert_array_equal(cached_drops(scene, navmesh, cache).drop, made.drop)
    assert len(stored) == 1
