import numpy as np
import pytest
from PIL import Image
from rooms import box_room

from gym_batchnav import viz
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.library import SceneLibrary


def test_a_mosaic_keeps_every_picture_in_reading_order():
    pictures = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.full((5, 4, 6, 3), 40, np.uint8)
    sheet = viz.mosaic(pictures, columns=3, gap=2)
    assert sheet.shape == (2 * 6 + 2, 3 * 8 + 2, 3)
    for index, picture in enumerate(pictures):
        top, left = 2 + (index // 3) * 6, 2 + (index % 3) * 8
        np.testing.assert_array_equal(sheet[top : top + 4, left : left + 6], picture)


def test_depth_is_brighter_the_nearer_it_is():
    shades = viz.depth_picture(np.array([0.0, 0.1, 0.5, 1.0]).reshape(1, 4, 1))[0, :, 0]
    assert shades[0] == 255 and shades[-1] == 0 and (np.diff(shades.astype(int)) < 0).all()


def test_semantic_colours_tell_ids_apart_and_leave_nothing_black():
    ids = np.arange(200).reshape(1, 200, 1)
    colors = viz.semantic_picture(ids)[0]
    assert len(np.unique(colors, axis=0)) == 200
    assert (colors[0] == 0).all() and (colors[1:] >= 64).all()


def test_a_comparison_is_white_below_where_pictures_are_alike():
    one = np.random.default_rng(0).integers(0, 256, (3, 4, 5, 3), dtype=np.uint8)
    other = one.copy()
    other[1, 2, 3] = np.where(one[1, 2, 3] < 128, one[1, 2, 3] + 10, one[1, 2, 3] - 10)
    expected = np.full_like(one, 255)
    expected[1, 2, 3] = 255 - 80
    np.testing.assert_array_equal(viz.difference_picture(one, other, gain=8), expected)
    sheet = viz.comparison(one, other)
    np.testing.assert_array_equal(sheet, viz.mosaic(np.concatenate([one, other, expected]), columns=3))


@pytest.fixture(scope="module")
def room():
    """A room of 8 m by 6 m with a wall along x = 0 that ends at z = 1.5 and a crate at (1.5..2.5, -1..0)."""
    return box_room()


def test_the_map_from_above_shows_the_inside_with_the_ceiling_off(room):
    library = SceneLibrary.from_scenes([room])
    renderer = make_renderer("embree", library)
    above = viz.scene_map(renderer, room, 0, size=440)
    renderer.close()

    def color(x, z):
        column, row = above.pixels(np.array([x, 0.0, z])).astype(int)
        return above.picture[row, column].astype(int)

    floor, crate, wall = color(-2, 0), color(2, -0.5), color(0, -1)
    np.testing.assert_array_equal(floor, color(3, 2))
    assert np.abs(floor - crate).max() > 8 and np.abs(floor - wall).max() > 8
    np.testing.assert_array_equal(color(0, 2.5), floor)  # the way round the wall lies at positive z: south
    assert above.pixels(np.array([0, 0, 1.0]))[1] > above.pixels(np.array([0, 0, -1.0]))[1]


def test_trajectories_and_goals_are_drawn_where_they_are(room):
    navmesh = NavMesh.build(room.vertices, room.triangles, NavMeshSettings())
    top_down = viz.navmesh_map(navmesh, size=400)
    path = np.array([[-3, 0, 0], [-3, 0, 2]], float)
    picture = viz.draw_trajectories(top_down, [path], np.array([[3, 0, 2]], float))
    column, row = top_down.pixels(np.array([-3, 0, 1.0])).astype(int)
    assert tuple(picture[row, column]) == viz.PATH_COLORS[0]
    column, row = top_down.pixels(np.array([3, 0, 2.0])).astype(int)
    assert tuple(picture[row, column]) == viz.PATH_COLORS[0]
    column, row = top_down.pixels(np.array([0.0, 0, -1])).astype(int)  # inside the wall
    assert tuple(picture[row, column]) == viz.BACKGROUND


@pytest.mark.parametrize("name", ["clip.gif", "clip.png"])
def test_clips_keep_their_frames(tmp_path, name):
    frames = [np.full((20, 30, 3), shade, np.uint8) for shade in (0, 120, 240)]
    viz.save_clip(frames, tmp_path / name, fps=5)
    with Image.open(tmp_path / name) as clip:
        assert (clip.n_frames, clip.size) == (3, (30, 20))
        clip.seek(2)
        assert abs(int(np.asarray(clip.convert("RGB")).mean()) - 240) < 8
    assert [path.name for path in tmp_path.iterdir()] == [name]
