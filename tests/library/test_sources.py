"""The values of ``scenes=``, the order and names of their scenes; and the cache never returns an outdated scene."""

import functools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rooms import box_room

from gym_batchnav.episodes.habitat import scene_stem
from gym_batchnav.library import sources as recipes
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.sources import (
    are_shipped,
    scene_sources,
    shipped_scenes,
    source_from_recipe,
    with_absolute_paths,
)
from gym_batchnav.scene.save import save_glb


def names(spec) -> list[str]:
    return [source.name for source in scene_sources(spec)]


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def write_room(path: Path, width: float = 8.0) -> None:
    save_glb(box_room(width=width), path)


def width_of(scene) -> float:
    return float(np.ptp(scene.bounds[:, 0]))


def test_ten_thousand_apartments_are_listed_and_none_is_made(monkeypatch):
    monkeypatch.setattr(recipes, "generate_scene", lambda *_, **__: pytest.fail("made one"))
    sources = scene_sources("procedural:0-9999", DiskCache("nowhere"))
    assert len(sources) == 10_000 and sources[9_999].name == "procedural_9999"


def test_a_folder_means_its_scene_files_in_order(tmp_path):
    touch(*(tmp_path / name for name in ("b.glb", "a.OBJ", "notes.txt", "a.navmesh", "c.ply", "inner/d.glb")))
    assert names(tmp_path) == names(str(tmp_path)) == ["a", "b", "c"]


