"""What is particular to OpenGL: clip space, pages of framebuffers and textures, chunks, culling, and lost devices."""

import itertools
from contextlib import contextmanager

import moderngl
import numpy as np
import psutil
import pytest
import rooms
from quads import Quad, checkerboard, rotations, scene_of, views_at, wall
from rays import AHEAD, assert_alike

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.opengl import OpenGLRenderer, context, culling, prepare, target
from gym_batchnav.render.opengl.context import probe, shared_context
from gym_batchnav.scene.builder import Placed, compose

pytestmark = pytest.mark.opengl

ALL = ("depth", "rgb", "semantic")
METRES = {"normalize_depth": False, "max_depth": 100.0}
ROOM = np.array([-4.0, 0.0, -3.0]), np.array([4.0, 2.6, 3.0])


@pytest.fixture(autouse=True)
def no_gl_error():
    yield
    assert shared_context().moderngl.error == "GL_NO_ERROR"


@contextmanager
def rendering(*scenes, **keywords):
    renderer = OpenGLRenderer(SceneLibrary.from_scenes(scenes), **keywords)
    yield renderer
    renderer.close()


def draw(scene, views=AHEAD, sensors=ALL, camera=None, **keywords):
    with rendering(scene, **keywords) as renderer:
        drawn = renderer.target(camera or Camera(**METRES), sensors, len(views))
        return drawn.render(np.zeros(len(views), int), views)


def empty_room():
    return rooms.scene_of("room", rooms.box(*ROOM, inward=True))


def furnished_room():
    """The empty room with slanted pictures hanging in it, none of them in the plane of another."""
    pictures = [
        Quad((-3 + 1.5 * k, 0.3, -2 + 0.9 * k), (1.2, 0.1 * k, 0.4), (0.1, 1.4, 0.2 * k), checkerboard(2 + k))
        for k in range(5)
    ]
    return compose("furnished", [Placed(empty_room(), np.eye(4)), Placed(scene_of(*pictures), np.eye(4))])


def views_inside(count, seed=0, low=ROOM[0], high=ROOM[1]):
    rng = np.random.default_rng(seed)
    return views_at(rng.uniform(low + 0.3, high - 0.3, (count, 3)), rotations(rng, count))


def test_depth_is_precise_without_clip_control(monkeypatch):
    glcontext = shared_context()
    views = views_inside(8)
    camera = Camera(**METRES)
    expected = draw(empty_room(), views, ("depth",), camera)["depth"]
    set_clip_control = glcontext._load("glClipControl", 2)
    monkeypatch.setattr(glcontext, "clip_control", False)
    with glcontext:
        set_clip_control(0x8CA1, 0x935E)  # lower left, negative one to one
    try:
        depth = draw(empty_room(), views, ("depth",), camera)["depth"]
    finally:
        with glcontext:
            set_clip_control(0x8CA1, 0x935F)  # zero to one
    assert (np.abs(depth / expected - 1) < 2e-4).mean() > 0.9999


# Batches, slots and pages


def test_more_views_than_a_framebuffer_holds(monkeypatch):
    views = views_inside(37, seed=4)
    camera = Camera(32, 24, **METRES)
    whole = draw(furnished_room(), views, camera=camera)
    monkeypatch.setattr(target, "MAX_SIDE_SOFTWARE", 100)
    monkeypatch.setattr(target, "MAX_SIDE", 100)  # 3 x 4 tiles
    with rendering(furnished_room()) as renderer:
        paged = renderer.target(camera, ALL, 37, buffers=3)
        images = paged.render(np.zeros(37, int), views)
        fewer = paged.render(np.zeros(20, int), views[:20])
        assert paged._drawing._objects.pages == [(0, 12), (12, 24), (24, 36), (36, 37)]
    assert_alike(images, whole)
    for name in ALL:
        np.testing.assert_array_equal(fewer[name], images[name][:20])


def test_passes_with_few_instances_change_nothing(monkeypatch):
    views = views_inside(10, seed=5)
    whole = draw(rooms.box_room(), views)
    monkeypatch.setattr(culling, "MAX_INSTANCES", 3)
    for name, image in draw(rooms.box_room(), views).items():
        np.testing.assert_array_equal(image, whole[name])


def test_a_sensor_reads_the_same_alone():
    views = views_inside(6, seed=7)
    together = draw(fine_room(0), views)
    for sensor in ALL:
        np.testing.assert_array_equal(draw(fine_room(0), views, (sensor,))[sensor], together[sensor])


