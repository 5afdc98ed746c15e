"""Pictures through lenses, and normals and points, against closed forms."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import rooms
from quads import Quad, checkerboard, scene_of, wall
from rays import AHEAD, METRES, pixel_rays, random_views, render

from gym_batchnav.geometry import Camera
from gym_batchnav.lenses import Beams, Cylindrical, DoubleSphere, Equirectangular, Fisheye, Orthographic
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import SENSOR_FORMATS, make_renderer, ray_table_bytes
from gym_batchnav.render.optics import camera_optics, ray_table

LENSES = [
    Equirectangular(), Equirectangular(200, 70), Cylindrical(), Fisheye(180), Fisheye(360),
    DoubleSphere(-0.2, 0.6, 0.2), Orthographic(0.4), Beams(360, (20, 5, 0, -5, -20)),
]  # fmt: skip
LOW = np.array([-4.0, -1.0, -3.0])
HIGH = np.array([4.0, 2.0, 3.0])
ROOM = rooms.scene_of("room", rooms.box(tuple(LOW), tuple(HIGH), inward=True))


def world_rays(camera: Camera, view: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Origins and directions [H, W, 3] of a camera's rays in the world, NaN where there is none."""
    if camera.lens is None:
        eye, direction = pixel_rays(camera, view)
        return np.broadcast_to(eye, direction.shape), direction
    y, x = np.mgrid[: camera.height, : camera.width] + 0.5
    direction, origin = camera.lens.rays(x, y, camera.width, camera.height)
    rotation = view[:3, :3].astype(np.float64)
    eye = -rotation.T @ view[:3, 3]
    offset = np.concatenate([origin, np.zeros((*x.shape, 1))], axis=-1)
    return eye + offset @ rotation, (direction * [1, 1, -1]) @ rotation


