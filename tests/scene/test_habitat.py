"""Habitat's scene datasets: objects are where the JSON puts them, and nothing outside the folder is read."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import trimesh
from rooms import box, box_room, names_of, scene_of
from scans import write_hm3d, write_mp3d

from gym_batchnav.episodes.habitat import scene_stem
from gym_batchnav.library import sources as recipes
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene import json_values
from gym_batchnav.scene.builder import Placed, compose
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.files import SceneError
from gym_batchnav.scene.habitat import dataset as habitat
from gym_batchnav.scene.habitat.dataset import list_scenes, load_habitat_scene
from gym_batchnav.scene.save import save_glb

DATASET = {
    "stages": {"paths": {".json": ["configs/stages"], ".glb": ["raw/*.glb"]}},
    "objects": {"paths": {".json": ["configs/objects/*"]}, "default_attributes": {"mass": 3}},
    "scene_instances": {"default_attributes": {"default_lighting": ""}, "paths": {".json": ["configs/scenes/*"]}},
    "navmesh_instances": {"walk": "navmeshes/walk.navmesh"},
    "light_setups": {"paths": {".json": ["lights"]}},
}
CRATE = box((0, 0, 0), (0.4, 1.0, 0.2))  # its middle is (0.2, 0.5, 0.1)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_instance(folder, rows, **more):
    instance = {"stage_instance": {"template_name": "stages/room"}, "object_instances": rows, **more}
    write(folder / "configs/scenes/apt_0.scene_instance.json", instance)


def change(path, **more):
    write(path, {**json.loads(path.read_text()), **more})


@pytest.fixture
def folder(tmp_path):
    """A dataset of one room, whose file has z up and half metres, and one crate."""
    folder = tmp_path / "data"
    for name in ("assets", "raw", "navmeshes"):
        (folder / name).mkdir(parents=True)
    room = box_room()
    x, y, z = room.vertices.T
    save_glb(dataclasses.replace(room, vertices=2 * np.stack([x, -z, y], axis=1)), folder / "assets/room_mesh.glb")
    save_glb(scene_of("crate", CRATE[:6], CRATE[6:]), folder / "assets/crate.glb")
    NavMesh.build(room.vertices, room.triangles).save(folder / "navmeshes/walk.navmesh")
    write(folder / "home.scene_dataset_config.json", DATASET)
    stage = {"render_asset": "../../assets/room_mesh.glb", "up": [0, 0, 1], "front": [0, 1, 0], "units_to_meters": 0.5}
    write(folder / "configs/stages/room.stage_config.json", stage)
    write(folder / "configs/objects/crate.object_config.json", {"render_asset": "../../assets/crate.glb"})
    write_instance(folder, [{"template_name": "crate", "translation": [1, 2, 3]}])
    return folder


def load(folder, handle="configs/scenes/apt_0.scene_instance.json"):
    return load_habitat_scene(folder / "home.scene_dataset_config.json", handle)


def bounds_of(scene, number):
    """Bounds of the object of a semantic id."""
    points = scene.vertices[scene.triangles[scene.triangle_object == number]]
    return np.stack([points.min(axis=(0, 1)), points.max(axis=(0, 1))])


def crates_of(scene):
    return [bounds_of(scene, number + 1) for number, name in enumerate(names_of(scene)) if name == "crate"]


def test_a_stage_of_any_frame_is_loaded(folder):
    room = box_room()
    x, y, z = room.vertices.T
    # x up and z to the front, and twice as long along y: none of what load_scene does by itself
    save_glb(dataclasses.replace(room, vertices=np.stack([y, x / 2, -z], axis=1)), folder / "assets/odd.glb")
    attributes = {"render_asset": "../../assets/odd.glb", "up": [1, 0, 0], "front": [0, 0, 1], "scale": [2, 1, 1]}
    write(folder / "configs/stages/odd.stage_config.json", attributes)
    odd = load(folder, "configs/stages/odd.stage_config.json")
    corners = [np.unique(scene.vertices.round(4), axis=0) for scene in (odd, room)]
    np.testing.assert_allclose(*corners, atol=1e-3)


def test_an_object_stands_where_its_centre_is_put(folder):
    scene = load(folder)
    (crate,) = crates_of(scene)
    np.testing.assert_allclose(crate, [[0.8, 1.5, 2.9], [1.2, 2.5, 3.1]], atol=1e-5)
    assert scene.name == "apt_0" and names_of(scene) == (*names_of(box_room()), "crate")
    assert scene.navmesh is None


def test_an_object_may_be_placed_by_its_own_origin(folder):
    row = {"template_name": "crate.object_config.json", "translation": [1, 2, 3]}
    expected = [[1, 2, 3], [1.4, 3, 3.2]]
    write_instance(folder, [{**row, "translation_origin": "asset_local"}])
    np.testing.assert_allclose(crates_of(load(folder))[0], expected, atol=1e-5)
    write_instance(folder, [row, {**row, "translation_origin": "COM"}], translation_origin="asset_local")
    first, second = crates_of(load(folder))
    np.testing.assert_allclose(first, expected, atol=1e-5)
    np.testing.assert_allclose(second.mean(axis=0), [1, 2, 3], atol=1e-5)


def test_an_object_is_scaled_then_turned_about_its_centre_of_mass(folder):
    change(folder / "configs/objects/crate.object_config.json", COM=[0, 0, 0], scale=[1, 1, 2])
    half = np.sqrt(0.5)  # a quarter turn about y takes x to -z and z to x
    row = {"template_name": "crate", "rotation": [half, 0, half, 0], "uniform_scale": 2, "non_uniform_scale": [1, 3, 1]}
    write_instance(folder, [{**row, "translation": [1, 0, 1]}])
    (crate,) = crates_of(load(folder))
    np.testing.assert_allclose(crate, [[1, 0, 1 - 0.8], [1 + 0.8, 6, 1]], atol=1e-5)


def test_too_many_objects_are_refused_before_any_is_looked_at(folder, monkeypatch):
    row = {"template_name": "crate"}
    monkeypatch.setattr(habitat, "MAX_PARTS", 3)
    write_instance(folder, [row] * 3)
    assert len(crates_of(load(folder))) == 3
    monkeypatch.setattr(habitat, "load_scene", lambda *_, **__: pytest.fail("loaded"))
    write_instance(folder, [row] * 4)
    with pytest.raises(SceneError, match=r"apt_0.*: it has 4 objects, the limit is 3: place fewer"):
        load(folder)


def test_a_mirrored_object_keeps_its_fronts_outside(folder):
    write_instance(folder, [{"template_name": "crate", "non_uniform_scale": [-1, 1, 1]}])
    scene = load(folder)
    crate = trimesh.Trimesh(scene.vertices, scene.triangles[scene.triangle_object == len(scene.objects)], process=False)
    assert crate.volume == pytest.approx(0.4 * 1.0 * 0.2, rel=1e-4)


def test_a_navmesh_is_taken_by_name_and_from_a_stage(folder):
    write_instance(folder, [{"template_name": "crate"}], navmesh_instance="walk")
    assert load(folder).navmesh is not None
    change(folder / "configs/stages/room.stage_config.json", nav_asset="../../navmeshes/walk.navmesh")
    assert load(folder, "configs/stages/room.stage_config.json").navmesh is not None
    write_instance(folder, [{"template_name": "crate"}])
    assert load(folder).navmesh is None  # it knows nothing of the crate
    write_instance(folder, [])
    assert load(folder).navmesh is not None


def test_templates_of_the_datasets_file_change_a_file_or_stand_alone(folder):
    large = {"scale": [2, 2, 2], "units_to_meters": 0.5}
    configs = [
        {"original_file": "configs/stages/room.stage_config.json", "template_handle": "changed", "attributes": large},
        {"template_handle": "new", "attributes": {"render_asset": "raw/bare.glb", "scale": [3, 1, 1]}},
        {"original_file": "raw/bare.glb", "template_handle": "more/of_asset"},
    ]
    crates = [
        {"template_handle": "box", "attributes": {"render_asset": "assets/crate.glb", "units_to_meters": 3}},
        {"original_file": "configs/objects/crate.object_config.json", "attributes": {"scale": [1, 2, 1]}},
    ]
    save_glb(box_room(), folder / "raw/bare.glb")
    tables = {"stages": {**DATASET["stages"], "configs": configs}, "objects": {**DATASET["objects"], "configs": crates}}
    change(folder / "home.scene_dataset_config.json", **tables)
    room = np.ptp(box_room().bounds, axis=0)
    rows = [{"template_name": "box"}, {"template_name": "crate"}]
    for template, factors in {"changed": 2, "new": [3, 1, 1], "more/of_asset": 1}.items():
        write_instance(folder, rows, stage_instance={"template_name": template})
        scene = load(folder)
        stage = scene.triangles[scene.triangle_object <= len(scene.objects) - 2]
        np.testing.assert_allclose(np.ptp(scene.vertices[stage], axis=(0, 1)), room * factors, rtol=1e-4)
        box_bounds, crate_bounds = (bounds_of(scene, len(scene.objects) - back) for back in (1, 0))
        np.testing.assert_allclose(np.ptp(box_bounds, axis=0), [1.2, 3.0, 0.6], atol=1e-5)
        np.testing.assert_allclose(np.ptp(crate_bounds, axis=0), [0.4, 2.0, 0.2], atol=1e-5)


def test_a_scene_scales_its_stage(folder):
    change(folder / "configs/stages/room.stage_config.json", nav_asset="../../navmeshes/walk.navmesh")
    scaled = {"template_name": "room", "uniform_scale": 2.0, "non_uniform_scale": [1, 2, 1]}
    write_instance(folder, [], stage_instance=scaled)
    scene = load(folder)
    np.testing.assert_allclose(scene.bounds, box_room().bounds * [2, 4, 2], atol=1e-4)
    assert scene.navmesh is None, "the stage's navmesh has its old size"


def test_what_is_not_supported_is_left_out_with_a_warning(folder):
    more = {"articulated_object_instances": [{}], "stage_instance": {"template_name": "room", "translation": [1, 0, 0]}}
    write_instance(folder, [{"template_name": "crate"}], **more)
    change(folder / "configs/stages/room.stage_config.json", origin=[1, 0, 0])
    with pytest.warns(UserWarning) as caught:
        scene = load(folder)
    for reason in ("articulated", "rotation of its stage", "origin"):
        assert any(reason in sentence for sentence in scene.warnings)
        assert any(reason in str(one.message) for one in caught)


def test_a_dataset_names_its_instances_or_else_its_stages(folder):
    path = folder / "home.scene_dataset_config.json"
    assert list_scenes(path) == ["configs/scenes/apt_0.scene_instance.json"]
    save_glb(box_room(), folder / "raw/TEEsavR23oF.basis.glb")
    (folder / "configs/scenes/apt_0.scene_instance.json").unlink()
    assert [source.name for source in scene_sources(path)] == ["room", "TEEsavR23oF.basis"]
    assert [source.name for source in scene_sources(folder)] == ["room", "TEEsavR23oF.basis"]
    assert scene_stem("hm3d/val/00800-TEEsavR23oF/TEEsavR23oF.basis.glb") == scene_stem("TEEsavR23oF.basis")
    assert scene_stem("data/configs/scenes/apt_0.scene_instance.json") == scene_stem("apt_0")
    assert len(load(folder, "raw/TEEsavR23oF.basis.glb").triangles) == len(box_room().triangles)


def test_a_configuration_beside_an_asset_goes_over_the_defaults(folder):
    defaults = {**DATASET["stages"], "default_attributes": {"scale": [2, 2, 2], "units_to_meters": 3}}
    change(folder / "home.scene_dataset_config.json", stages=defaults)
    save_glb(box_room(), folder / "raw/hall.glb")
    assert np.ptp(load(folder, "raw/hall.glb").vertices[:, 0]) == pytest.approx(8 * 6)
    write(folder / "raw/hall.stage_config.json", {"units_to_meters": 0.5})
    assert np.ptp(load(folder, "raw/hall.glb").vertices[:, 0]) == pytest.approx(8)


@pytest.mark.data
def test_habitats_own_stage_configurations_are_read(data_dir, tmp_path):
    for name in ("simple_room", "stage_floor1"):
        for path in (data_dir / "scenes/habitat_sim_scenes").glob(f"{name}.*"):
            shutil.copy(path, tmp_path)
    write(tmp_path / "a.scene_dataset_config.json", {"stages": {"paths": {".json": ["."]}}})
    room, floor = (found.load() for found in scene_sources(tmp_path))
    assert room.name == "simple_room" and np.ptp(room.vertices[:, 1]) < np.ptp(room.vertices[:, 0])
    raw = tmp_path / "stage_floor1.glb"
    (tmp_path / "stage_floor1.stage_config.json").unlink()
    (plain,) = scene_sources(raw)
    np.testing.assert_allclose(floor.bounds, 2 * plain.load().bounds, rtol=1e-5)


@pytest.mark.parametrize("path", ["../secret.glb", "/etc/secret.glb", "..\\secret.glb", "link/secret.glb"])
def test_nothing_outside_the_folder_is_read(folder, path):
    save_glb(box_room(), folder.parent / "secret.glb")
    (folder / "link").symlink_to(folder.parent)
    asset = path if path.startswith("/") else f"../../{path}"
    write(folder / "configs/stages/room.stage_config.json", {"render_asset": asset})
    with pytest.raises(SceneError, match="folder"):
        load(folder)
    write(folder / "home.scene_dataset_config.json", {"stages": {"paths": {".glb": [path]}}})
    with pytest.raises(SceneError, match="folder"):
        load(folder, list_scenes(folder / "home.scene_dataset_config.json")[0])


def crates(*rows):
    return {"object_instances": [{"template_name": "crate", **row} for row in rows]}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"object_instances": [{"template_name": "sofa"}]}, "'sofa' matches none of its 1 objects"),
        ({"object_instances": [{}]}, "malformed"),
        ({"object_instances": {"template_name": "crate"}}, "object_instances is not a JSON list"),
        (crates({}, {"translation": [1, 2]}), r"nces\[1\]: its translation is not 3 finite numbers \(\[1, 2\]\)"),
        (crates({"rotation": [0, 0, 0, 0]}), "rotation is zero"),
        (crates({"uniform_scale": "big"}), "uniform_scale is not 1"),
        (crates({"uniform_scale": 1e400}), "JSON contains Infinity"),
        (crates({"template_name": ""}), "matches none"),
        ({"stage_instance": {"template_name": "castle"}}, "matches none of its 1 stages"),
        ({"stage_instance": []}, "stage_instance is not a JSON object"),
        ({"navmesh_instance": "fly"}, "malformed"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(folder, changes, reason):
    write_instance(folder, **{"rows": [], **changes})
    with pytest.raises(SceneError, match=reason) as caught:
        load(folder)
    assert "apt_0.scene_instance.json" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 100_000, '{"stages": 3}', '{"stages": {"paths": {".glb": [7]}}}', "{}"]
)
def test_a_damaged_dataset_is_refused_by_name(tmp_path, text):
    path = tmp_path / "bad.scene_dataset_config.json"
    path.write_text(text)
    with pytest.raises(SceneError, match=r"bad\.scene_dataset(?!.*re-export it.*fix it)"):
        list_scenes(path)


def test_two_templates_of_one_name_are_no_answer(folder):
    crate = (folder / "configs/objects/crate.object_config.json").read_text()
    (folder / "configs/objects/more").mkdir()
    (folder / "configs/objects/more/crate.object_config.json").write_text(crate.replace("../..", "../../.."))
    with pytest.raises(SceneError, match="matches 2 objects"):
        load(folder)
    write_instance(folder, [{"template_name": "more/crate"}])
    assert len(crates_of(load(folder))) == 1


def test_a_scene_of_a_dataset_is_kept_until_one_of_its_files_changes(folder, monkeypatch):
    made = []
    original = recipes.load_habitat_scene
    monkeypatch.setattr(recipes, "load_habitat_scene", lambda *rest: made.append(rest) or original(*rest))
    (source,) = scene_sources(folder, DiskCache(folder.parent / "cache"))
    first = source.load()
    again = source.load()
    assert len(made) == 1 and np.array_equal(first.vertices, again.vertices) and again.name == "apt_0"
    save_glb(scene_of("crate", 2 * CRATE), folder / "assets/crate.glb")
    assert np.ptp(crates_of(source.load())[0][:, 0]) == pytest.approx(0.8) and len(made) == 2
    write_instance(folder, [])
    assert not crates_of(source.load()) and len(made) == 3
    source.load()
    assert len(made) == 3


def test_a_configuration_that_is_added_beside_an_asset_is_noticed(folder):
    (folder / "configs/objects/crate.object_config.json").unlink()
    change(folder / "home.scene_dataset_config.json", objects={"paths": {".glb": ["assets/*"]}})
    (source,) = scene_sources(folder, DiskCache(folder.parent / "cache"))
    assert np.ptp(crates_of(source.load())[0][:, 0]) == pytest.approx(0.4)
    write(folder / "assets/crate.object_config.json", {"units_to_meters": 2})
    assert np.ptp(crates_of(source.load())[0][:, 0]) == pytest.approx(0.8)


def test_joined_scenes_keep_their_looks():
    rng = np.random.default_rng(1)
    plain = scene_of("plain", box((0, 0, 0), (1, 1, 1)))
    textured = scene_of("textured", box((0, 0, 0), (1, 1, 1)), box((2, 0, 0), (3, 1, 1)))
    textured = dataclasses.replace(
        textured,
        uvs=rng.random((len(textured.vertices), 2), np.float32),
        textures=(np.zeros((1, 1, 4), np.uint8), np.ones((1, 1, 4), np.uint8)),
        materials=dataclasses.replace(textured.materials, texture=np.array([1, -1], np.int32)),
    )
    other = dataclasses.replace(textured, name="other", textures=(np.full((1, 1, 4), 9, np.uint8),) * 2)
    there = np.eye(4)
    there[:3, 3] = (10, 0, 0)
    parts = [Placed(plain, np.eye(4)), Placed(textured, np.eye(4)), Placed(plain, there, SceneObject("crate", "crate"))]
    parts += [Placed(textured, there, SceneObject("pair", "")), Placed(other, np.eye(4))]
    joined = compose("all", parts)
    assert names_of(joined) == ("object_0", "object_0", "object_1", "crate", "pair", "object_0", "object_1")
    assert [picture.max() for picture in joined.textures] == [0, 1, 9, 9]  # each scene brings its own once
    assert joined.materials.texture.tolist() == [-1, 1, -1, 3, -1]
    rows = [plain.triangle_material, textured.triangle_material + 1]
    assert joined.triangle_material.tolist() == np.concatenate([*rows, *rows, other.triangle_material + 3]).tolist()
    start = len(plain.vertices)
    assert np.array_equal(joined.uvs[start : start + len(textured.uvs)], textured.uvs) and not joined.uvs[:start].any()
    assert joined.colors is None
    corners = joined.vertices[joined.triangles[joined.triangle_object == 5]]
    assert np.array_equal(corners, textured.vertices[textured.triangles] + np.float32([10, 0, 0]))


def test_a_stage_names_its_annotations(folder):
    pytest.importorskip("scipy")
    room = box_room()
    room = dataclasses.replace(room, objects=tuple(SceneObject(kind, kind) for kind in ("hall", "wall", "crate")))
    doubled = dataclasses.replace(room, vertices=2 * room.vertices)
    write_mp3d(doubled, folder / "assets", "marks")  # its y is up, unlike in the room's file
    stage = {"semantic_asset": "../../assets/marks_semantic.ply", "semantic_up": [0, 1, 0]}
    stage |= {"semantic_descriptor_filename": "../../assets/marks.house", "semantic_front": [0, 0, -1]}
    change(folder / "configs/stages/room.stage_config.json", **stage)
    scene = load(folder)
    assert [one.category for one in scene.objects] == ["hall", "wall", "crate", "crate"]
    np.testing.assert_allclose(scene.object_boxes[2], [[1.5, 0, -1], [2.5, 0.7, 0]], atol=1e-5)
    np.testing.assert_allclose(scene.object_boxes[3].mean(axis=0), (1, 2, 3), atol=1e-5)
    assert scene.metadata["semantics"] == "assets/marks.house" and not scene.warnings
    assert {"assets/marks.house", "assets/marks_semantic.ply"} <= set(scene.metadata["files"])


def test_stages_may_lack_annotations_that_are_named_by_a_pattern(folder, tmp_path):
    pytest.importorskip("scipy")
    endings = {"semantic_asset": "semantic.glb", "semantic_descriptor_filename": "semantic.txt", "nav_asset": "navmesh"}
    attributes = {key: f"%%CONFIG_NAME_AS_ASSET_FILENAME%%.{ending}" for key, ending in endings.items()}
    room = box_room()
    save_glb(room, folder / "raw/bare.basis.glb")
    stages = {"default_attributes": attributes, "paths": {".glb": ["raw/*.basis.glb"]}}
    write(folder / "home.scene_dataset_config.json", {"stages": stages})
    (source,) = scene_sources(str(folder / "home.scene_dataset_config.json"), DiskCache(tmp_path / "cache"))
    bare = source.load()
    assert names_of(bare) == names_of(room) and bare.navmesh is None and not bare.warnings
    write_hm3d(room, folder / "raw", "bare", ["hall", "wall", "crate"])
    assert [one.category for one in source.load().objects] == ["hall", "wall", "crate"]  # the cache notices
    NavMesh.build(room.vertices, room.triangles).save(folder / "raw/bare.navmesh")
    assert source.load().navmesh is not None


def test_the_table_of_objects_goes_before_the_lexicon_and_that_before_names(folder):
    change(folder / "home.scene_dataset_config.json", semantic_scene_descriptor_instances={"words": "words.json"})
    write_instance(folder, [{"template_name": "crate"}], semantic_scene_instance="words")
    assert load(folder).objects[-1] == SceneObject("crate", "crate")
    write(folder / "words.json", {"classes": [{"id": 7, "name": "Box"}]})
    change(folder / "configs/objects/crate.object_config.json", semantic_id=7)
    assert load(folder).objects[-1] == SceneObject("crate", "box")
    (folder / "semantics").mkdir()
    (folder / "semantics/objects.csv").write_text("id,main_category,wnsynsetkey\ncrate,,chest.n.01\n")
    assert load(folder).objects[-1] == SceneObject("crate", "chest")
    (folder / "semantics/objects.csv").write_text("name\ncrate\n")
    with pytest.raises(SceneError, match=r"objects\.csv.*no column id"):
        load(folder)


def test_objects_that_are_not_collidable_are_not_solid(folder):
    row = {"template_name": "crate", "translation": [1, 2, 3]}
    write_instance(folder, [row, {**row, "is_collidable": False}])
    scene = load(folder)
    assert [one.solid for one in scene.objects[-2:]] == [True, False]
    assert len(scene.triangles) - len(scene.solid_triangles) == 12


def test_a_dataset_of_too_many_entries_is_refused_before_it_is_parsed(folder, monkeypatch):
    for name, limit, reason in (
        ("MAX_JSON_ITEMS", 5, "entries, the limit is 5"),
        ("MAX_JSON_BYTES", 40, "the limit is 40"),
    ):
        with monkeypatch.context() as patch, pytest.raises(SceneError, match=f"cannot be used: .*{reason}"):
            patch.setattr(json_values, name, limit)
            load(folder)
