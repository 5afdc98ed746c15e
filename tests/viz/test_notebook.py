"""Notebook displays of objects."""

import base64
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from rooms import box_room

from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.viz.notebook import mime_bundle


def words_of(bundle):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", bundle["text/html"]))


def picture_of(bundle):
    return Image.open(io.BytesIO(base64.b64decode(bundle["image/png"])))


def test_a_batch_shows_itself_at_any_time_and_says_why_there_are_no_pictures(make):
    env = make(4, sensors=("rgb", "depth"))
    line = repr(env)
    assert line.startswith("BatchNavEnv(num_envs=4, scenes=['room'], sensors=('rgb', 'depth'), task=PointNav(")
    assert "autoreset_mode='next_step'" in line and len(line) < 300
    fresh = env._repr_mimebundle_()
    assert "no pictures before the first reset" in words_of(fresh) and "image/png" not in fresh
    env.reset(seed=0)
    shown = env._repr_mimebundle_()
    assert "the view of all 4 agents" in words_of(shown) and "embree" in words_of(shown)
    env.send(np.ones(4, int))
    assert "between send() and recv()" in words_of(env._repr_mimebundle_())
    env.recv()
    env.close()
    closed = env._repr_mimebundle_()
    assert "closed: no pictures" in words_of(closed) and "image/png" not in closed


def test_the_mosaic_has_what_the_agents_see_with_depth_beside_it(make):
    env = make(4, sensors=("rgb", "depth"))
    env.reset(seed=0)
    sheet = np.asarray(picture_of(env._repr_mimebundle_()))
    size = 256  # of each of 2 x 2 views; the sheets stand 8 pixels apart
    expected = env.pictures(np.array([3]), size)[0]
    here = np.s_[size + 4 : 2 * size + 4, size + 4 : 2 * size + 4]
    np.testing.assert_array_equal(sheet[here], expected)
    depth = sheet[:, 2 * size + 6 + 8 :][here]
    assert (depth[..., 0] == depth[..., 1]).all() and depth.std() > 1


@pytest.mark.parametrize("sensors", [("depth",), ()])
def test_showing_it_leaves_the_run_as_it_is(make, sensors):
    def run(env, shown):
        observation, _ = env.reset(seed=3)
        traces = []
        for _ in range(30):
            if shown:
                env._repr_mimebundle_()
                repr(env)
            observation, reward, *_ = env.step(env.shortest_path_actions())
            traces.append((*observation.values(), reward, env.agents.position.copy()))
        return traces

    env = make(3, sensors=sensors, max_episode_steps=12)
    env._repr_mimebundle_()
    before = dict(env.timings)
    assert before == dict.fromkeys(before, 0.0)
    for one, other in zip(run(env, True), run(make(3, sensors=sensors, max_episode_steps=12), False), strict=True):
        for mine, its in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, its)


def test_a_large_batch_shows_no_more_than_some(make):
    env = make(512, sensors=("rgb", "depth"))
    env.reset(seed=0)
    bundle = env._repr_mimebundle_()
    assert "the view of 36 of 512 agents" in words_of(bundle)
    assert picture_of(bundle).size == (2 * (6 * 98 + 2) + 8, 6 * 98 + 2 + 26)
    assert sum(map(len, bundle.values())) < 1_500_000


def test_blind_agents_are_shown_on_a_map(make):
    env = make(50, sensors=())
    env.reset(seed=0)
    bundle = env._repr_mimebundle_()
    assert "36 of 50 agents in room" in words_of(bundle) and picture_of(bundle).size[0] == 560
    assert env.cameras._renderer is None  # they need none


def test_only_what_is_asked_for_is_made():
    def never():
        raise AssertionError("called without need")

    def text():
        return "words"

    plain = mime_bundle(text, "title", never, never, include={"text/plain"})
    assert plain == {"text/plain": "words"}
    assert mime_bundle(text, "title", never, never, exclude={"text/html", "image/png"}) == plain
    whole = mime_bundle(never, "title", never, never)
    assert whole["text/plain"] == "title: called without need" and "unknown called without need" in words_of(whole)
    assert "no picture: called without need" in words_of(whole) and "image/png" not in whole


def test_names_from_strangers_are_words_and_nothing_else():
    name = '"><script>alert(1)</script><img src="http://x/y" onerror=\'z\'>\udcff' + 1000 * "a"
    scene = replace(box_room(name), warnings=("<b>odd</b>",))
    bundle = scene._repr_mimebundle_()
    html = bundle["text/html"]
    assert "<script" not in html and "<b>" not in html and "onerror='" not in html and "&lt;b&gt;odd" in html
    assert html.count("<img") == 1 and len(words_of(bundle)) < 3000
    assert not re.search(r"(src|href)=[\"'](?!data:)", html)
    json.dumps(bundle, ensure_ascii=False).encode()


def test_nothing_that_is_broken_or_huge_keeps_an_object_from_showing_itself(make):
    class Broken(PointNav):
        def __repr__(self):
            raise RuntimeError("no words")

    env = make(task=Broken())
    env.reset(seed=0)
    shown = env._repr_mimebundle_()
    assert "no words" in shown["text/plain"] and "unknown no words" in words_of(shown) and "image/png" in shown
    env.renderer.close()
    env.cameras._renderer.target = None
    assert "no picture" in words_of(env._repr_mimebundle_())
    bundle = box_room(10_000_000 * "<")._repr_mimebundle_()
    assert len(bundle["text/plain"]) < 5000 and len(bundle["text/html"]) < 500_000


def test_a_batch_shows_itself_from_another_thread_while_it_is_closed(make):
    env = make(sensors=("rgb",))
    env.reset(seed=0)
    with ThreadPoolExecutor(1) as pool:
        shown = pool.submit(env._repr_mimebundle_).result()
        assert "image/png" not in shown and "belongs to thread" in words_of(shown)
        assert "episodes begun" in words_of(shown)
        pool.submit(env.close).result()
    assert "closed: no pictures" in words_of(env._repr_mimebundle_())


def test_a_scene_and_a_navmesh_show_their_maps_and_their_counts(room, navmesh):
    assert repr(room) == "Scene('room', 8.0 x 2.6 x 6.0 m, 36 triangles, 3 objects, 0 textures)"
    bundle = room._repr_mimebundle_()
    area = f"{navmesh.navigable_area:.1f} m2"
    for fact in ("triangles 36", "vertices 108", "objects 3", "8.00 x 2.60 x 6.00 m", area):
        assert fact in words_of(bundle)
    picture = np.asarray(picture_of(bundle))
    green = (picture == (46, 150, 100)).all(axis=2)
    assert green.sum() > 500 and not green[picture.shape[0] // 2 - 20, 60:200].any()
    assert area in repr(navmesh) and len(repr(navmesh)) < 100
    bundle = navmesh._repr_mimebundle_()
    assert f"{navmesh.num_polygons:,}, with" in words_of(bundle) and picture_of(bundle).size[0] == 560


def test_a_scene_with_nothing_to_walk_on_or_to_see_shows_itself(room):
    thin = replace(room, triangles=room.triangles[12:24], triangle_material=room.triangle_material[12:24],
                   triangle_object=room.triangle_object[12:24])  # fmt: skip
    assert "walkable" in words_of(thin._repr_mimebundle_())
    none = np.zeros((0, 3))
    empty = replace(
        room, vertices=none.astype(np.float32), triangles=none.astype(np.int32),
        triangle_material=np.zeros(0, np.int32), triangle_object=np.zeros(0, np.int32),
    )  # fmt: skip
    assert "no picture" in words_of(empty._repr_mimebundle_()) and "36" not in repr(empty)
