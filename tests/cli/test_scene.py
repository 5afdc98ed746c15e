"""``gym-batchnav scene``: its facts about scenes are correct, and environments find prepared scenes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import commands
import numpy as np
import psutil
import pytest
from commands import refusal
from furnished import furnished
from PIL import Image
from rooms import box, box_room, scene_of

import gym_batchnav
from gym_batchnav.flight.task import DroneNav
from gym_batchnav.geometry import Camera, forward_vectors
from gym_batchnav.library import sources as recipes
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import assets_dir, scene_sources
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.save import save_glb
from gym_batchnav.task.imagenav import InstanceImageNav
from gym_batchnav.viz import overviews
from gym_batchnav.viz.facts import describe_scene, scene_in_words

PACKAGE = Path(gym_batchnav.__file__).parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a room and a damaged file, which also receives caches and images."""
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenes").mkdir()
    save_glb(box_room(), tmp_path / "scenes" / "room.glb")
    (tmp_path / "scenes" / "damaged.glb").write_bytes(b"glTF but no more")
    return tmp_path / "scenes"


def run(*arguments, expect=0):
    return commands.run("scene", *arguments, expect=expect)


def facts(*arguments, expect=0):
    """What ``scene info`` says of each scene, or of the only one."""
    found = [json.loads(line) for line in run("info", *arguments, "--json", expect=expect).stdout.splitlines()]
    return found if len(found) > 1 else found[0]


def test_info_counts_measures_and_goes_on_after_a_bad_file(folder):
    damaged, room = facts(folder, expect=1)
    assert damaged["name"] == "damaged" and "damaged.glb" in damaged["refused"]
    assert (room["triangles"], room["objects"], room["materials"], room["textures"]) == (36, 3, 3, 0)
    assert room["categories"] == {"object": 3} and room["semantics"] == ""
    assert room["size"] == pytest.approx([8.0, 2.6, 6.0]) and room["bounds"][0] == pytest.approx([-4, 0, -3])
    assert room["bytes"] == scene_sources(folder / "room.glb")[0].load().nbytes
    free = 7.8 * 5.8 - 0.4 * 4.4 - 1.2 * 1.2  # floor less what is within 0.1 m of the walls, the wall and the crate
    assert room["walkable_area"] == pytest.approx(free, rel=0.05)  # plus, perhaps, the crate's top
    assert sum(room["islands"]) == pytest.approx(room["walkable_area"]) and room["islands"][0] == max(room["islands"])
    assert room["island_kinds"][0] == "floor" and room["episode_area"] == room["islands"][0]
    walkable = f"{room['walkable_area']:.1f} m2, of which episodes use {room['episode_area']:.1f} m2"
    text = " ".join(run("info", folder / "room.glb").stdout.split())
    assert walkable in text and f"{room['islands'][0]:.1f} (floor)" in text


def test_info_tells_that_a_doorway_is_too_narrow_for_the_agent(folder):
    walls = [box((-0.1, 0, low), (0.1, 2.6, high)) for low, high in ((-3, -0.3), (0.3, 3))]
    save_glb(scene_of("flat", box((-4, 0, -3), (4, 2.6, 3), inward=True), *walls), folder / "flat.glb")
    assert facts(folder / "flat.glb")["warnings"] == []
    (note,) = facts(folder / "flat.glb", "--agent", "radius=0.4")["warnings"]
    assert "radius 0.4 m cannot reach" in note and "m2 of floor (1 island)" in note and "floors='habitat'" in note


def test_the_most_frequent_categories_come_after_size_and_warnings():
    found = describe_scene(box_room())
    found |= {"categories": {f"kind {number}": 20 - number for number in range(12)}, "warnings": ["it is dark"]}
    found["bounds"] = [[-0.001, 0.0, -3.0], [4.0, 2.6, 3.0]]
    words = scene_in_words({**found, "walkable_area": 20.0, "islands": [20.0], "agent_radius": 0.1})
    assert list(words)[-2:] == ["note 1", "categories"] and words["from"] == "0.00, 0.00, -3.00"
    assert words["categories"].startswith("kind 0 20, ") and words["categories"].endswith("kind 9 11 and 2 more")


def test_info_tells_what_was_guessed(folder, tmp_path):
    path = tmp_path / "tall.obj"
    path.write_text("o floor\nv 0 0 0\nv 6000 0 0\nv 6000 0 6000\nv 0 0 6000\nv 0 2500 0\nf 4 3 2 1\nf 1 2 5\n")
    text = run("info", path).stdout
    assert "millimetres" in text and "6.00 x 2.50 x 6.00 m" in text


