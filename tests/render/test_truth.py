"""All renderers against closed forms, from any pose: planes, boxes, a sphere, and a checkerboard in perspective."""

import dataclasses
import math

import numpy as np
import pytest
import rooms
from hypothesis import given, settings
from hypothesis import strategies as st
from quads import Quad, checkerboard, scene_of, views_at, wall
from rays import AHEAD, pixel_rays, to_srgb
from scipy.spatial.transform import Rotation
from trimesh.creation import icosphere

from gym_batchnav.geometry import Camera, look_at
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import is_software, make_renderer

pytestmark = pytest.mark.filterwarnings("ignore:renderer='warp'")
CAMERA = Camera(48, 40, hfov_deg=80, normalize_depth=False, max_depth=100, lit=False)
BARE = Camera(normalize_depth=False, max_depth=100, lit=False)
LIT = Camera()
ROOM = np.array([-4.0, 0.0, -3.0]), np.array([4.0, 2.6, 3.0])
CRATE = np.array([-0.5, -0.3, -0.8]), np.array([0.5, 0.3, 0.8])
CELLS = np.indices((4, 4)).sum(axis=0) % 2 == 0  # white ones, rows from the top
CELLS[0, 1] = True  # so that the board looks like itself no other way round
TEXELS = np.where(np.kron(CELLS, np.ones((16, 16), bool))[..., None], [255, 255, 255, 255], [0, 0, 0, 255])
BOARD = Quad((-1.5, -1, 0.2), (3, 0, -0.4), (0.3, 2, 0), TEXELS.astype(np.uint8))
FLOOR = 10.0  # metres from its middle to its edges; farther off OpenGL's grid of vertex positions shows

angles = st.floats(-math.pi, math.pi)
turns = st.tuples(angles, angles, angles)  # roll, pitch, heading
fractions = st.floats(-1, 1)
places = st.tuples(fractions, fractions, fractions)


def rotation(turn):
    """Camera axes [3, 3] after heading, pitch and roll, rows right, up and backward."""
    return Rotation.from_euler("ZXY", turn).as_matrix()


def rolled(eye, aim, roll):
    view = look_at(eye, aim).astype(np.float64)
    view[:3] = rotation((roll, 0, 0)) @ view[:3]
    return view.astype(np.float32)


def around(place, nearest, farthest):
    """A point between two distances from the origin."""
    direction = np.array(place) if np.linalg.norm(place) > 0.1 else np.array([0.6, 0.5, -0.7])
    distance = np.linalg.norm(direction) / math.sqrt(3)
    return direction / np.linalg.norm(direction) * (nearest + (farthest - nearest) * distance)


def holes(first):
    """A texture of white cells and holes in turn."""
    texture = checkerboard(2)
    texture[..., 3] = texture[..., 0] if first else 255 - texture[..., 0]
    texture[..., :3] = 255
    return texture


SCENES = {
    "floor": lambda: scene_of(Quad((-FLOOR, 0, FLOOR), (2 * FLOOR, 0, 0), (0, 0, -2 * FLOOR))),
    "room": lambda: rooms.scene_of("room", rooms.box(*ROOM, inward=True)),
    "crate": lambda: rooms.scene_of("crate", rooms.box(*CRATE)),
    "sphere": lambda: rooms.scene_of("sphere", icosphere(7).triangles.astype(np.float32)),
    "board": lambda: scene_of(BOARD),
    "sheets": lambda: scene_of(
        wall(2, half=2, texture=holes(True), masked=True), wall(2, half=2, texture=holes(False), masked=True), wall(5)
    ),
}


@pytest.fixture(scope="module")
def draw(name):
    """Draws one view of a scene with one of the renderers."""
    renderer = make_renderer(name, SceneLibrary.from_scenes([make() for make in SCENES.values()]))
    target = renderer.target(CAMERA, ("depth", "rgb"))

    def draw_one(name, view):
        images = target.render(np.array([list(SCENES).index(name)]), view[None])
        return {sensor: picture[0] for sensor, picture in images.items()}

    # Graphics processors interpolate depth with fewer digits: an NVIDIA H200 with 4e-4.
    draw_one.tolerance = 1e-3 if name == "opengl" and not is_software(renderer.device) else 1e-4
    yield draw_one
    renderer.close()


