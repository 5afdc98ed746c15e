"""Moving bodies are drawn as if they were part of the scene: the oracle is a scene with the bodies in place."""

import numpy as np
import pytest
from quads import Quad, checkerboard
from quads import scene_of as quad_scene
from rooms import box, box_room, scene_of

from gym_batchnav.geometry import Camera, look_at
from gym_batchnav.lenses import Beams, Equirectangular, Fisheye, Orthographic
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import SENSOR_FORMATS, make_renderer
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.scene.builder import Placed, compose

pytestmark = pytest.mark.filterwarnings("ignore:renderer='warp'")
SENSORS = ("depth", "rgb", "semantic")
NUM_VIEWS = 12
ID = 1_000_007
LENSES = [Equirectangular(), Fisheye(200), Orthographic(1.2), Beams(360, (20, 5, 0, -5, -20, -60)), None]
SHAPES = [
    scene_of("box", box((-0.2, 0.01, -0.2), (0.2, 1.5, 0.2))),
    quad_scene(
        Quad((-0.3, 0, 0), (0.6, 0, 0), (0, 1.2, 0), checkerboard(4), (2, 2)),
        Quad((0, 0, -0.3), (0, 0, 0.6), (0, 1.2, 0), checkerboard(4), (2, 2), masked=True),
    ),
]


def pose(x, z, angle):
    matrix = np.eye(4, dtype=np.float32)
    matrix[0, 0] = matrix[2, 2] = np.cos(angle)
    matrix[0, 2] = np.sin(angle)
    matrix[2, 0] = -np.sin(angle)
    matrix[:3, 3] = x, 0, z
    return matrix


def scattered(rng, count):
    return np.stack([pose(*rng.uniform((-3.5, -2.5, 0), (3.5, 2.5, 6))) for _ in range(count)])


def placed_and_moving(kinds, poses, num_views, ids):
    """The room with shapes in place, and the bodies that stand there in every view."""
    parts = [Placed(SHAPES[kind], one.astype(float)) for kind, one in zip(kinds, poses, strict=True)]
    bodies = BodyViews(
        np.repeat(np.arange(num_views), len(kinds)),
        np.tile(kinds, num_views),
        np.tile(poses, (num_views, 1, 1)),
        np.tile(np.array(ids, np.int32), num_views),
    )
    return compose("whole", [Placed(box_room(), np.eye(4)), *parts]), bodies


def draw(renderer, scenes, camera, views, bodies=None, slots=None, sensors=SENSORS):
    shapes = SceneLibrary.from_scenes(SHAPES)
    drawer = make_renderer(renderer, SceneLibrary.from_scenes(scenes), bodies=shapes)
    slots = np.zeros(len(views), np.int32) if slots is None else slots
    pictures = drawer.target(camera, sensors, len(views)).render(slots, views, bodies)
    pictures = {sensor: picture.copy() for sensor, picture in pictures.items()}
    drawer.close()
    return pictures


@pytest.mark.parametrize("camera", [Camera(50, 38), Camera(32, 32, hfov_deg=120, cull_backfaces=True)])
def test_bodies_look_as_if_they_were_part_of_the_scene(name, camera):
    rng = np.random.default_rng(0)
    poses = scattered(rng, 4)
    eyes = rng.uniform((-3.5, 0.5, -2.5), (3.5, 2.0, 2.5), (NUM_VIEWS, 3))
    views = look_at(eyes, rng.uniform((-3.5, 0.5, -2.5), (3.5, 1.5, 2.5), (NUM_VIEWS, 3)))
    whole, bodies = placed_and_moving([0, 1, 0, 1], poses, NUM_VIEWS, [101, 102, 103, 104])
    room = box_room()
    expected = draw(name, [whole], camera, views)
    found = draw(name, [room], camera, views, bodies)
    np.testing.assert_allclose(found["depth"], expected["depth"], atol=1e-5)
    assert (np.abs(found["rgb"].astype(int) - expected["rgb"]).max(axis=-1) > 2).mean() < 1e-3
    in_scene = len(room.objects)
    own = expected["semantic"] <= in_scene
    np.testing.assert_array_equal(found["semantic"][own], expected["semantic"][own])
    np.testing.assert_array_equal(found["semantic"] > 100, ~own)
    assert 0.02 < (~own).mean() < 0.9  # bodies were in sight