def test_info_draws_a_map_eight_places_and_the_navmesh(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(overviews, "_PLACES", 8)
    out = tmp_path / "new"
    fact = facts(folder / "room.glb", "--out", out)
    names = ["room_view.png", "room_navmesh.png", "room.navmesh"]
    assert fact["files"] == [str(out / name) for name in names]
    with Image.open(out / "room_view.png") as image:
        pixels = np.asarray(image)
    places = pixels[:, -4 * 258 :]
    tiles = [places[top : top + 250, left : left + 250] for top in (4, 262) for left in (2, 260, 518, 776)]
    assert all(len(np.unique(tile.reshape(-1, 3), axis=0)) > 1 for tile in tiles)
    assert not np.array_equal(tiles[0], tiles[1])
    with Image.open(out / "room_navmesh.png") as image:
        assert len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) > 3
    assert NavMesh.load(out / "room.navmesh").navigable_area == pytest.approx(fact["walkable_area"], rel=1e-3)


def test_info_describes_a_navmesh_file_and_goes_on_after_those_that_cannot_be_read(folder, tmp_path):
    for name, data in (("apartment", (assets_dir() / "apartment_4.navmesh").read_bytes()), ("bad", b"bad")):
        (tmp_path / f"{name}.navmesh").write_bytes(data)
    files = [tmp_path / f"{name}.navmesh" for name in ("apartment", "bad", "none")]
    area = NavMesh.load(files[0]).navigable_area
    good, bad, none, room = facts(*files, folder / "room.glb", expect=1)
    assert good["walkable_area"] == pytest.approx(area)
    assert "build or copy it again" in bad["refused"] and "does not exist" in none["refused"]
    assert room["name"] == "room" and "refused" not in room
    text = run("info", files[0], "--out", tmp_path).stdout
    assert f"walkable {area:,.1f} m2" in text and (tmp_path / "apartment_navmesh.png").is_file()


def test_info_rotates_a_room_on_request_and_prints_the_configuration_for_it(folder, tmp_path):
    corners = [(0, 0, 0), (6, 0, 0), (6, 4, 0), (0, 4, 0), (0, 0, 250), (6, 0, 250)]
    faces = [(1, 2, 3), (1, 3, 4), (1, 2, 6), (1, 6, 5)]  # a floor in the plane of x and y, and one wall
    lines = [f"v {100 * x} {100 * y} {z}" for x, y, z in corners] + ["f {} {} {}".format(*face) for face in faces]
    path = tmp_path / "flat.obj"
    path.write_text("\n".join(lines))
    said = run("info", path, "--up", "z", "--scale", "0.01").output
    (line,) = (line for line in said.splitlines() if "stage_config" in line)
    (tmp_path / "flat.stage_config.json").write_text(line[line.index("{") :])
    fact = facts(path)
    assert fact["size"] == pytest.approx([6, 2.5, 4]) and fact["walkable_area"] > 20


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"up": [3, 0, 4], "front": [0, 1, 0]}, ["--scale", "0.5"]),  # between two axes
        ({"scale": [1, 2, 1], "units_to_meters": 3}, ["--up", "y"]),
        ({"up": [1, 0, 0], "front": [0, 0, 1], "scale": [1, 2, 3]}, ["--up", "z", "--scale", "3"]),
    ],
)
def test_what_info_says_to_keep_over_a_configuration_is_read_so(folder, config, options):
    path = folder / "room.glb"
    beside = folder / "room.stage_config.json"
    beside.write_text(json.dumps(config))
    expected = facts(path, *options)
    keep = expected["keep"]
    assert "'room.stage_config.json' next to it" in keep
    beside.write_text(json.dumps({**config, **json.loads(keep[keep.index("{") :])}))
    np.testing.assert_allclose(facts(path)["bounds"], expected["bounds"], atol=1e-4)


@pytest.mark.parametrize(
    ("command", "option", "value", "said"),
    [
        ("info", "--out", "scenes/room.glb", "a file is in its place"),
        ("info", "--agent", "radius=-1", "agent='radius=-1': agent_radius=-1.0: pass a number of at least 0"),
        ("prepare", "--episode-file", "nowhere.json", "nowhere.json: the file does not exist"),
        ("prepare", "--agent", "size=3", "agent='size=3': unknown name 'size'; available: radius, height"),
        ("prepare", "--agent", "radius", "agent='radius': could not convert string to float: ''; write radius="),
    ],
)
def test_a_path_that_cannot_be_used_is_refused_before_the_work(folder, monkeypatch, command, option, value, said):
    monkeypatch.setattr(recipes, "load_scene", lambda *_, **__: pytest.fail("loaded"))
    assert said in refusal("scene", command, folder / "room.glb", option, value)