def test_absolute_paths_mean_the_same_scenes_in_any_folder(tmp_path, monkeypatch):
    touch(tmp_path / "x" / "a.glb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "x"))
    spec = ["x", Path("x/a.glb"), "x/*.glb", "~/a.glb"]
    wanted = [source.recipe for source in scene_sources(spec)]
    absolute = with_absolute_paths(spec)
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", "/")
    assert [source.recipe for source in scene_sources(absolute)] == wanted
    kept = ["apartments", "apartment_0", "procedural:0-3?area=30", box_room()]
    assert with_absolute_paths(kept) == kept and with_absolute_paths("apartments") == "apartments"


def test_a_pattern_means_the_scene_files_it_matches(tmp_path, monkeypatch):
    touch(*(tmp_path / name for name in ("x/b.glb", "x/y/a.glb", "x/y/a.bin", "c.glb", "c.obj")))
    assert names(str(tmp_path / "**" / "*.glb")) == ["c", "b", "a"]
    assert names(str(tmp_path / "x" / "*")) == ["b"]
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert [Path(name).suffix for name in names("~/c.*")] == [".glb", ".obj"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    touch(tmp_path / "room[1].glb", tmp_path / "room1.glb")
    assert names(tmp_path / "room[1].glb") == ["room[1]"]


def test_scenes_of_one_name_are_told_apart_and_keep_their_episodes(tmp_path):
    touch(*(tmp_path / name for name in ("a/room.glb", "b/room.glb", "b/room.obj", "b/hall.glb", "c/b/room.glb")))
    found = names([str(tmp_path / "**" / "*")])
    assert len(set(found)) == 5
    assert found[0] == "a/room" and "hall" in found
    assert [scene_stem(name) for name in found].count("room") == 4
    assert names([tmp_path / "a/room.glb"] * 2) == ["room"] * 2  # its name seeds its episodes
    assert names([tmp_path / "a/room.glb", tmp_path / "b/room.glb", tmp_path / "a/room.glb"]) == [
        "a/room", "b/room", "a/room",
    ]  # fmt: skip
    assert len(set(names(["procedural:1", "procedural:1?triangles=9000"]))) == 2


def test_lists_and_generators_of_anything_keep_their_order(tmp_path):
    touch(tmp_path / "b.glb")
    parts = ["apartment_1", tmp_path / "b.glb", box_room("mine"), "procedural:4-5"]
    expected = ["apartment_1", "b", "mine", "procedural_4", "procedural_5"]
    assert names(parts) == names(part for part in parts) == expected
    assert names(["procedural:4", "procedural:4?kind=office"]) == ["procedural_4", "procedural_4?kind=office"]
    assert names("apartments") == list(shipped_scenes())
    for shipped in ("apartments", "apartment_0", ["apartment_0", "apartment_1"]):
        assert are_shipped(shipped)
    for other in (["apartment_0", "house.glb"], "house.glb", box_room()):
        assert not are_shipped(other)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("castle", "unknown scene 'castle'"),
        ("no/such.glb", "does not exist"),
        ("~no_such_user/such.glb", "does not exist"),
        ("*.glb", r"'\*.glb' matches no file"),
        (".", "has no scene in it"),
        ([], "pass at least one"),
        (iter(()), "pass at least one"),
        (7, "scenes=7"),
        ([7], "7 in it"),
        ("procedural:5-3", "smaller than the first"),
        ("procedural:7-100007", "100,000 scenes: narrow"),
        ("procedural:0-999999999999", "100,000 scenes: narrow"),
        ("procedural:five", "write 'procedural:SEED'"),
        ("procedural:1?wings=2", "wings is not one of .*triangles"),
        ("procedural:1?triangles=many", "triangles=20000"),
        ("procedural:1?name=7", "name is not one of"),
        ("procedural:0-9?kind=castle", "kind"),
        ("procedural:0-9?damage=high", "damage"),
        ("procedural:1?triangles", "triangles=20000"),
    ],
)
def test_what_names_nothing_is_refused_with_the_remedy(spec, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        scene_sources(spec)


def test_a_scene_in_memory_has_no_recipe(tmp_path):
    scene = box_room()
    (source,) = scene_sources([scene], DiskCache(tmp_path))
    assert source.recipe is None and source.load() is scene and not list(tmp_path.iterdir())


def test_a_recipe_makes_the_same_scene_elsewhere(tmp_path, monkeypatch, disk):
    (tmp_path / "a").mkdir()
    write_room(tmp_path / "a" / "room.glb")
    monkeypatch.chdir(tmp_path)  # so that a relative path would not be found from elsewhere
    for source in scene_sources(["a/room.glb", "procedural:2?triangles=5000&area=25"], disk):
        recipe = json.loads(json.dumps(source.recipe))
        monkeypatch.chdir("/")
        other = source_from_recipe(recipe, None)
        scene = source.load()
        again = other.load()
        assert other.name == source.name == scene.name == again.name and other.recipe == recipe
        assert np.array_equal(scene.vertices, again.vertices)
        assert scene.metadata.keys() == again.metadata.keys()
    with pytest.raises(ValueError, match="not a recipe"):
        source_from_recipe({"kind": "wish"})
    with pytest.raises(ValueError, match="not a recipe"):
        source_from_recipe({"kind": "file", "wrong": 1})


@pytest.fixture
def disk(tmp_path):
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def count_loads(monkeypatch):
    """A list that grows by one whenever a file is parsed or an apartment generated."""
    made = []
    for maker in ("load_scene", "generate_scene"):
        original = getattr(recipes, maker)

        @functools.wraps(original)  # the options of a scene are the keywords of its maker
        def counted(*arguments, original=original, **keywords):
            made.append(arguments)
            return original(*arguments, **keywords)

        monkeypatch.setattr(recipes, maker, counted)
    return made


def test_a_file_is_parsed_once_and_anew_when_it_changes(tmp_path, count_loads, disk):
    path = tmp_path / "room.glb"
    write_room(path)
    (source,) = scene_sources(path, disk)
    first = source.load()
    second = source.load()
    assert len(count_loads) == 1
    assert np.array_equal(first.triangles, second.triangles) and first.metadata == second.metadata
    status = path.stat()
    write_room(path, width=9.0)
    os.utime(path, (status.st_atime, status.st_mtime))  # as some tools do when they copy
    assert width_of(source.load()) == pytest.approx(9.0) and len(count_loads) == 2
    write_room(path)
    assert width_of(source.load()) == pytest.approx(8.0)


def test_a_copy_elsewhere_is_found_in_the_cache(tmp_path, count_loads, disk):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write_room(tmp_path / folder / "room.glb")
    first, second = (source.load() for source in scene_sources([tmp_path / "a", tmp_path / "b"], disk))
    assert len(count_loads) == 1
    assert [first.name, second.name] == ["a/room", "b/room"]
    assert second.metadata["path"] == str(tmp_path / "b" / "room.glb")


def save_tiles(folder: Path, side: int = 1) -> None:
    Image.new("RGB", (side, side)).save(folder / "tiles.png")


def write_obj(folder: Path) -> Path:
    (folder / "room.obj").write_text(
        "mtllib room.mtl\no floor\nusemtl tiles\nv 0 0 0\nv 4 0 0\nv 4 0 4\nvt 0 0\nvt 1 0\nvt 1 1\nf 3/3 2/2 1/1\n"
    )
    (folder / "room.mtl").write_text("newmtl tiles\nKd 1 0 0\nmap_Kd tiles.png\n")
    save_tiles(folder)
    return folder / "room.obj"


CHANGES = {
    "material": lambda folder: (folder / "room.mtl").write_text("newmtl tiles\nKd 0 1 0\n"),
    "texture": lambda folder: save_tiles(folder, 2),
    "texture gone": lambda folder: (folder / "tiles.png").unlink(),
    "navmesh comes": lambda folder: (folder / "room.navmesh").write_bytes(b"damaged"),
    "stage config comes": lambda folder: (folder / "room.stage_config.json").write_text('{"up": [0, 0, 1]}'),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore:scene")
def test_a_change_in_what_a_file_refers_to_is_noticed(tmp_path, count_loads, change, disk):
    (source,) = scene_sources(write_obj(tmp_path), disk)
    for _ in range(2):
        assert len(source.load().textures) == 1
    assert len(count_loads) == 1
    CHANGES[change](tmp_path)
    try:
        source.load()
    except ValueError as error:
        assert "room.navmesh" in str(error)
    assert len(count_loads) == 2


@pytest.mark.filterwarnings("ignore:scene")
def test_a_missing_texture_that_comes_is_noticed(tmp_path, count_loads, disk):
    path = write_obj(tmp_path)
    (tmp_path / "tiles.png").unlink()
    (source,) = scene_sources(path, disk)
    assert [len(source.load().textures) for _ in range(2)] == [0, 0] and len(count_loads) == 1
    save_tiles(tmp_path)
    assert len(source.load().textures) == 1


def test_a_file_that_changes_while_it_is_read_does_no_harm(tmp_path, monkeypatch, disk):
    path = tmp_path / "room.glb"
    write_room(path)
    original = recipes.load_scene

    def slow(*arguments, **keywords):
        write_room(path, width=9.0)
        return original(*arguments, **keywords)

    (source,) = scene_sources(path, disk)
    monkeypatch.setattr(recipes, "load_scene", slow)
    assert width_of(source.load()) == pytest.approx(9.0)
    monkeypatch.setattr(recipes, "load_scene", original)
    write_room(path)
    assert width_of(source.load()) == pytest.approx(8.0)


@pytest.mark.slow
def test_a_changed_generator_forgets_its_scenes(tmp_path, monkeypatch, count_loads):
    disk = DiskCache(tmp_path)
    (source,) = scene_sources("procedural:1?triangles=6000", disk)
    first = source.load()
    second = source.load()
    assert len(count_loads) == 1 and np.array_equal(first.vertices, second.vertices)
    monkeypatch.setattr(recipes, "_GENERATOR", lambda: "other code")
    third = source.load()
    assert len(count_loads) == 2 and np.array_equal(third.vertices, first.vertices)
    (other,) = scene_sources("procedural:1?triangles=7000", disk)
    assert len(other.load().triangles) > len(third.triangles)


def test_meshes_beside_a_model_of_mujoco_are_its_parts(tmp_path):
    (tmp_path / "home.xml").write_text("<!-- a home -->\n<mujoco><worldbody/></mujoco>")
    (tmp_path / "labels.xml").write_text("<annotation/>")
    for name in ("wall.obj", "chair.STL", "other.glb"):
        (tmp_path / name).write_bytes(b"")
    assert [source.name for source in scene_sources(str(tmp_path))] == ["home", "other"]
    assert [source.name for source in scene_sources(str(tmp_path / "*.xml"))] == ["home"]
    (tmp_path / "home.xml").unlink()
    assert [source.name for source in scene_sources(str(tmp_path))] == ["chair", "other", "wall"]