def test_grids_hold_what_they_promise():
    for width, height, count, side in itertools.product(
        (16, 64, 300), (16, 48, 4096), (1, 2, 7, 64, 5000), (512, 4096)
    ):
        columns, rows = target.grid_shape(Camera(width, height), count, side)
        assert columns >= 1 and rows >= 1
        assert columns * width <= max(side, width) and rows * height <= max(side, height)
        most = max(side // width, 1) * max(side // height, 1)
        assert columns * rows >= min(count, most) and columns * (rows - 1) < count


# Preparation and culling


def fine_room(seed, triangles=6000):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(ROOM[0], ROOM[1], (triangles // 2, 3))
    small = [
        Quad(centre, *rng.normal(scale=0.05, size=(2, 3)), double_sided=k % 2 == 0) for k, centre in enumerate(centres)
    ]
    return scene_of(wall(4.0), *small)


def test_chunks_hold_every_triangle_once():
    scene = fine_room(1)
    mesh = prepare.MeshPreparer()(scene)
    truth = sorted(map(bytes, scene.vertices[scene.triangles].astype("<f4")))
    assert sorted(map(bytes, mesh.positions[mesh.indices].astype("<f4"))) == truth
    assert mesh.chunk_count.sum() == len(scene.triangles)
    assert mesh.chunk_count.max() <= prepare.CHUNK_TRIANGLES and mesh.chunk_count.mean() > 0.8 * prepare.CHUNK_TRIANGLES
    for chunk, (first, count) in enumerate(zip(mesh.chunk_first, mesh.chunk_count, strict=True)):
        corners = mesh.positions[mesh.indices[first : first + count]]
        assert (np.abs(corners - mesh.chunk_bounds[chunk, :3]) <= mesh.chunk_bounds[chunk, 3:]).all()
        sided = scene.materials.double_sided[mesh.triangles["material"][first : first + count]]
        assert (sided == mesh.chunk_class[chunk] % 2).all()
    # Neighbours share a chunk: boxes of chunks are much smaller than the room.
    assert (np.diff(mesh.chunk_class) >= 0).all()
    assert np.median(mesh.chunk_bounds[:, 3:].max(axis=1)) < 0.3 * (ROOM[1] - ROOM[0]).max()


def test_renderers_that_are_dropped_without_being_closed_leave_the_device():
    scene = scene_of(*(wall(1.0 + k, texture=checkerboard(4)) for k in range(8)))
    library = SceneLibrary.from_scenes([scene])

    def grown_in(rounds):
        before = psutil.Process().memory_info().rss
        for _ in range(rounds):
            renderer = OpenGLRenderer(library)
            renderer.target(Camera(), ALL, 16).render(np.zeros(16, int), np.repeat(AHEAD, 16, axis=0))
        return psutil.Process().memory_info().rss - before

    grown_in(5)
    prepared = 30 * 8 * 4 * 256 * 256 * 4 / 3  # a renderer that is dropped leaves the library its prepared scenes
    assert grown_in(30) < prepared + 25e6


def test_without_opengl_the_error_says_what_to_install(monkeypatch):
    def fail(**keywords):
        raise Exception("no display")

    monkeypatch.setattr(moderngl, "create_standalone_context", fail)
    with pytest.raises(RuntimeError, match="libegl1 libgl1-mesa-dri"):
        context.Context()
    monkeypatch.setattr(context, "shared_context", context.Context)
    assert probe() is None


def test_textures_beyond_the_layers_of_one_array_look_the_same(monkeypatch):
    quads = [Quad((-2 + k, -1, -3), (1, 0, 0), (0, 2, 0), checkerboard(2 + k)) for k in range(5)]
    quads.append(wall(4.0, half=4.0, texture=checkerboard(7), masked=True))
    scenes = [scene_of(*quads), scene_of(*quads[::-1])]
    slots = np.array([0, 1])
    images = []
    for layers in (2048, 3):
        monkeypatch.setitem(shared_context().moderngl.info, "GL_MAX_ARRAY_TEXTURE_LAYERS", layers)
        with rendering(*scenes) as renderer:
            drawn = renderer.target(Camera(), ALL, 2)
            images.append(drawn.render(slots, np.repeat(AHEAD, 2, axis=0)))
            assert len(drawn._drawing._textures.pages) == (1 if layers == 2048 else 4)
    for name in ALL:
        np.testing.assert_array_equal(images[0][name], images[1][name])


def test_too_many_textures_are_refused_by_number(monkeypatch):
    monkeypatch.setitem(shared_context().moderngl.info, "GL_MAX_ARRAY_TEXTURE_LAYERS", 1)
    scene = scene_of(*(wall(1.0 + k, texture=checkerboard(4)) for k in range(9)))
    with rendering(scene) as renderer:
        drawn = renderer.target(Camera(), ALL)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="9 textures"):
                drawn.render(np.zeros(1, int), AHEAD)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("GL_CONTEXT_LOST", "context was lost"),
        ("GL_OUT_OF_MEMORY", "out of memory"),
        ("GL_INVALID_OPERATION", "GL_INVALID_OPERATION"),
    ],
)
def test_a_device_that_fails_is_named_and_lost_contexts_are_replaced(monkeypatch, error, message):
    glcontext = shared_context()
    with rendering(scene_of(wall(2.0))) as renderer:
        drawn = renderer.target(Camera(**METRES), ("depth",))
        drawn.render(np.zeros(1, int), AHEAD)
        monkeypatch.setattr(moderngl.Context, "error", error)
        with pytest.raises(RuntimeError, match=message):
            drawn.render(np.zeros(1, int), AHEAD)
        monkeypatch.undo()
    assert (shared_context() is not glcontext) == (message == "context was lost")
    with rendering(scene_of(wall(3.0))) as renderer:
        drawn = renderer.target(Camera(**METRES), ("depth",))
        assert drawn.render(np.zeros(1, int), AHEAD)["depth"].mean() == pytest.approx(3.0)


def test_images_that_cannot_be_read_are_an_error(monkeypatch):
    with rendering(scene_of(wall(2.0))) as renderer:
        drawn = renderer.target(Camera(**METRES), ("depth",))
        drawn.render(np.zeros(1, int), AHEAD)
        drawn.begin(np.zeros(1, int), AHEAD)
        with shared_context() as ctx:
            for buffer in drawn._drawing._objects.pictures[1].values():
                buffer.orphan(1 << 45)
            if ctx.error != "GL_OUT_OF_MEMORY":
                pytest.skip("this driver grants any amount of memory")
        with pytest.raises(RuntimeError, match="while reading images"):
            drawn.finish()


def test_probe_names_the_device():
    with rendering(rooms.box_room()) as renderer:
        assert probe() == renderer.device == shared_context().moderngl.info["GL_RENDERER"]
        assert renderer.name == "opengl"
