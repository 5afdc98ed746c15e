"""The Embree renderer against closed forms and a brute-force ray caster, and the contract of its targets."""

import dataclasses
import gc
import multiprocessing
import os
import platform
import subprocess
import sys
import weakref
from types import SimpleNamespace
from unittest.mock import MagicMock

import numba
import numpy as np
import pytest
import rooms
from quads import scene_of, views_at, wall
from rays import AHEAD, METRES, cast, random_views, render

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.embree.device import Embree, shared_embree
from gym_batchnav.render.embree.renderer import EmbreeRenderer
from gym_batchnav.render.records import build_surface
from gym_batchnav.scene.scene import Materials, Scene


def soup(seed: int, count: int = 60) -> Scene:
    """Triangles all around the origin; every second one is single-sided."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(count, 1, 3)) * 2
    triangles = (centres + rng.normal(size=(count, 3, 3))).astype(np.float32)
    scene = rooms.scene_of("soup", *triangles[:, None])
    materials = dataclasses.replace(scene.materials, double_sided=np.arange(count) % 2 == 0)
    return dataclasses.replace(scene, materials=materials)


@pytest.mark.parametrize(
    ("width", "height", "num_views"), [(64, 64, 5), (37, 23, 8), (5, 64, 8), (1, 1, 8), (66, 3, 8), (301, 203, 1)]
)
def test_triangle_soups_match_brute_force(width, height, num_views):
    """The largest pictures are drawn in bands."""
    camera = dataclasses.replace(METRES, width=width, height=height)
    wrong = total = 0
    for seed in range(2 if width > 100 else 4):
        scene = soup(seed)
        views = random_views(seed, num_views)
        seen = render(scene, views, camera, ("depth", "semantic"))
        for depth, semantic, view in zip(seen["depth"][..., 0], seen["semantic"][..., 0], views, strict=True):
            distance, triangle = cast(scene, camera, view)
            wrong += (~np.isclose(depth, np.minimum(distance, camera.max_depth), rtol=1e-4)).sum()
            wrong += (semantic != np.where(triangle >= 0, scene.triangle_object[triangle], 0)).sum()
            total += 2 * depth.size
    assert wrong <= 5e-4 * total  # rays that graze an edge


def test_walls_of_many_triangles_have_no_cracks():
    columns = np.linspace(-6, 6, 121)
    rows = np.linspace(-3.1, 3.1, 63)
    x, y = np.meshgrid(columns, rows)
    points = np.stack([x, y, np.full_like(x, -2)], axis=-1)
    corners = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    grid = np.concatenate([np.stack([corners[i] for i in t], 2).reshape(-1, 3, 3) for t in ((0, 1, 2), (0, 2, 3))])
    scene = rooms.scene_of("grid", grid.astype(np.float32))
    # An odd number of pixels aims rays exactly at edges and corners that triangles share.
    camera = Camera(63, 63, depth_miss="zero", normalize_depth=False)
    positions = np.array([(a, b, 0) for a in np.arange(-10, 11) * 0.1 for b in np.arange(-5, 6) * 0.1])
    depth = render(scene, views_at(positions, np.broadcast_to(np.eye(3), (len(positions), 3, 3))), camera)["depth"]
    assert np.allclose(depth, 2, rtol=1e-5)


def test_scenes_of_nothing_and_of_slivers():
    one = scene_of(wall(2))
    empty = dataclasses.replace(
        one,
        triangles=np.zeros((0, 3), np.int32),
        triangle_material=np.zeros(0, np.int32),
        triangle_object=np.zeros(0, np.int32),
    )
    assert (render(empty, AHEAD, Camera(), ("depth", "rgb"))["depth"] == 1).all()
    # Rays that hit nothing read the first record and its material.
    bare = Materials(*(getattr(empty.materials, each.name)[:0] for each in dataclasses.fields(Materials)))
    surface = build_surface(dataclasses.replace(empty, materials=bare), 1)
    assert not np.lib.stride_tricks.as_strided(surface.triangles.view(np.uint8), (64,), (1,)).any()
    assert surface.materials["texture"].tolist() == [-1]
    flat = dataclasses.replace(one, vertices=one.vertices * np.float32([1, 0, 1]))
    assert (render(flat, AHEAD, Camera(63, 63), ("depth", "rgb"))["depth"].shape) == (1, 63, 63, 1)


def test_depth_is_the_same_whatever_else_the_kernel_is_compiled_for():
    views = random_views(2, 6)
    library = SceneLibrary.from_scenes([rooms.box_room(), scene_of(wall(2, masked=True))])
    slots = np.zeros(6, np.int32)
    depth = EmbreeRenderer(SceneLibrary.from_scenes([rooms.box_room()])).target(METRES, ("depth",), 6)
    expected = depth.render(slots, views)["depth"]
    assert (expected > 0).mean() > 0.9
    for sensors, bodies in ((("depth",), None), (("depth", "rgb"), None), (("depth", "rgb", "semantic"), library)):
        target = EmbreeRenderer(library, bodies=bodies).target(METRES, sensors, 6)
        np.testing.assert_array_equal(target.render(slots, views)["depth"], expected)


@pytest.mark.parametrize("sensors", [("depth",), ("depth", "rgb", "semantic")])
def test_pictures_depend_on_neither_the_batch_nor_the_threads(sensors):
    scene = soup(5)
    views = random_views(5, 9)
    camera = Camera(70, 50)
    batch = render(scene, views, camera, sensors)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        serial = render(scene, views, camera, sensors)
    finally:
        numba.set_num_threads(threads)
    for sensor in sensors:
        assert (batch[sensor] == serial[sensor]).all()
        for n in range(len(views)):
            assert (render(scene, views[n : n + 1], camera, sensors)[sensor][0] == batch[sensor][n]).all()
    assert numba.get_num_threads() == threads


@pytest.mark.parametrize(("isa", "num_rays"), [("avx2", 8), ("sse4.2", 4)])
def test_processors_with_narrower_packets_draw_the_same(monkeypatch, isa, num_rays):
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("these instructions are of x86")
    texture = np.random.default_rng(1).integers(0, 256, (8, 8, 4), dtype=np.uint8)
    holed = scene_of(wall(1, texture=texture, masked=True, half=2), wall(3, double_sided=False, texture=texture))
    scenes = [soup(5), holed]
    views = np.concatenate([random_views(5, 9), AHEAD])
    slots = np.array([0] * 9 + [1])
    sensors = ("depth", "rgb", "semantic")
    for camera in (Camera(37, 23), Camera(37, 23, cull_backfaces=True)):
        widest = render(scenes, views, camera, sensors, slots)
        with monkeypatch.context() as patch:
            embree = Embree(f"isa={isa}")
            assert embree.num_rays == num_rays
            patch.setattr("gym_batchnav.render.embree.renderer.shared_embree", lambda embree=embree: embree)
            narrow = render(scenes, views, camera, sensors, slots)
        assert np.isclose(widest["depth"], narrow["depth"], rtol=1e-5).mean() > 0.999
        assert (widest["semantic"] == narrow["semantic"]).mean() > 0.999
        assert (np.abs(widest["rgb"].astype(int) - narrow["rgb"]) <= 1).mean() > 0.999


def test_a_machine_without_embree_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("gym_batchnav.render.embree.renderer.shared_embree", shared_embree.__wrapped__)
    with pytest.raises(RuntimeError, match="pip install 'embreex"):
        EmbreeRenderer(SceneLibrary.from_scenes([scene_of(wall(2))]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_error_in_a_forked_child_names_spawn():
    target = EmbreeRenderer(SceneLibrary.from_scenes([scene_of(wall(2))])).target(METRES)
    target.render(np.zeros(1, np.int32), AHEAD)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def draw() -> None:
        try:
            target.render(np.zeros(1, np.int32), AHEAD)
            sender.send("drawn")
        except RuntimeError as error:
            sender.send(str(error))

    child = context.Process(target=draw)
    child.start()
    assert receiver.poll(30), "the child hangs or died"
    assert 'context="spawn"' in receiver.recv()
    child.join(30)
    assert child.exitcode == 0


def test_a_tree_is_built_by_no_other_thread():
    """In a separate process, whose other threads are idle."""
    program = """
