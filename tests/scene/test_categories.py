"""Names and numbers of categories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from furnished import furnished

from gym_batchnav.scene.categories import MPCAT40, SemanticIds, number_of
from gym_batchnav.scene.objects import SceneObject
from gym_batchnav.scene.synonyms import SEMANTIC_CLASSES, common_name


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


def test_unknown_categories_have_no_number():
    scene = replace(furnished(), objects=(SceneObject("a", ""),) * 5)
    assert not SemanticIds.of("category").of_triangles(scene).any()


@pytest.mark.parametrize(
    "value", ["categories", {}, {"chair": -1}, {"chair": 2**31}, {"chair": 1.5}, {"": 1}, {3: 1}, 7]
)
def test_other_ids_are_refused(value):
    with pytest.raises(ValueError, match="semantic_ids="):
        SemanticIds.of(value)
