"""Moving bodies in pictures through lenses, and in normals and points: closed forms and other renderers."""

import numpy as np
import pytest
from quads import Quad, checkerboard
from quads import scene_of as quad_scene
from rays import pixel_rays
from rooms import box, box_room, scene_of

from gym_batchnav.geometry import Camera, look_at
from gym_batchnav.lenses import Beams, Cylindrical, DoubleSphere, Equirectangular, Fisheye, Orthographic
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import SENSOR_FORMATS, make_renderer
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.scene.builder import Placed, compose

LENSES = [
    Equirectangular(), Cylindrical(), Fisheye(200), DoubleSphere(-0.2, 0.6, 0.2), Orthographic(1.2),
    Beams(360, (20, 5, 0, -5, -20, -60)), None,
]  # fmt: skip
RADIUS = 0.2
LOW, HIGH = 0.2, 1.3  # ends of the capsule's axis, metres
ID = 1_000_007


def capsule(sides=256):
    """The triangles [T, 3, 3] of an upright capsule around the y axis."""
    rise = np.linspace(-np.pi / 2, np.pi / 2, sides // 2 + 1)
    height = RADIUS * np.sin(rise) + np.where(rise > 0, HIGH, LOW)
    height = np.insert(height, sides // 4 + 1, HIGH)
    across = np.insert(RADIUS * np.cos(rise), sides // 4 + 1, RADIUS)
    around = np.linspace(0, 2 * np.pi, sides + 1)
    ring = np.stack([np.cos(around), np.sin(around)], axis=-1)
    points = np.empty((len(height), len(around), 3))
    points[..., 0] = across[:, None] * ring[:, 0]
    points[..., 1] = height[:, None]
    points[..., 2] = across[:, None] * ring[:, 1]
    corners = points[:-1, :-1], points[1:, :-1], points[1:, 1:], points[:-1, 1:]
    halves = [np.stack([corners[i] for i in t], axis=2).reshape(-1, 3, 3) for t in ((0, 1, 2), (0, 2, 3))]
    return np.concatenate(halves).astype(np.float32)


def hit_capsule(origin, direction):
    """Distances [...] at which rays enter a capsule around the y axis, inf for none; directions are unit vectors."""

    def enter(square, half, rest):
        root = half**2 - square * rest
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(root > 0, (-half - np.sqrt(root)) / square, np.inf)

    flat = direction[..., ::2]
    from_axis = origin[..., ::2]
    side = enter((flat**2).sum(-1), (flat * from_axis).sum(-1), (from_axis**2).sum(-1) - RADIUS**2)
    with np.errstate(invalid="ignore"):
        height = origin[..., 1] + side * direction[..., 1]
        found = [np.where((height >= LOW) & (height <= HIGH), side, np.inf)]
    for end in (LOW, HIGH):
        way = origin - [0, end, 0]
        found.append(enter(1, (way * direction).sum(-1), (way**2).sum(-1) - RADIUS**2))
    return np.min(np.where(np.isnan(found) | (np.array(found) <= 0), np.inf, found), axis=0)


def rays_of(camera, view):
    """Origins and unit directions [H, W, 3] of a camera's rays in the world, and the length of depth 1 [H, W]."""
    if camera.lens is None:
        eye, direction = pixel_rays(camera, view)
        length = np.linalg.norm(direction, axis=-1)
        return np.broadcast_to(eye, direction.shape), direction / length[..., None], length
    y, x = np.mgrid[: camera.height, : camera.width] + 0.5
    direction, origin = camera.lens.rays(x, y, camera.width, camera.height)
    rotation = view[:3, :3].astype(np.float64)
    offset = np.concatenate([origin, np.zeros((*x.shape, 1))], axis=-1)
    return -rotation.T @ view[:3, 3] + offset @ rotation, (direction * [1, 1, -1]) @ rotation, np.ones(x.shape)


def pose(x, z, angle):
    matrix = np.eye(4, dtype=np.float32)
    matrix[0, 0] = matrix[2, 2] = np.cos(angle)
    matrix[0, 2] = np.sin(angle)
    matrix[2, 0] = -np.sin(angle)
    matrix[:3, 3] = x, 0, z
    return matrix


def draw(renderer, scene, shapes, camera, sensors, views, bodies=None):
    library = SceneLibrary.from_scenes([scene])
    drawer = make_renderer(renderer, library, bodies=SceneLibrary.from_scenes(shapes))
    pictures = drawer.target(camera, sensors, len(views)).render(np.zeros(len(views), np.int32), views, bodies)
    pictures = {sensor: picture.copy() for sensor, picture in pictures.items()}
    drawer.close()
    return pictures


@pytest.mark.parametrize("lens", LENSES, ids=repr)
def test_a_capsule_at_known_distances(lens):
    camera = Camera(64, 32, lens=lens, normalize_depth=False, max_depth=100)
    place = np.array([1.0, 0, -0.5])
    eyes = np.array([[-0.5, 1.0, -0.5], [1.0, 0.3, 1.2], [1.3, 1.8, -1.0]])
    views = look_at(eyes, np.tile(place + np.array([0.1, 0.7, 0.1]), (3, 1)))
    moved = pose(*place[::2], 0.7)
    bodies = BodyViews(np.arange(3), np.zeros(3, int), np.tile(moved, (3, 1, 1)), np.full(3, ID, np.int32))
    shape = scene_of("capsule", capsule())
    room = scene_of("room", box((-4, 0, -3), (4, 2.6, 3), inward=True))
    seen = draw("embree", room, [shape], camera, tuple(SENSOR_FORMATS), views, bodies)
    for n, view in enumerate(views):
        origin, direction, length = rays_of(camera, view)
        distance = hit_capsule(origin - place, direction)
        point = origin - place + np.where(np.isfinite(distance), distance, 0)[..., None] * direction
        normal = point - np.clip(point[..., 1:2], LOW, HIGH) * [0, 1, 0]
        normal /= RADIUS
        sees = np.isfinite(distance)
        steep = sees & (-(normal * direction).sum(-1) > 0.2)  # facets decide about grazing rays
        assert steep.sum() > 5
        shown = seen["semantic"][n, ..., 0] == ID
        assert shown[steep].all() and not shown[~sees].any()
        np.testing.assert_allclose(seen["depth"][n, ..., 0][steep], (distance / length)[steep], atol=5e-4)
        np.testing.assert_allclose(seen["points"][n][steep], (point + place)[steep], atol=5e-4)
        np.testing.assert_allclose(seen["normals"][n][steep], (normal @ view[:3, :3].T)[steep], atol=0.03)


@pytest.mark.parametrize("lens", LENSES, ids=repr)
def test_bodies_look_as_if_they_were_part_of_the_scene(lens):
    """Textures, masks and light, too; and bodies that hide each other, stand behind walls or around the camera."""
    shapes = [
        scene_of("box", box((-0.2, 0.01, -0.2), (0.2, 1.5, 0.2))),
        quad_scene(
            Quad((-0.3, 0, 0), (0.6, 0, 0), (0, 1.2, 0), checkerboard(4), (2, 2)),
            Quad((0, 0, -0.3), (0, 0, 0.6), (0, 1.2, 0), checkerboard(4), (2, 2), masked=True),
        ),
    ]
    rng = np.random.default_rng(1)
    poses = np.stack([pose(*rng.uniform((-3.5, -2.5, 0), (3.5, 2.5, 6))) for _ in range(5)])
    poses[4, 0, 3] = 30.0  # outside
    kinds = np.array([0, 1, 0, 1, 0])
    eyes = rng.uniform((-3.5, 0.5, -2.5), (3.5, 2.0, 2.5), (6, 3))
    eyes[0] = poses[0, :3, 3] + [0.1, 1.0, 0.0]  # within a body
    # The drawn place is nearer than `near` to a wall, and would see its underside, which lies in the floor's plane.
    eyes[5, 0] = 1.0
    views = look_at(eyes, rng.uniform((-3.5, 0.5, -2.5), (3.5, 1.5, 2.5), (6, 3)))
    camera = Camera(45, 26, lens=lens)
    sensors = tuple(SENSOR_FORMATS)
    room = box_room()
    placed = [Placed(shapes[kind], one.astype(float)) for kind, one in zip(kinds, poses, strict=True)]
    whole = compose("whole", [Placed(room, np.eye(4)), *placed])
    expected = draw("embree", whole, shapes, camera, sensors, views)
    bodies = BodyViews(
        np.repeat(np.arange(6), 5), np.tile(kinds, 6), np.tile(poses, (6, 1, 1)), np.full(30, ID, np.int32)
    )
    found = draw("embree", room, shapes, camera, sensors, views, bodies)
    shown = expected["semantic"] > len(room.objects)
    same = (found["semantic"] == np.where(shown, ID, expected["semantic"]))[..., 0]
    assert same.mean() > 0.999 and 0.01 < shown.mean() < 0.9  # rounding decides on edges
    for sensor, tolerance in (("depth", 1e-4), ("points", 1e-3), ("normals", 1e-4), ("rgb", 2)):
        difference = np.abs(found[sensor].astype(float) - expected[sensor])[same].max(axis=-1)
        assert (difference > tolerance).mean() < 2e-3, sensor


@pytest.mark.parametrize("other", ["embree", pytest.param("opengl", marks=pytest.mark.opengl)])
def test_a_pinhole_with_normals_shows_the_same_bodies(other):
    """With normals, Embree draws from a table of rays; without, by the arithmetic of pinholes, or OpenGL draws."""
    shape = scene_of("capsule", capsule(64))
    rng = np.random.default_rng(2)
    poses = np.stack([pose(*rng.uniform((-3.5, -2.5, 0), (3.5, 2.5, 6))) for _ in range(6)])
    eyes = rng.uniform((-3.5, 0.5, -2.5), (3.5, 2.0, 2.5), (8, 3))
    views = look_at(eyes, rng.uniform((-3.5, 0.5, -2.5), (3.5, 1.5, 2.5), (8, 3)))
    bodies = BodyViews(
        np.repeat(np.arange(8), 6), np.zeros(48, int), np.tile(poses, (8, 1, 1)), np.full(48, ID, np.int32)
    )
    camera = Camera(61, 47)
    sensors = ("depth", "rgb", "semantic")
    table = draw("embree", box_room(), [shape], camera, (*sensors, "normals"), views, bodies)
    plain = draw(other, box_room(), [shape], camera, sensors, views, bodies)
    assert (plain["semantic"] == ID).any()
    if other == "embree":
        for sensor in sensors:
            np.testing.assert_array_equal(plain[sensor], table[sensor])
    else:
        assert (np.abs(plain["depth"] - table["depth"]) < 1e-3).mean() >= 0.999
        assert (plain["semantic"] == table["semantic"]).mean() >= 0.995  # edges
