"""The OpenGL renderer follows a library whose slots change, and its memory stays where it was."""

import itertools
import weakref
from contextlib import contextmanager

import moderngl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quads import Quad, checkerboard, scene_of, wall
from rays import AHEAD

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.render.opengl import OpenGLRenderer, heap, mirror
from gym_batchnav.render.opengl.context import shared_context
from gym_batchnav.render.opengl.heap import SlotHeap

pytestmark = pytest.mark.opengl

ALL = ("depth", "rgb", "semantic")
CAMERA = Camera(32, 32, normalize_depth=False, max_depth=100.0)


@pytest.fixture(autouse=True)
def no_gl_error():
    yield
    assert shared_context().moderngl.error == "GL_NO_ERROR"


def scene_number(seed, most_quads=40):
    """A wall whose distance is known and some pictures before it, more or fewer triangles and textures by chance."""
    rng = np.random.default_rng(seed)
    distance = 3.0 + seed % 7
    quads = [wall(distance, base_color=(*rng.uniform(size=3), 1))]
    for _ in range(rng.integers(1, most_quads)):
        texture = rng.integers(0, 256, (4, 4, 4), np.uint8) if rng.random() < 0.15 else None
        masked = bool(rng.integers(2))
        double_sided = bool(rng.integers(2))
        corner = (*rng.uniform(-1.5, 1.5, 2), -rng.uniform(1, 2.5))
        quads.append(Quad(corner, (0.3, 0, 0), (0, 0.3, 0), texture, masked=masked, double_sided=double_sided))
    return scene_of(*quads)


def sheet(size):
    """A wall 5 m ahead of ``size`` x ``size`` quads, to fill a buffer with."""
    edge = 20 / size
    return scene_of(*(Quad((edge * (k % size) - 10, edge * (k // size) - 10, -5), (edge, 0, 0), (0, edge, 0))
                      for k in range(size * size)))  # fmt: skip


@contextmanager
def rendering(library, num_views, sensors=ALL):
    renderer = OpenGLRenderer(library)
    yield renderer, renderer.target(CAMERA, sensors, num_views)
    renderer.close()


def fresh(library, slots):
    """Return the images of a renderer that has drawn no other scene."""
    with rendering(library, len(slots)) as (_, target):
        return target.render(slots, np.repeat(AHEAD, len(slots), axis=0))


def assert_same(images, expected):
    for name in ALL:
        np.testing.assert_array_equal(images[name], expected[name])


# Following the library


@pytest.mark.parametrize("layers", [2048, 5])
def test_pictures_are_right_after_every_swap(monkeypatch, layers):
    monkeypatch.setitem(shared_context().moderngl.info, "GL_MAX_ARRAY_TEXTURE_LAYERS", layers)
    library = SceneLibrary.from_scenes([scene_number(seed) for seed in range(3)])
    slots = np.array([0, 1, 2])
    rng = np.random.default_rng(0)
    with rendering(library, 3) as (_, target):
        for step in range(12):
            assert_same(target.render(slots, np.repeat(AHEAD, 3, axis=0)), fresh(library, slots))
            library.put(int(rng.integers(3)), scene_number(100 + step))


def test_a_new_scene_is_uploaded_little_by_little_unless_it_is_looked_at(monkeypatch):
    written = count_writes(monkeypatch)
    monkeypatch.setattr(heap, "PIECE_BYTES", 1000)
    monkeypatch.setattr(mirror, "UPLOAD_BYTES", 4000)
    library = SceneLibrary([SceneSource("first", lambda: scene_number(0))], num_spare_slots=1)
    with rendering(library, 1, ("depth",)) as (_, target):
        target.render(np.array([0]), AHEAD)
        for looked_at in (False, True):
            library.put(1, sheet(40))
            written.clear()
            for step in range(1, 6):
                target.render(np.array([0]), AHEAD)
                assert 3000 * step <= sum(written) <= 4000 * step
            if looked_at:
                image = target.render(np.array([1]), AHEAD)["depth"]
                np.testing.assert_allclose(image, 5.0, rtol=1e-5)
                whole = sum(written)
                assert whole > 150_000
            for _ in range(50):
                target.render(np.array([0]), AHEAD)
        assert sum(written) == whole  # nothing is written twice


def test_a_scene_larger_than_its_range_sends_no_other_scene_again(monkeypatch):
    written = count_writes(monkeypatch)
    library = SceneLibrary.from_scenes([sheet(40), scene_number(1), scene_number(2)])
    slots = np.array([0, 1, 2])
    with rendering(library, 3) as (_, target):
        target.render(slots, np.repeat(AHEAD, 3, axis=0))
        for slot, scene in ((1, sheet(20)), (2, sheet(30)), (1, None), (1, sheet(25))):
            written.clear()
            library.put(slot, scene)
            if scene is not None:
                images = target.render(slots, np.repeat(AHEAD, 3, axis=0))
                assert 40_000 < sum(written) < 300_000 < 390_000  # the sheet in slot 0 is 390,000 bytes and more
                assert_same(images, fresh(library, slots))


def count_writes(monkeypatch):
    """A list that gets the bytes of everything that heaps write to the device."""
    written = []
    original = SlotHeap.write

    def write(self, *arguments):
        for nbytes in original(self, *arguments):
            written.append(nbytes)
            yield nbytes

    monkeypatch.setattr(SlotHeap, "write", write)
    return written


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60)), max_size=25))
def test_a_heap_keeps_what_every_slot_holds(changes):
    context = shared_context()
    held = {}
    rng = np.random.default_rng(0)
    with context:
        slots = SlotHeap(context, 5, {"short": 2, "long": 8}, 300)
        for slot, size in changes:
            slots.place({slot: size})
            held[slot] = {"short": rng.integers(0, 99, size, np.int16), "long": rng.integers(0, 99, size, np.int64)}
            for name, contents in held[slot].items():
                assert sum(slots.write(name, slot, contents)) == contents.nbytes
            for other, contents in held.items():
                start = slots.start[other]
                end = slots.start[other] + slots.size[other]
                for name, dtype in (("short", np.int16), ("long", np.int64)):
                    whole = np.frombuffer(slots.buffer(name).read(), dtype)
                    np.testing.assert_array_equal(whole[start:end], contents[name])
            sizes = np.array([len(held[k]["long"]) if k in held else 0 for k in range(5)])
            assert sizes.sum() <= slots.capacity <= min(max(4 * heap.full_size(sizes), 1), 300)


