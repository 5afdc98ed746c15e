"""semantic_ids=: the sensor "semantic" shows objects, or categories."""

from __future__ import annotations

import numpy as np
import pytest
from furnished import furnished

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.scene.categories import MPCAT40

RENDERERS = ("embree", pytest.param("opengl", marks=pytest.mark.opengl))
CRATES = {"crate": 40, "table": 3}


@pytest.fixture
def make(opened):
    def make(**keywords):
        given = {"num_envs": 8, "sensors": ("semantic",), "camera": Camera(48, 48), "episodes": 20}
        scenes = None if "library" in keywords else [furnished()]
        return opened(BatchNavEnv(scenes=scenes, **{**given, **keywords}))

    return make


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("ids", ["category", CRATES])
def test_categories_take_the_place_of_objects(make, renderer, ids):
    scene = furnished()
    objects = make(renderer=renderer).reset(seed=3)[0]["semantic"]
    categories = make(renderer=renderer, semantic_ids=ids).reset(seed=3)[0]["semantic"]
    numbers = CRATES if ids is CRATES else {name: number for number, name in enumerate(MPCAT40)}
    table = np.array([0, *(numbers.get(one.category, 0) for one in scene.objects)])
    np.testing.assert_array_equal(categories, table[objects])
    assert len(np.unique(categories)) > 1 and categories.dtype == np.int32


@pytest.mark.parametrize("renderer", RENDERERS)
def test_batches_with_other_ids_share_scenes_but_no_renderer(make, renderer):
    first = make(renderer=renderer)
    second = make(library=first.library, renderer=renderer, semantic_ids=CRATES)
    objects = first.reset(seed=5)[0]["semantic"]
    np.testing.assert_array_equal(second.reset(seed=5)[0]["semantic"] == 40, np.isin(objects, (3, 4)))
    with pytest.raises(ValueError, match="renderer= draws other semantic_ids"):
        make(library=first.library, renderer=first.cameras.renderer, semantic_ids=CRATES)
    # A batch that does not look at them may share it, and so may one with the same.
    make(library=first.library, renderer=first.cameras.renderer, semantic_ids=CRATES, sensors=("depth",)).reset(seed=0)
    twin = make(library=first.library, renderer=second.cameras.renderer, semantic_ids=CRATES)
    assert (twin.reset(seed=5)[0]["semantic"] == 40).any()


def test_a_sensor_that_shows_nothing_is_told_of(make):
    with pytest.warns(UserWarning, match=r"shows 0 in the resident scenes.* \(.*crate.*\) as semantic_ids="):
        make(semantic_ids={"bed": 1})


def test_the_protocol_card_tells_the_ids_and_wrong_ones_are_refused_by_name(make):
    env = make(semantic_ids=CRATES)
    env.reset(seed=0)
    assert env.protocol_card().settings["semantic_ids"] == {"crate": 40.0, "table": 3.0}
    with pytest.raises(ValueError, match="semantic_ids='classes'"):
        make(semantic_ids="classes")
