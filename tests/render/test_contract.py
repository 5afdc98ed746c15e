"""The contract of renderers and targets, which all renderers keep."""

import dataclasses
import itertools
import threading

import numpy as np
import pytest
from quads import Quad, checkerboard, rotations, scene_of, wall
from rays import AHEAD, assert_alike, random_views

from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.render.api import SENSOR_FORMATS, SENSORS, make_renderer

pytestmark = pytest.mark.filterwarnings("ignore:renderer='warp'")
METRES = Camera(normalize_depth=False, max_depth=100.0)
SMALL = dataclasses.replace(METRES, width=8, height=8)
SLOT = np.zeros(1, np.int32)


@pytest.fixture
def rendering(name):
    """Makes a renderer of some scenes or of a library; closed afterwards."""
    made = []

    def make(*scenes):
        library = scenes[0] if isinstance(scenes[0], SceneLibrary) else SceneLibrary.from_scenes(list(scenes))
        made.append(make_renderer(name, library))
        return made[-1]

    yield make
    for renderer in made:
        renderer.close()


def walls(*distances):
    return [scene_of(wall(distance)) for distance in distances]


def views_ahead(count):
    return np.repeat(AHEAD, count, axis=0)


def middle(images):
    """The depth in the middle of every picture."""
    height, width = images["depth"].shape[1:3]
    return images["depth"][:, height // 2, width // 2, 0]


def furnished():
    turns = rotations(np.random.default_rng(4), 8)
    return scene_of(*(Quad(back * (1 + k) - right - up, right * 2, up * 2, checkerboard(2 + k))
                      for k, (right, up, back) in enumerate(turns)))  # fmt: skip


def test_pictures_have_the_formats_of_their_sensors(rendering, name):
    renderer = rendering(*walls(2))
    assert renderer.name == name and renderer.device
    for sensors in (SENSORS, ("semantic",), ("rgb", "depth")):
        images = renderer.target(Camera(12, 7), sensors, 3).render(np.zeros(3, int), views_ahead(3))
        assert set(images) == set(sensors)
        for sensor, image in images.items():
            dtype, channels = SENSOR_FORMATS[sensor]
            assert image.dtype == dtype and image.shape == (3, 7, 12, channels)


def test_a_wall_two_metres_ahead_reads_two(rendering):
    renderer = rendering(*walls(2))
    images = renderer.target(METRES, SENSORS).render(SLOT, AHEAD)
    np.testing.assert_allclose(images["depth"], 2, rtol=1e-5)
    assert (images["semantic"] == 1).all()
    np.testing.assert_allclose(renderer.target(Camera()).render(SLOT, AHEAD)["depth"], 0.2, rtol=1e-5)


@pytest.mark.parametrize("sensors", [("depth",), SENSORS], ids="-".join)
def test_depth_is_clipped_and_encoded_as_in_habitat(rendering, sensors):
    renderer = rendering(*walls(0.3, 1.5, 7, -7))
    for normalize, miss, least in itertools.product((True, False), ("far", "zero"), (0.0, 0.5)):
        camera = Camera(8, 8, min_depth=least, max_depth=4.5, normalize_depth=normalize, depth_miss=miss)
        images = renderer.target(camera, sensors, 4).render(np.arange(4), views_ahead(4))
        metres = np.clip([0.3, 1.5, 7, np.inf if miss == "far" else 0], least, 4.5)
        expected = (metres - least) / (4.5 - least) if normalize else metres
        np.testing.assert_allclose(images["depth"], np.tile(expected.reshape(4, 1, 1, 1), (1, 8, 8, 1)), rtol=1e-5)
        assert images["depth"].max() <= camera.depth_encoding.high
        if "semantic" in sensors:  # which sees beyond max_depth
            assert (images["semantic"][:3] == 1).all()


@pytest.mark.parametrize(("width", "height"), [(12, 64), (48, 65), (64, 3)])
def test_pictures_of_any_shape_have_square_pixels(rendering, width, height):
    floor = Quad((-500, -1, 500), (1000, 0, 0), (0, 0, -1000))
    camera = Camera(width, height, hfov_deg=42, normalize_depth=False, max_depth=100)
    images = rendering(scene_of(floor)).target(camera, ("depth", "semantic")).render(SLOT, AHEAD)
    pixel = 2 * np.tan(np.radians(21)) / width
    down = (np.arange(height) + 0.5 - height / 2) * pixel
    below = down > 1e-6
    np.testing.assert_allclose(images["depth"][0, below, :, 0], np.repeat(1 / down[below, None], width, 1), rtol=1e-3)
    assert not images["semantic"][0, down < -1e-6].any()


def test_where_nothing_is_hit_colour_and_object_are_zero(rendering):
    """Behind the camera, and in a scene without vertices."""
    scene = scene_of(wall(-2))
    fields = ("vertices", "uvs", "colors", "triangles", "triangle_material", "triangle_object")
    empty = dataclasses.replace(scene, **{name: getattr(scene, name)[:0] for name in fields})
    images = rendering(scene, empty).target(SMALL, SENSORS, 2).render(np.arange(2), views_ahead(2))
    assert (images["depth"] == 100).all() and not images["rgb"].any() and not images["semantic"].any()


def test_backs_are_culled_only_when_asked_and_single_sided(rendering):
    back = {"origin": (-50, -50, -2), "right": (0, 100, 0), "up": (100, 0, 0)}
    quads = (Quad(**back, double_sided=False), Quad(**back), wall(2.0, double_sided=False))
    renderer = rendering(*(scene_of(quad, wall(3.0)) for quad in quads))
    slots = np.arange(3)
    views = views_ahead(3)
    for culls, expected in ((False, [1, 1, 1]), (True, [2, 1, 1])):
        camera = dataclasses.replace(SMALL, cull_backfaces=culls)
        semantic = renderer.target(camera, ("semantic",), 3).render(slots, views)["semantic"]
        assert semantic[:, 4, 4, 0].tolist() == expected and (semantic == semantic[:, :1, :1]).all()


def test_of_two_single_sided_triangles_in_one_plane_the_one_that_faces_the_camera_is_seen(rendering):
    """Walls of one sheet are often modelled so."""
    back = Quad((-50, -50, -2), (0, 100, 0), (100, 0, 0), double_sided=False)
    renderer = rendering(scene_of(back, wall(2.0, double_sided=False), wall(3.0)))
    camera = dataclasses.replace(SMALL, cull_backfaces=True)
    images = renderer.target(camera, ("depth", "semantic")).render(SLOT, AHEAD)
    np.testing.assert_allclose(images["depth"], 2, rtol=1e-5)
    assert (images["semantic"] == 2).all()


def test_every_view_looks_into_its_own_slot(rendering):
    slots = np.array([2, 0, 1, 1, 2])
    hole = np.zeros((4, 4, 4), np.uint8)
    scenes = [*walls(1), scene_of(wall(1, masked=True, texture=hole), wall(2)), *walls(3)]
    depth = rendering(*scenes).target(SMALL, num_views=5).render(slots, views_ahead(5))["depth"]
    np.testing.assert_allclose(depth.mean(axis=(1, 2, 3)), slots + 1, rtol=1e-5)


def test_permuting_the_views_permutes_the_pictures(rendering):
    target = rendering(furnished(), *walls(1)).target(METRES, SENSORS, 12, buffers=2)
    views = random_views(0, 12, 0.3)
    slots = np.arange(12) % 2
    order = np.random.default_rng(1).permutation(12)
    straight = target.render(slots, views)
    permuted = target.render(slots[order], views[order])
    assert_alike(permuted, {sensor: image[order] for sensor, image in straight.items()})
    assert len({image.tobytes() for image in straight["depth"][::2]}) == 6


def test_fewer_views_than_the_target_holds(rendering):
    target = rendering(furnished()).target(METRES, SENSORS, 6)
    views = random_views(2, 6, 0.3)
    slots = np.zeros(6, int)
    full = {sensor: image.copy() for sensor, image in target.render(slots, views).items()}
    assert_alike(target.render(slots[:2], views[3:5]), {sensor: image[3:5] for sensor, image in full.items()})


@pytest.mark.parametrize("sensors", [("depth",), SENSORS], ids="-".join)
def test_views_into_empty_slots_are_refused_by_name(rendering, sensors):
    library = SceneLibrary([SceneSource("two", lambda: scene_of(wall(2)))], num_spare_slots=2)
    target = rendering(library).target(SMALL, sensors, 3)
    views = views_ahead(3)
    slots = np.array([0, 2, 0])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"slot 2 .*is empty"):
            target.render(slots, views)
    library.put(2, scene_of(wall(3)))
    np.testing.assert_allclose(middle(target.render(slots, views)), [2, 3, 2], rtol=1e-5)
    library.put(0, None)
    with pytest.raises(ValueError, match=r"slot 0 .*is empty"):
        target.render(slots, views)
    np.testing.assert_allclose(middle(target.render(slots[1:2], views[1:2])), [3], rtol=1e-5)


