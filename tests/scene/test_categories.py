"""Objects of scenes: their boxes, and the names and numbers of their categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from furnished import furnished
from rooms import box, named, scene_of

from gym_batchnav.library.packing import pack_scene, unpack_scene
from gym_batchnav.scene.categories import (
    MPCAT40,
    SEMANTIC_CLASSES,
    SceneObject,
    SemanticIds,
    category_in_extras,
    common_name,
    number_of,
)
from gym_batchnav.scene.load import load_scene
from gym_batchnav.scene.save import save_glb


def test_datasets_call_one_thing_by_several_names():
    assert common_name("Couch") == common_name("sofa") == "sofa"
    assert common_name("tv_monitor") == common_name("television") == common_name("tv") == "tv"
    assert common_name("kitchen  cabinet") == "cabinet" and common_name("spaceship") == "spaceship"


def test_a_name_of_its_own_goes_before_the_common_one():
    numbers = {"sofa": 1, "couch": 2}
    assert number_of("couch", numbers) == 2 and number_of("loveseat", numbers) == 1
    assert number_of("", {"": 3}) == 3 and number_of("", numbers) is None and number_of("bed", numbers) is None


def test_categories_of_generated_homes_have_numbers_of_matterport():
    ids = SemanticIds.of("category")
    numbers = dict(ids.numbers)
    assert number_of("tv", numbers) == MPCAT40.index("tv_monitor") == 22 and number_of("desk", numbers) == 5
    assert all(number_of(name, numbers) for name in SEMANTIC_CLASSES)


def test_triangles_get_the_number_of_their_category():
    scene = furnished()
    scene = replace(scene, triangle_object=np.where(scene.triangle_object == 1, 0, scene.triangle_object))
    drawn = SemanticIds.of({"Crate": 7, "wall": 9}).of_triangles(scene)
    by_object = {one: set(drawn[scene.triangle_object == one].tolist()) for one in range(6)}
    assert by_object == {0: {0}, 1: set(), 2: {9}, 3: {7}, 4: {7}, 5: {0}} and drawn.dtype == np.int32
    assert SemanticIds.of("instance").of_triangles(scene) is scene.triangle_object


@pytest.mark.parametrize(
    "value", ["categories", {}, {"chair": -1}, {"chair": 2**31}, {"chair": 1.5}, {"": 1}, {3: 1}, 7]
)
def test_other_ids_are_refused(value):
    with pytest.raises(ValueError, match="semantic_ids="):
        SemanticIds.of(value)


def test_boxes_are_those_of_the_triangles():
    ends = [((0, 0, 0), (1, 2, 3)), ((-4, 1, 0), (-3, 2, 5))]
    scene = scene_of("two", *(box(*one) for one in ends))
    np.testing.assert_array_equal(scene.object_boxes, np.array(ends, np.float32))
    hidden = replace(scene, objects=named("a", "b", "c"), triangle_object=scene.triangle_object * 2 - 1)
    assert np.isnan(hidden.object_boxes[1]).all(), "it has no triangles"
    np.testing.assert_array_equal(hidden.object_boxes[[0, 2]], scene.object_boxes)
    nothing = replace(scene, triangle_object=np.zeros(len(scene.triangles), np.int32))
    assert np.isnan(nothing.object_boxes).all()
    unlisted = replace(scene, objects=())
    assert unlisted.object_boxes.shape == (0, 2, 3)
    assert not SemanticIds.of("category").of_triangles(unlisted).any()
    unlisted.check()
    np.testing.assert_array_equal(unpack_scene(pack_scene(unlisted)).triangle_object, scene.triangle_object)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("wall_clock_3", "wall_clock"),
        ("Office_Chair_7", "office_chair"),
        ("Chair.012", "chair"),
    ],
)
def test_a_name_suggests_a_category_whatever_its_case(name, category):
    assert SceneObject.named(name) == SceneObject(name, category)
    assert SceneObject.named(name, " Throne ") == SceneObject(name, "throne"), "the category that its file states"


def test_objects_of_generated_homes_have_their_class_also_when_saved_and_those_of_users_their_own(tmp_path):
    scene = scene_of("two", box((0, 0, 0), (1, 1, 1)), box((2, 0, 0), (3, 1, 1)), box((4, 0, 0), (5, 1, 1)))
    own = SceneObject.generated("books_1"), SceneObject.generated("wall_kitchen_2")
    assert [one.category for one in own] == ["clutter", "wall"]
    scene = replace(scene, objects=(*own, SceneObject.named("books_2")))
    save_glb(scene, tmp_path / "home.glb")
    file = tmp_path / "home.glb"
    assert [one.category for one in load_scene(file).objects] == ["clutter", "wall", "books"]
    file.write_bytes(file.read_bytes().replace(b'"category":"books"', b'"class":"my books"'))
    assert load_scene(file).objects[2].category == "my books"


@pytest.mark.parametrize(
    ("extras", "category"),
    [
        ({"category": "Sofa"}, "Sofa"),
        ({"semantic": "lamp", "class": "light"}, "lamp"),
        ({"category": 7, "class": "bed"}, "bed"),
        ({"category": " "}, ""),
        ("sofa", ""),
        (None, ""),
    ],
)
def test_extras_state_a_category(extras, category):
    assert category_in_extras({"extras": extras}) == category


def test_categories_survive_saving_and_packing(tmp_path):
    scene = scene_of("two", box((0, 0, 0), (1, 1, 1)), box((2, 0, 0), (3, 1, 1)))
    scene = replace(scene, objects=(SceneObject("Cube", "fridge"), SceneObject("bed_2", "bed", solid=False)))
    save_glb(scene, tmp_path / "two.glb")
    assert load_scene(tmp_path / "two.glb").objects == scene.objects
    assert unpack_scene(pack_scene(scene)).objects == scene.objects


def test_unknown_categories_have_no_number():
    scene = replace(furnished(), objects=(SceneObject("a", ""),) * 5)
    assert not SemanticIds.of("category").of_triangles(scene).any()