@pytest.fixture
def look(name):
    def draw_ahead(*quads, camera=BARE, sensors=("depth", "rgb", "semantic")):
        renderer = make_renderer(name, SceneLibrary.from_scenes([scene_of(*quads)]))
        images = renderer.target(camera, sensors).render(np.zeros(1, int), AHEAD)
        images = {sensor: picture[0].copy() for sensor, picture in images.items()}
        renderer.close()
        return images

    return draw_ahead


def assert_depth(draw, depth, truth, where=True):
    """Depth is true to ``draw.tolerance`` where asked; what is beyond the clip reads the clip."""
    truth = np.minimum(truth, CAMERA.max_depth)
    error = np.abs(depth[..., 0] - truth) / np.maximum(truth, 1)
    assert np.max(error, where=where, initial=0) <= draw.tolerance


def in_box(view, low, high):
    """Return where rays enter and leave a box, and through which of six faces [H, W]; entry > exit is a miss."""
    eye, directions = pixel_rays(CAMERA, view)
    directions = np.where(directions == 0, 1e-30, directions)
    one = (low - eye) / directions
    two = (high - eye) / directions
    entries = np.minimum(one, two)
    exits = np.maximum(one, two)
    entry = entries.max(axis=-1)
    leave = exits.min(axis=-1)
    return entry, leave, entries.argmax(axis=-1), exits.argmin(axis=-1)


def inside_of(labels):
    """Pixels whose neighbours have the same label, so that no edge between labels passes through them."""
    padded = np.pad(labels, 1, mode="edge")
    height, width = labels.shape
    same = [padded[i : i + height, j : j + width] == labels for i in range(3) for j in range(3)]
    return np.all(same, axis=0)


@given(turns, st.floats(0.5, 5))
def test_depth_of_a_floor(draw, turn, height):
    view = views_at(np.array([[0.3, height, -0.2]]), rotation(turn)[None])[0]
    eye, directions = pixel_rays(CAMERA, view)
    down = np.where(directions[..., 1] < 0, directions[..., 1], -1e-30)
    truth = -eye[1] / down
    hit = (np.abs(eye + truth[..., None] * directions)[..., [0, 2]] <= FLOOR).all(axis=-1)
    assert_depth(draw, draw("floor", view)["depth"], np.where(hit, truth, np.inf), inside_of(hit))


@given(turns, places)
def test_depth_of_a_room_from_inside(draw, turn, place):
    low, high = ROOM
    eye = (low + high) / 2 + 0.9 * np.array(place) * (high - low) / 2
    view = views_at(eye[None], rotation(turn)[None])[0]
    _, leave, _, face = in_box(view, low, high)
    assert_depth(draw, draw("room", view)["depth"], leave, inside_of(face))


@given(places, places, angles)
def test_depth_of_a_box_from_outside(draw, place, aim, roll):
    view = rolled(around(place, 1.2, 4), 0.4 * np.array(aim), roll)
    entry, leave, face, _ = in_box(view, *CRATE)
    hit = (entry <= leave) & (entry > 0)
    assert hit.any()
    truth = np.where(hit, entry, np.inf)
    assert_depth(draw, draw("crate", view)["depth"], truth, inside_of(np.where(hit, face, -1)))


@settings(max_examples=8)
@given(places, places, angles)
def test_depth_of_a_sphere(draw, place, aim, roll):
    view = rolled(around(place, 1.6, 4), 0.5 * np.array(aim), roll)
    eye, directions = pixel_rays(CAMERA, view)
    # |eye + t d| = 1
    square = (directions**2).sum(axis=-1)
    half = directions @ eye
    root = half**2 - square * (eye @ eye - 1)
    truth = np.where(root >= 0, (-half - np.sqrt(np.maximum(root, 0))) / square, np.inf)
    # Seen at a slant the facets' sag is magnified: by 1 / cos, the cosine between ray and normal.
    slant = np.sqrt(np.maximum(root, 0) / square)
    sure = np.where(root >= 0, slant > 0.3, inside_of(root >= 0))
    assert (slant > 0.3).any()
    assert_depth(draw, draw("sphere", view)["depth"], truth, sure)