# Batches


def test_pictures_last_until_their_set_is_used_again(rendering):
    target = rendering(*walls(2)).target(SMALL, buffers=3)
    views = view_matrices(np.array([[0, 0, k] for k in range(4)], np.float32), np.zeros(4, np.float32), 0.0)
    first, *others = (target.render(SLOT, view[None])["depth"] for view in views)
    assert not any(np.shares_memory(first, other) for other in others[:2]) and np.shares_memory(first, others[2])
    assert [float(other.mean()) for other in others] == pytest.approx([3, 4, 5])


def test_two_targets_may_be_under_way(rendering):
    renderer = rendering(*walls(2, 3))
    one, other = (renderer.target(SMALL) for _ in range(2))
    one.begin(np.zeros(1, int), AHEAD)
    other.begin(np.ones(1, int), AHEAD)
    assert np.allclose(one.finish()["depth"], 2) and np.allclose(other.finish()["depth"], 3)


def test_two_batches_may_be_under_way_and_the_oldest_is_finished_first(rendering):
    renderer = rendering(*walls(1, 2, 3, 4))
    target = renderer.target(SMALL, num_views=2)
    with pytest.raises(RuntimeError, match="begin"):
        target.finish()
    seen = []
    target.begin(np.array([0]), AHEAD)
    for slot in (1, 2, 3):
        target.begin(np.full(2, slot), views_ahead(2))
        for refused in (target.begin, target.render):
            with pytest.raises(RuntimeError, match="finish"):
                refused(np.full(2, slot), views_ahead(2))
        seen.append(middle(target.finish()).tolist())
    seen.append(middle(target.finish()).tolist())
    assert seen == [pytest.approx([1.0]), *(pytest.approx([1.0 + slot] * 2) for slot in (1, 2, 3))]
    single = renderer.target(SMALL, buffers=1)
    single.begin(np.array([0]), AHEAD)
    with pytest.raises(RuntimeError, match="finish"):
        single.begin(np.array([0]), AHEAD)