def test_the_best_viewpoints_visit_every_room(monkeypatch):
    monkeypatch.setattr(overviews, "_PLACES", 24)
    left = box((-8, 0, -2), (-0.1, 2.6, 2), inward=True)
    right = box((0.1, 0, -2), (8, 2.6, 2), inward=True)
    scene = scene_of("two", left, right)
    navmesh = NavMesh.build(scene.vertices, scene.triangles)
    renderer = make_renderer("embree", SceneLibrary.from_scenes([scene]))
    position, heading = overviews.best_viewpoints(renderer, navmesh, Camera(), 2, np.random.default_rng(0))
    renderer.close()
    assert np.sign(position[:, 0]).sum() == 0  # one in each room
    along = np.abs(forward_vectors(heading)[:, 0])
    inward = -np.sign(forward_vectors(heading)[:, 0]) == np.sign(position[:, 0] - 4 * np.sign(position[:, 0]))
    assert (along > 0.5).all() and inward.all()  # down the long side, away from the nearer end


def test_info_draws_from_outside_where_nobody_can_walk(folder, tmp_path):
    save_glb(scene_of("pole", box((0, 0, 0), (0.02, 2, 0.02))), folder / "pole.glb")
    assert "no walkable area" in run("info", folder / "pole.glb", "--out", tmp_path).stdout
    with Image.open(tmp_path / "pole_view.png") as image:
        assert image.width > 4 * 256 and np.asarray(image)[128:130].std() > 10
    assert not (tmp_path / "pole.navmesh").exists()


def test_prepare_fills_the_cache_and_lists_what_was_refused(folder, monkeypatch):
    result = run("prepare", folder, "--workers", 2, "--num-episodes", 30, "--agent", "radius=0.2", expect=1)
    assert "1 of 2 scenes" in result.output and "damaged" in result.output and "cut short" in result.output
    monkeypatch.setattr(recipes, "load_scene", lambda *_, **__: pytest.fail("parsed"))
    monkeypatch.setattr("gym_batchnav.navmesh.mesh.NavMesh.build", lambda *_, **__: pytest.fail("built"))
    (source,) = scene_sources(folder / "room.glb", DiskCache())
    navigation = NavigationPreparer(NavMeshSettings(agent_radius=0.2), None, 30, DiskCache())(source.load())
    assert len(navigation.episode_set) == 30


@pytest.mark.parametrize(
    ("task", "searches"),
    [
        (DroneNav(), "gym_batchnav.flight.episodes.find_air"),
        (InstanceImageNav(), "gym_batchnav.episodes.samplers.find_instances"),
    ],
)
def test_prepare_finds_the_air_for_flying_agents_and_episodes_that_lead_to_one_object(
    folder, monkeypatch, in_this_process, task, searches
):
    path = folder / "chair.glb"
    save_glb(furnished(chair_1=((-2.0, 0, -2.0), (-1.5, 0.7, -1.5))), path)
    words = ("prepare", path, "--task", type(task).__name__.lower(), "--num-episodes", 3, "--workers", 1)
    assert "reads no files" in refusal("scene", *words, "--episode-file", path)
    run(*words)
    monkeypatch.setattr(searches, lambda *_, **__: pytest.fail("searched"))
    (source,) = scene_sources(path, DiskCache())
    navigation = NavigationPreparer(None, None, 3, DiskCache(), task.sampler)(source.load())
    assert len(navigation.episode_set) == 3


def test_prepare_gives_up_where_no_process_lives(folder, monkeypatch):
    monkeypatch.setattr("gym_batchnav.system.child.sys.executable", shutil.which("false") or "false")
    assert "3 times in a row" in refusal("scene", "prepare", "procedural:0-99")


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent otherwise on Windows")
@pytest.mark.slow
def test_ctrl_c_ends_prepare_and_leaves_nothing_partial(tmp_path):
    cache = tmp_path / "cache"
    # Whoever started the tests in the background has had Ctrl-C ignored.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    program += "from gym_batchnav.cli import main; main()"
    arguments = ["scene", "prepare", "procedural:0-500?triangles=6000", "--workers", "2"]
    # Found in the folder it is started in, as in a checkout that is not installed.
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], cwd=PACKAGE.parent, stderr=subprocess.PIPE,
        env={**os.environ, "GYM_BATCHNAV_CACHE": str(cache)},
    )  # fmt: skip
    try:
        end = time.monotonic() + 120
        while not (cache.is_dir() and any(cache.glob("*.entry"))):
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        children = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)  # all homes would take longer
    finally:
        process.kill()
    assert process.returncode != 0
    assert len(children) == 2 and psutil.wait_procs(children, timeout=300)[1] == []
    assert all(path.suffix == ".entry" and not path.name.startswith(".") for path in cache.iterdir())


def test_info_tells_what_resident_scenes_cost_before_a_large_file_is_read(folder, monkeypatch):
    monkeypatch.setattr(sys.modules["gym_batchnav.cli.scene.info"], "_LARGE", 1)
    (line,) = (line for line in run("info", folder / "room.glb").stderr.splitlines() if "resident about" in line)
    assert line.startswith("room: 36 triangles, 0 textures")
    assert float(line.partition("about ")[2].split()[0]) == pytest.approx(0.009, abs=0.06)
    assert facts(folder / "room.glb")["resident_bytes"].keys() == {"embree", "opengl", "gpu"}