@pytest.mark.parametrize("lens", LENSES, ids=repr)
def test_they_do_through_lenses_and_in_normals_and_points(lens):
    """Bodies also hide each other, and stand behind walls or around the camera."""
    rng = np.random.default_rng(1)
    poses = scattered(rng, 5)
    poses[4, 0, 3] = 30.0  # outside
    eyes = rng.uniform((-3.5, 0.5, -2.5), (3.5, 2.0, 2.5), (6, 3))
    eyes[0] = poses[0, :3, 3] + [0.1, 1.0, 0.0]  # within a body
    # The drawn place is nearer than `near` to a wall, and would see its underside, which lies in the floor's plane.
    eyes[5, 0] = 1.0
    views = look_at(eyes, rng.uniform((-3.5, 0.5, -2.5), (3.5, 1.5, 2.5), (6, 3)))
    camera = Camera(45, 26, lens=lens)
    sensors = tuple(SENSOR_FORMATS)
    room = box_room()
    whole, bodies = placed_and_moving([0, 1, 0, 1, 0], poses, 6, [ID] * 5)
    expected = draw("embree", [whole], camera, views, sensors=sensors)
    found = draw("embree", [room], camera, views, bodies, sensors=sensors)
    shown = expected["semantic"] > len(room.objects)
    same = (found["semantic"] == np.where(shown, ID, expected["semantic"]))[..., 0]
    assert same.mean() > 0.999 and 0.01 < shown.mean() < 0.9  # rounding decides on edges
    for sensor, tolerance in (("depth", 1e-4), ("points", 1e-3), ("normals", 1e-4), ("rgb", 2)):
        difference = np.abs(found[sensor].astype(float) - expected[sensor])[same].max(axis=-1)
        assert (difference > tolerance).mean() < 2e-3, sensor
    if lens is None:  # without normals and points, no table of rays is used
        for sensor, image in draw("embree", [room], camera, views, bodies).items():
            np.testing.assert_array_equal(image, found[sensor])


def facing(count):
    """Views [count, 4, 4] towards the place of ``pose(-2, 1, 0)``."""
    return np.repeat(look_at(np.array([-2.0, 1.0, 2.0]), np.array([-2.0, 1.0, 0.0]))[None], count, axis=0)


def test_each_view_shows_its_own_bodies(name):
    """A view without bodies shows the scene alone; a body that faces a camera hides it in that view alone."""
    camera = Camera(16, 16)
    poses = np.repeat(pose(-2, 1, 0)[None], 2, axis=0)
    bodies = BodyViews(np.array([1, 3]), np.zeros(2, int), poses, np.array([77, 0], np.int32))
    pictures = draw(name, [box_room()], camera, facing(4), bodies)
    np.testing.assert_array_equal(pictures["semantic"][0], pictures["semantic"][2])
    assert not (pictures["semantic"][0] == 77).any() and pictures["semantic"][0, 8, 8, 0]
    assert pictures["semantic"][1, 8, 8, 0] == 77
    assert pictures["depth"][1, 8, 8, 0] == pytest.approx(0.8 / camera.max_depth, abs=1e-4)
    assert pictures["semantic"][3, 8, 8, 0] == 0, "a body without a category hides the ids behind it"


def test_views_follow_bodies_that_move_and_change_their_shapes(name):
    shapes = SceneLibrary.from_scenes(SHAPES)
    drawer = make_renderer(name, SceneLibrary.from_scenes([box_room()]), bodies=shapes)
    target = drawer.target(Camera(16, 16), ("semantic",), 2)
    slots = np.zeros(2, np.int32)

    def shown(x):
        bodies = None
        if x is not None:
            bodies = BodyViews(np.array([0]), np.array([0]), pose(x, 0, 0)[None], np.array([77], np.int32))
        return (target.render(slots, facing(2), bodies)["semantic"] == 77).any(axis=(1, 2, 3)).tolist()

    assert shown(-2.0) == [True, False]
    assert shown(3.9) == [False, False]
    assert shown(-2.0) == [True, False]
    assert shown(None) == [False, False]
    shapes.put(0, scene_of("high", box((-0.2, 50, -0.2), (0.2, 51, 0.2))))
    shapes.put(1, None)
    assert shown(-2.0) == [False, False]
    shapes.put(0, None)
    with pytest.raises(ValueError, match="slot 0 of the scene library is empty"):  # a kernel would read address 0
        shown(-2.0)
    drawer.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"view": np.array([2])}, "bodies.view has values from 2 to 2, not 0 to 1"),
        ({"slot": np.array([2])}, "bodies.slot has values from 2 to 2"),
        ({"slot": np.array([0.0])}, "bodies.slot is float64"),
        ({"pose": np.zeros((1, 3, 4), np.float32)}, "bodies.pose is float32"),
        ({"object_id": np.array([1])}, "bodies.object_id is int64"),
        ({"object_id": np.array([-1], np.int32)}, "bodies.object_id has a value of -1"),
    ],
)
def test_bodies_that_kernels_cannot_read_are_refused(change, message):
    fields = {"view": np.array([0]), "slot": np.array([0]), "pose": pose(0, 0, 0)[None]}
    bodies = BodyViews(**{**fields, "object_id": np.array([1], np.int32), **change})
    with pytest.raises(ValueError, match=message):
        draw("embree", [box_room()], Camera(8, 8), facing(2), bodies)


def test_unsigned_views_in_another_order_and_bodies_without_shapes_are_refused():
    bodies = BodyViews(np.array([1, 0], np.uint64), np.zeros(2, int), np.zeros((2, 4, 4), np.float32), np.ones(2, "i4"))
    with pytest.raises(ValueError, match="not in ascending order"):
        bodies.check(2, 1)
    with pytest.raises(ValueError, match=r"no shapes of bodies: pass bodies= to make_renderer"):
        bodies.check(2, 0)