# Errors and the end


def test_wrong_input_is_refused_by_name(rendering):
    renderer = rendering(*walls(2))
    for bad in (("lidar",), (), ("depth", "depth"), "depth"):
        with pytest.raises(ValueError, match="sensors"):
            renderer.target(SMALL, bad)
    for keywords in ({"num_views": 0}, {"buffers": 0}, {"device": "tpu"}):
        with pytest.raises(ValueError, match=next(iter(keywords))):
            renderer.target(SMALL, **keywords)
    if renderer.name != "warp" or not renderer.warp_device.is_cuda:
        with pytest.raises((ValueError, RuntimeError), match="cuda"):
            renderer.target(SMALL, device="cuda").render(SLOT, AHEAD)
    target = renderer.target(SMALL, num_views=2)
    views = views_ahead(2)
    for call in (target.render, target.begin):
        with pytest.raises(ValueError, match=r"slots\[1\] = 1"):
            call(np.array([0, 1]), views)
        with pytest.raises(ValueError, match=r"slots\[0\] = -1"):
            call(np.array([-1, 0]), views)
        for broken in (np.zeros(3, int), np.zeros(2, np.float32)):
            with pytest.raises(ValueError, match="slots are"):
                call(broken, views)
        for broken in (views[0], views[:0], views_ahead(3), views.astype(int)):
            with pytest.raises(ValueError, match="views are"):
                call(np.zeros(len(broken), int), broken)
    for broken in (np.full_like(views, np.nan), 2 * views):
        with pytest.raises(ValueError, match=r"views\[0\] is not a rigid"):
            target.render(np.zeros(2, int), broken)
    assert target.render(np.zeros(2, int), views)["depth"].shape == (2, 8, 8, 1)