@given(st.sampled_from([-1, 1]), st.floats(1, 2), places, places, angles)
def test_a_checkerboard_lands_where_perspective_puts_it(draw, side, distance, place, aim, roll):
    origin, right, up = (np.array(v, float) for v in (BOARD.origin, BOARD.right, BOARD.up))
    normal = np.cross(right, up) / np.linalg.norm(np.cross(right, up))
    middle = origin + (right + up) / 2
    eye = middle + side * distance * normal + 0.5 * np.array(place)  # in front or behind
    view = rolled(eye, middle + 0.3 * np.array(aim), roll)
    eye, rays = pixel_rays(CAMERA, view)
    # eye + t ray = origin + a right + b up
    columns = np.stack([rays, *np.broadcast_arrays(-right, -up, rays)[:2]], axis=-1)
    t, a, b = np.moveaxis(np.linalg.solve(columns, np.broadcast_to(origin - eye, rays.shape)[..., None])[..., 0], -1, 0)
    cells = np.stack([a, 1 - b], axis=-1) * 4
    footprint = np.maximum(*(np.abs(np.gradient(cells, axis=axis)).max(axis=-1) for axis in (0, 1)))
    inside = ((cells > 0) & (cells < 4)).all(axis=-1) & (t > 0)
    margin = np.abs(cells - np.rint(cells)).min(axis=-1)
    sure = inside & (margin > 0.02 + 1.5 * footprint)  # the filter reaches no other cell
    column, row = np.moveaxis(np.clip(cells, 0, 3.9).astype(int), -1, 0)
    white = CELLS[row, column]
    images = draw("board", view)
    rgb = images["rgb"]
    assert sure.sum() > 30
    assert (rgb[sure & white] == 255).all() and (rgb[sure & ~white] == 0).all()
    assert_depth(draw, images["depth"], np.where(inside, t, np.inf), sure)


def test_a_sheet_shows_through_the_holes_of_another_in_its_plane(draw):
    images = draw("sheets", AHEAD[0])
    np.testing.assert_allclose(images["depth"], 2, rtol=1e-5)


def test_a_view_of_nothing_shows_nothing_of_the_view_before(draw):
    something = draw("sheets", AHEAD[0])
    nothing = draw("sheets", np.diag([-1, 1, -1, 1]).astype(np.float32))
    assert something["rgb"].any() and (something["depth"] < 100).all()
    assert not nothing["rgb"].any() and (nothing["depth"] == 100).all()


# Surfaces


@pytest.mark.parametrize("sensors", [("depth",), ("depth", "rgb")], ids="-".join)
def test_near_is_a_plane(look, sensors):
    # The corner of the nearer wall is 0.84 m away along its ray, but 0.49 m along the axis.
    for distance, expected in ((0.49, 3), (0.51, 0.51)):
        depth = look(wall(distance), wall(3), camera=dataclasses.replace(BARE, near=0.5), sensors=sensors)["depth"]
        np.testing.assert_allclose(depth, expected, rtol=1e-5)


def test_light_falls_from_head_and_sky_onto_both_sides(look):
    slanted = 0.65 + 0.35 * np.sqrt(0.5)
    behind = Quad((50, -50, -2), (-100, 0, 0), (0, 100, 0))
    floor = Quad((-90, -1, 90), (180, 0, 0), (0, 0, -180))
    ceiling = Quad((-90, 1, -90), (180, 0, 0), (0, 0, 180))
    for quad, rows, light in (
        (wall(2), slice(64), slanted), (behind, slice(64), slanted), (floor, slice(40, 64), slanted),
        (ceiling, slice(24), 0.65),
    ):  # fmt: skip
        assert np.abs(look(quad, camera=LIT)["rgb"][rows] - to_srgb(light)).max() <= 1