import threading, time
import psutil
from gym_batchnav.render.embree.device import shared_embree
from gym_batchnav.library.sources import shipped_scenes
from gym_batchnav.scene.load import load_scene

def seconds_elsewhere():
    own, threads = threading.get_native_id(), psutil.Process().threads()
    return sum(thread.user_time + thread.system_time for thread in threads if thread.id != own)

scene, embree = load_scene(shipped_scenes()["apartment_0"]), shared_embree()
embree.build_tree(scene, cull=False)
before, clock = seconds_elsewhere(), time.thread_time()
for _ in range(8):
    embree.build_tree(scene, cull=False)
print(time.thread_time() - clock, seconds_elsewhere() - before)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    own, elsewhere = map(float, ended.stdout.split())
    assert elsewhere < 0.2 * own


def test_a_tree_is_released_with_its_owner_but_not_when_the_interpreter_ends(monkeypatch):
    made = []
    finalize = weakref.finalize
    monkeypatch.setattr(weakref, "finalize", lambda *given: made.append(finalize(*given)) or made[-1])
    tree = shared_embree().build_tree(scene_of(wall(2)), cull=False)
    assert made[0].alive and not made[0].atexit
    del tree
    gc.collect()
    assert not made[0].alive


@pytest.mark.parametrize("fails_at", ["rtcSetSharedGeometryBuffer", "rtcCommitGeometry"])
def test_a_tree_that_fails_releases_its_geometry(monkeypatch, fails_at):
    embree = Embree()
    lib = embree._library
    watched = SimpleNamespace(**vars(lib))
    watched.rtcNewGeometry = MagicMock(side_effect=lib.rtcNewGeometry)
    watched.rtcReleaseGeometry = MagicMock(side_effect=lib.rtcReleaseGeometry)
    setattr(watched, fails_at, MagicMock(side_effect=RuntimeError("out of memory")))
    with monkeypatch.context() as patch:
        patch.setattr(embree, "_library", watched)
        with pytest.raises(RuntimeError, match="out of memory"):
            embree.build_tree(scene_of(wall(2)), cull=False)
    assert watched.rtcNewGeometry.call_count == watched.rtcReleaseGeometry.call_count == 1
    assert embree.build_tree(scene_of(wall(2)), cull=False).handle