@pytest.mark.parametrize("field", ["triangles", "triangle_material", "triangle_object"])
def test_scenes_that_name_what_they_lack_are_refused(rendering, field):
    scene = scene_of(wall(2))
    broken = dataclasses.replace(scene, **{field: getattr(scene, field) + np.int32(2**30)})
    for sensors in (("depth",), ("rgb",)):  # surfaces are prepared at the same time as trees
        with pytest.raises(ValueError, match=f"scene 'quads': {field} has values from"):
            rendering(broken).target(METRES, sensors)
    with pytest.raises(ValueError, match=r"scene 'quads': uvs has the shape \(1, 2\)"):
        rendering(dataclasses.replace(scene, uvs=np.zeros((1, 2), np.float32))).target(METRES, ("rgb",))
    materials = dataclasses.replace(scene.materials, base_color=np.ones((9, 4), np.float32))
    with pytest.raises(ValueError, match=r"scene 'quads': materials.base_color has the shape \(9, 4\)"):
        rendering(dataclasses.replace(scene, materials=materials)).target(METRES, ("rgb",))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, 0])
def test_begin_survives_views_that_no_camera_has(rendering, value):
    target = rendering(furnished()).target(SMALL, SENSORS, 4)
    for row in range(3):
        views = random_views(0, 4, 0.3)
        views[1, row] = value
        views[2, :, row] = value
        views[3] = value
        target.begin(np.zeros(4, int), views)
        assert target.finish()["rgb"].shape == (4, 8, 8, 3)


CLOSED = "Renderer is closed: .*let the environment that made it be the last"


def test_closing_is_idempotent_and_final(rendering):
    renderer = rendering(*walls(2))
    closed, left_open, unused = (renderer.target(SMALL) for _ in range(3))
    for target in (closed, left_open):
        target.render(SLOT, AHEAD)
    for closing in (unused, unused, closed, closed):
        closing.close()
    with pytest.raises(RuntimeError, match=r"[Tt]arget is closed: make a new one with renderer\.target"):
        closed.begin(SLOT, AHEAD)
    for closing in (renderer, renderer, closed):
        closing.close()
    for target in (closed, left_open, unused):
        for use in (target.begin, target.render):
            with pytest.raises(RuntimeError, match=CLOSED):
                use(SLOT, AHEAD)
        with pytest.raises(RuntimeError, match=CLOSED):
            target.finish()
    with pytest.raises(RuntimeError, match=CLOSED):
        renderer.target(SMALL)


def test_renderers_of_one_library_share_its_scenes_until_the_last_is_closed(rendering):
    library = SceneLibrary.from_scenes([scene_of(wall(2, texture=checkerboard(4)))])
    first = rendering(library)
    kept = first.target(METRES, ("depth", "rgb"))
    nbytes = library.nbytes
    second = rendering(library)
    second.target(METRES, ("depth", "rgb")).render(SLOT, AHEAD)
    assert library.nbytes == nbytes
    second.close()
    del second
    assert np.allclose(kept.render(SLOT, AHEAD)["depth"], 2)
    library.put(0, scene_of(wall(3)))
    assert np.allclose(kept.render(SLOT, AHEAD)["depth"], 3)
    first.close()
    assert library.nbytes == library.scene(0).nbytes


def test_an_error_in_another_thread_names_the_owner(rendering):
    target = rendering(*walls(2)).target(SMALL)
    target.render(SLOT, AHEAD)
    errors = []

    def draw() -> None:
        for use in (lambda: target.render(SLOT, AHEAD), lambda: target.begin(SLOT, AHEAD), target.finish):
            try:
                use()
            except RuntimeError as error:
                errors.append(str(error))

    thread = threading.Thread(target=draw, name="second")
    thread.start()
    thread.join()
    assert len(errors) == 3
    assert all("'second'" in error and "'MainThread'" in error for error in errors)
    assert np.allclose(target.render(SLOT, AHEAD)["depth"], 2)


def test_renderers_of_several_threads_draw_at_the_same_time(name):
    wrong = []

    def draw(distance: float) -> None:
        renderer = make_renderer(name, SceneLibrary.from_scenes(walls(distance)))
        target = renderer.target(METRES, num_views=8)  # enough pixels for a parallel kernel
        for _ in range(30):
            if not np.allclose(target.render(np.zeros(8, int), views_ahead(8))["depth"], distance):
                wrong.append(distance)
        renderer.close()

    threads = [threading.Thread(target=draw, args=(1.0 + k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
