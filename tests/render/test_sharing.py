"""Renderers of one library hold one copy of what they prepare, whatever becomes of the other."""

import gc
import weakref

import numpy as np
import pytest
from quads import checkerboard, scene_of, wall
from rays import AHEAD, METRES

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.embree.device import TreePreparer
from gym_batchnav.render.embree.renderer import EmbreeRenderer

SENSORS = ("depth", "rgb")
SLOT = np.zeros(1, np.int32)


def make_embree(library):
    return EmbreeRenderer(library)


def make_opengl(library):
    from gym_batchnav.render.opengl import OpenGLRenderer

    return OpenGLRenderer(library)


MAKERS = [make_embree, pytest.param(make_opengl, marks=pytest.mark.opengl)]


def textured(distance):
    return scene_of(wall(distance, texture=checkerboard(4)))


@pytest.mark.parametrize("make", MAKERS)
def test_a_second_renderer_takes_no_further_memory(make):
    library = SceneLibrary.from_scenes([textured(2)])
    first = make(library)
    first.target(METRES, SENSORS)
    nbytes = library.nbytes
    second = make(library)
    second.target(METRES, SENSORS)
    assert library.nbytes == nbytes
    for renderer in (first, second):
        renderer.close()
    assert library.nbytes == library.scene(0).nbytes


@pytest.mark.parametrize("make", MAKERS)
def test_closing_one_renderer_leaves_the_other_its_scenes(make):
    library = SceneLibrary.from_scenes([textured(2)])
    renderers = [make(library) for _ in range(2)]
    targets = [renderer.target(METRES, SENSORS) for renderer in renderers]
    for target in targets:
        target.render(SLOT, AHEAD)
    renderers[0].close()
    renderers[0].close()
    gc.collect()
    assert np.allclose(targets[1].render(SLOT, AHEAD)["depth"], 2)
    library.put(0, textured(3))
    assert np.allclose(targets[1].render(SLOT, AHEAD)["depth"], 3)
    renderers[1].close()


def test_a_target_of_a_closed_renderer_holds_no_tree():
    library = SceneLibrary.from_scenes([textured(2)])
    closed = EmbreeRenderer(library)
    other = EmbreeRenderer(library)
    targets = [renderer.target(METRES, SENSORS) for renderer in (closed, other)]
    tree = weakref.ref(library.prepared(0, other.tree_key(cull=False)))
    closed.close()
    library.put(0, textured(3))
    targets[1].render(SLOT, AHEAD)
    gc.collect()
    assert tree() is None
    other.close()


def test_trees_that_differ_are_told_apart():
    embree = EmbreeRenderer(SceneLibrary.from_scenes([textured(2)])).embree
    assert TreePreparer(embree, cull=False) != TreePreparer(embree, cull=True)