def exits(origin: np.ndarray, direction: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum((LOW - origin) / direction, (HIGH - origin) / direction).min(axis=-1)


@pytest.mark.parametrize("lens", LENSES, ids=repr)
def test_a_room_from_inside(lens):
    camera = Camera(33, 18, lens=lens, normalize_depth=False, max_depth=100, near=1e-3)
    views = random_views(0, 6, 0.4)
    seen = render(ROOM, views, camera, ("depth", "normals", "points"))
    alone = render(ROOM, views, camera)
    np.testing.assert_array_equal(alone["depth"], seen["depth"])
    for n, view in enumerate(views):
        origin, direction = world_rays(camera, view)
        distance = exits(origin, direction)
        none = np.isnan(direction).any(axis=-1)
        assert (none.any() and not none.all()) == isinstance(lens, (Fisheye, DoubleSphere))
        np.testing.assert_allclose(seen["depth"][n, ..., 0], np.where(none, 100, distance), rtol=1e-4, atol=1e-4)
        points = np.where(none[..., None], 0, origin + distance[..., None] * direction)
        np.testing.assert_allclose(seen["points"][n], points, atol=1e-3)
        walls = np.abs(np.stack([points - LOW, HIGH - points]))  # [2, H, W, 3] distances of the hit points
        away_from_edges = (np.sort(np.moveaxis(walls, 0, -1).reshape(*none.shape, 6))[..., 1] > 1e-2) & ~none
        inward = np.where(walls[0] < walls[1], 1, -1) * (walls.min(axis=0) == walls.min(axis=(0, -1))[..., None])
        expected = inward @ view[:3, :3].T
        np.testing.assert_allclose(seen["normals"][n][away_from_edges], expected[away_from_edges], atol=1e-4)
        assert not seen["normals"][n][none].any()


@pytest.mark.parametrize("masked", [False, True])
def test_footprints_near_the_centre_are_those_of_a_pinhole_with_such_pixels(masked):
    texture = checkerboard(64)
    if masked:
        texture[..., 3] = np.where(texture[..., 0] > 0, 255, 60)
    board = wall(8.0, half=8, texture=texture, repeats=(3, 3), masked=masked)
    pixel = 2 / 64  # radians
    scene = scene_of(board)
    pinhole = render(scene, AHEAD, Camera(64, 64, lit=False), ("rgb",))["rgb"][0]
    for lens in (Equirectangular(np.degrees(64 * pixel), np.degrees(64 * pixel)), Fisheye(np.degrees(64 * pixel))):
        seen = render(scene, AHEAD, Camera(64, 64, lens=lens, lit=False), ("rgb",))["rgb"][0]
        difference = np.abs(seen.astype(int) - pinhole)[28:36, 28:36]
        assert difference.mean() < 6, lens
    fine = render(scene, AHEAD, Camera(64, 64, lens=Fisheye(4), lit=False), ("rgb",))["rgb"][0]
    assert np.ptp(fine[28:36, 28:36].astype(int)) > 100 > np.ptp(pinhole[28:36, 28:36].astype(int)) or masked


@pytest.mark.parametrize("masked", [False, True])
def test_parallel_rays_show_the_same_at_any_distance(masked):
    texture = checkerboard(32)
    if masked:
        texture[..., 3] = np.where(texture[..., 0] > 0, 255, 60)
    boards = [wall(distance, half=4, texture=texture, repeats=(2, 2), masked=masked) for distance in (2.0, 32.0)]
    camera = Camera(40, 40, lens=Orthographic(5.3), lit=False)
    near, far = (render(scene_of(board), AHEAD, camera, ("rgb", "semantic")) for board in boards)
    assert 0 < np.mean(near["semantic"]) < 1 if masked else near["semantic"].all()
    np.testing.assert_array_equal(near["semantic"], far["semantic"])
    np.testing.assert_allclose(near["rgb"].astype(int), far["rgb"], atol=1)
    assert len(np.unique(near["rgb"])) > 2


def test_a_pinhole_draws_the_same_with_and_without_a_table_to_the_bit():
    texture = checkerboard(16)
    scene = scene_of(
        wall(3.0, half=1, texture=texture, repeats=(3, 3)), Quad((-9, -1, 9), (18, 0, 0), (0, 0, -18), texture),
        Quad((-1, -1, -2), (1, 0, 0), (0, 1, 0), np.dstack([texture[..., :3], texture[..., 0]]), masked=True),
    )  # fmt: skip
    camera = replace(METRES, width=37, height=22)
    views = random_views(3, 10, 0.3)
    seen = render(scene, views, camera, tuple(SENSOR_FORMATS))
    for sensor, image in render(scene, views, camera, ("rgb", "depth", "semantic")).items():
        np.testing.assert_array_equal(seen[sensor], image)
    hit = seen["semantic"] > 0
    poses = np.linalg.inv(views.astype(np.float64))
    in_camera = np.einsum("nij,nhwj->nhwi", views[:, :3, :3], seen["points"] - poses[:, None, None, :3, 3])
    np.testing.assert_allclose(-in_camera[..., 2:][hit], seen["depth"][hit], rtol=1e-3)
    assert (np.einsum("nhwi,nhwi->nhw", in_camera, seen["normals"])[hit[..., 0]] < 0).all()  # towards the viewer


def test_outside_of_the_circle_nothing_is_hit():
    camera = Camera(16, 16, lens=Fisheye(90), depth_miss="zero")
    seen = render(ROOM, AHEAD, camera, tuple(SENSOR_FORMATS))
    for sensor, image in seen.items():
        assert not image[0, 0, 0].any() and image[0, 8, 8].any(), sensor
    assert (render(ROOM, AHEAD, replace(camera, depth_miss="far"))["depth"][0, 0, 0] == 1).all()


@pytest.mark.opengl
@pytest.mark.parametrize(
    ("camera", "sensors", "named"),
    [(Camera(lens=Fisheye()), ("depth",), "Fisheye"), (Camera(), ("depth", "normals"), "'normals'")],
)
def test_opengl_refuses_by_name_what_it_cannot_draw(camera, sensors, named):
    renderer = make_renderer("opengl", SceneLibrary.from_scenes([ROOM]))
    with pytest.raises(ValueError, match=f"{named}.*renderer='embree'"):
        renderer.target(camera, sensors)
    renderer.close()


@pytest.mark.parametrize("lens", [None, Fisheye(180)], ids=repr)
def test_the_memory_of_a_table_of_rays_is_known_before_it_is_made(lens):
    camera = Camera(256, 128, lens=lens)
    kept, meanwhile = ray_table_bytes(camera)
    optics = camera_optics(camera, ("rgb",))
    ray_table(camera, optics)
    tracemalloc.start()
    table = ray_table(camera, optics)
    found, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert table.rays.nbytes + table.axes.nbytes == kept and kept <= found
    assert kept + meanwhile <= peak <= 1.6 * (kept + meanwhile)


def test_normals_face_the_viewer_on_both_sides_of_a_surface():
    front = wall(2.0)
    back = Quad((-50, -50, -2), (0, 100, 0), (100, 0, 0))
    for quad in (front, back):
        normals = render(scene_of(quad), AHEAD, Camera(8, 8), ("normals",))["normals"]
        np.testing.assert_allclose(normals, np.broadcast_to([0, 0, 1], normals.shape), atol=1e-6)