@pytest.mark.parametrize("fails", ["any buffer", "the second buffer", "the device"])
def test_a_renderer_without_memory_draws_again_once_there_is_some(monkeypatch, live_objects, fails):
    context = shared_context()
    make_buffer = moderngl.Context.buffer
    library = SceneLibrary.from_scenes([scene_number(0), scene_number(1)])
    slots, views = np.array([0, 1]), np.repeat(AHEAD, 2, axis=0)
    numbers = itertools.count()

    def refuse(*arguments, **keywords):
        if fails == "the second buffer" and next(numbers) % 2 == 0:
            return make_buffer(*arguments, **keywords)
        raise RuntimeError("no memory")

    with rendering(library, 2) as (_, target):
        target.render(slots, views)
        library.put(1, scene_number(2, most_quads=400))
        before = len(live_objects())
        with monkeypatch.context() as patch:
            patch.setattr(*((context, "check") if fails == "the device" else (moderngl.Context, "buffer")), refuse)
            for _ in range(2):
                with pytest.raises(RuntimeError, match="no memory"):
                    target.render(slots, views)
        assert len(live_objects()) == before
        assert_same(target.render(slots, views), fresh(library, slots))


# Memory


@pytest.fixture
def live_objects(monkeypatch):
    """A function that returns the objects on the device that were made during the test and not released."""
    made = []

    def keeping(original):
        def make(*arguments, **keywords):
            new = original(*arguments, **keywords)
            made.append(weakref.ref(new))
            return new

        return make

    kinds = "buffer", "texture", "depth_texture", "texture_array", "framebuffer", "program", "compute_shader"
    for method in (*kinds, "vertex_array"):
        monkeypatch.setattr(moderngl.Context, method, keeping(getattr(moderngl.Context, method)))

    def live():
        existing = [each() for each in made]
        return [each for each in existing if each is not None and not isinstance(each.mglo, moderngl.InvalidObject)]

    return live


def test_a_large_scene_that_leaves_takes_its_memory_along(monkeypatch, live_objects):
    large = scene_of(*(wall(1.0 + k, texture=checkerboard(4)) for k in range(60)))
    library = SceneLibrary.from_scenes([scene_number(0), scene_number(1)])
    make = shared_context().srgb_texture_array

    def counting(side, count):
        array = make(side, count)
        array.extra = count
        return array

    def held():
        return sum(each.extra for each in live_objects() if isinstance(each, moderngl.TextureArray) and each.extra)

    monkeypatch.setattr(shared_context(), "srgb_texture_array", counting)
    with rendering(library, 1) as (_, target):
        target.render(np.array([0]), AHEAD)
        before = held()
        library.put(1, large)
        target.render(np.array([1]), AHEAD)
        assert held() >= before + 60
        library.put(1, scene_number(1))
        target.render(np.array([0]), AHEAD)
        assert held() <= 4 * before


def test_closing_leaves_no_object(live_objects):
    library = SceneLibrary.from_scenes([scene_number(3)])
    for finishes in (False, True):
        with rendering(library, 4) as (_, target):
            target.begin(np.zeros(4, int), np.repeat(AHEAD, 4, axis=0))
            if finishes:
                target.finish()
        assert not live_objects() and not shared_context().moderngl.objects


def test_pages_of_textures_that_the_device_refuses_are_given_back(monkeypatch, live_objects):
    scene = scene_of(*(wall(1.0 + k, texture=checkerboard(4)) for k in range(4)))
    glcontext = shared_context()
    monkeypatch.setitem(glcontext.moderngl.info, "GL_MAX_ARRAY_TEXTURE_LAYERS", 1)  # a page per texture
    make = glcontext.srgb_texture_array
    renderer = OpenGLRenderer(SceneLibrary.from_scenes([scene]))
    target = renderer.target(Camera(), ("rgb",))
    slots = np.zeros(1, int)
    views = np.eye(4, dtype=np.float32)[None]

    def pages():
        return sum(isinstance(made, moderngl.TextureArray) for made in live_objects())

    for before in (0, 2):
        left = iter(range(before))

        def failing(side, layers, left=left):
            if next(left, None) is None:
                raise RuntimeError("no memory for a page")
            return make(side, layers)

        with monkeypatch.context() as patch:
            patch.setattr(glcontext, "srgb_texture_array", failing)
            with pytest.raises(RuntimeError, match="no memory for a page"):
                target.render(slots, views)
        assert pages() == 0
    target.render(slots, views)
    assert pages() == 4
    renderer.close()
    assert pages() == 0