def test_colours_are_linear_inside_and_srgb_outside(look):
    grey = np.full((4, 4, 4), 128, np.uint8)
    assert np.abs(look(wall(2, texture=grey))["rgb"].astype(int) - 128).max() <= 1
    factor = look(wall(2, base_color=(0.5, 0.25, 0, 1)))["rgb"][30, 30]
    assert np.abs(factor.astype(int) - [188, 137, 0]).max() <= 1
    vertex = look(wall(2, colors=[(64, 128, 255, 255)] * 4))["rgb"][30, 30]
    assert np.abs(vertex.astype(int) - [137, 188, 255]).max() <= 1


def test_a_far_checkerboard_is_even_grey(look):
    rgb = look(wall(40, texture=checkerboard(64), repeats=(50, 50)))["rgb"]
    assert np.abs(rgb.astype(int) - 188).max() <= 1  # half of the light, not half of the byte


@pytest.mark.parametrize("sensors", [("depth",), ("semantic", "depth"), ("depth", "rgb", "semantic")], ids="-".join)
def test_rays_go_on_behind_transparent_texels(look, sensors):
    texture = checkerboard(2)
    texture[..., 3] = texture[..., 0]  # its black cells are holes
    layers = [wall(1 + k, half=1 + k, texture=texture, masked=True) for k in range(3)]
    seen = look(*layers, wall(5), sensors=sensors)
    depth = seen["depth"][..., 0]
    assert np.allclose(depth[8:24, 8:24], 1) and np.allclose(depth[40:56, 40:56], 1)
    assert np.allclose(depth[8:24, 40:56], 5) and np.allclose(depth[40:56, 8:24], 5), "behind all three layers"
    if "semantic" in sensors:
        assert (seen["semantic"][8:24, 8:24] == 1).all() and (seen["semantic"][8:24, 40:56] == 4).all()
    if "rgb" in sensors:
        assert (seen["rgb"][8:24, 8:24] == 255).all(), "the white cells"
        assert (seen["rgb"][8:24, 40:56] == 255).all(), "the white wall shows through the holes"


@pytest.mark.parametrize(
    ("keywords", "seen"),
    [
        ({"base_color": (1, 1, 1, 0.4)}, False),
        ({"base_color": (1, 1, 1, 0.6)}, True),
        ({"colors": [[255, 255, 255, 100]] * 4}, False),
        ({"colors": [[255, 255, 255, 150]] * 4}, True),
        ({"colors": [[255, 255, 255, 150]] * 4, "base_color": (1, 1, 1, 0.8)}, False),
    ],
)
def test_alpha_is_the_product_of_factor_and_vertex_colour(look, keywords, seen):
    near = wall(1, masked=True, **keywords)
    assert (look(near, wall(2))["semantic"] == (1 if seen else 2)).all()
    # An opaque material ignores its alpha.
    assert (look(dataclasses.replace(near, masked=False), wall(2), sensors=("semantic",))["semantic"] == 1).all()


def test_alpha_of_distant_foliage_is_filtered(look):
    # Far away half-transparent leaves average to alpha 0.62 everywhere: no noise of single texels.
    texture = checkerboard(2)
    texture[..., 3] = np.where(texture[..., 0] > 0, 255, 60)
    leaves = wall(40, half=100, texture=texture, repeats=(2000, 2000), masked=True)
    assert (look(leaves, wall(60, half=200))["semantic"] == 1).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_absurd_texture_coordinates_are_survived(name, value):
    scene = scene_of(wall(2, texture=checkerboard(4)))
    scene.uvs[0] = value
    renderer = make_renderer(name, SceneLibrary.from_scenes([scene]))
    rgb = renderer.target(BARE, ("rgb",)).render(np.zeros(1, int), AHEAD)["rgb"]
    assert rgb.shape == (1, 64, 64, 3) and rgb.any()
    renderer.close()
