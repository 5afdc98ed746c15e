from dataclasses import replace

import numpy as np
import pytest
from rooms import box, scene_of

from gym_batchnav import viz
from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.navmesh.mesh import NavMesh


def test_a_mosaic_keeps_every_picture_in_reading_order():
    pictures = np.arange(5, dtype=np.uint8)[:, None, None, None] * np.full((5, 4, 6, 3), 40, np.uint8)
    sheet = viz.mosaic(pictures, columns=3, gap=2)
    assert sheet.shape == (2 * 6 + 2, 3 * 8 + 2, 3)
    for index, picture in enumerate(pictures):
        top = 2 + (index // 3) * 6
        left = 2 + (index % 3) * 8
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


def test_the_map_from_above_shows_the_inside_with_the_ceiling_off(room, renderer_of):
    above = viz.scene_map(renderer_of(room), room, 0, size=440)

    def color(x, z):
        column, row = above.pixels(np.array([x, 0.0, z])).astype(int)
        return above.picture[row, column].astype(int)

    floor = color(-2, 0)
    crate = color(2, -0.5)
    wall = color(0, -1)
    np.testing.assert_array_equal(floor, color(3, 2))
    assert np.abs(floor - crate).max() > 8 and np.abs(floor - wall).max() > 8
    np.testing.assert_array_equal(color(0, 2.5), floor)  # the way round the wall lies at positive z: south
    assert above.pixels(np.array([0, 0, 1.0]))[1] > above.pixels(np.array([0, 0, -1.0]))[1]


def test_a_scene_of_one_colour_is_drawn_so_that_its_shapes_can_be_told_apart(room, renderer_of):
    white = replace(room, materials=replace(room.materials, base_color=np.ones_like(room.materials.base_color)))
    renderer = renderer_of(white)
    above = viz.scene_map(renderer, white, 0, size=440)
    camera = Camera(width=120, height=120)
    # From z = 2.5, between the wall's end and the far side, towards the crate and the corner behind it.
    view = view_matrices(np.array([[0.5, 0, 2.5]], np.float32), np.array([-0.5], np.float32), 1.25)
    (picture,) = viz.draw_for_people(renderer, camera, np.zeros(1, int), view)

    def shade(x, z):
        column, row = above.pixels(np.array([x, 0.0, z])).round().astype(int)
        return int(above.picture[row - 1 : row + 2, column - 1 : column + 2].min())

    open_floor = shade(-2, 0)
    edge = shade(1.5, -0.5)
    assert open_floor > 230 and edge < open_floor - 60  # a line where the crate begins, none on the floor
    assert shade(2, -0.5) > 230  # nor on its top
    floor, ceiling, wall = (picture[row, 60].mean() for row in (115, 4, 57))
    assert floor > ceiling + 30 and wall > ceiling + 10
    assert (picture.min(axis=2) < 130).mean() < 0.15  # lines are thin


def test_nothing_hit_is_sky(renderer_of):
    floor = scene_of("floor", box((-5, -0.1, -5), (5, 0, 5)))
    view = view_matrices(np.zeros((1, 3), np.float32), np.zeros(1, np.float32), 1.25)
    (picture,) = viz.draw_for_people(renderer_of(floor), Camera(width=32, height=32), np.zeros(1, int), view)
    np.testing.assert_array_equal(picture[:15], np.broadcast_to(viz.SKY, (15, 32, 3)))
    assert (picture[-6:] != viz.SKY).any(axis=2).all()


def test_the_walkable_area_is_outlined_and_viewpoints_point_where_they_look(room, navmesh, renderer_of):
    plain = viz.scene_map(renderer_of(room), room, 0, size=440)
    outlined = viz.draw_outline(plain, navmesh)
    green = (outlined.picture == viz.OUTLINE).all(axis=2)
    row, column = np.nonzero(green)
    x = column / plain.pixels_per_metre + plain.origin[0]
    z = row / plain.pixels_per_metre + plain.origin[1]
    assert (x.min(), x.max(), z.min(), z.max()) == pytest.approx((-3.9, 3.9, -2.9, 2.9), abs=0.15)
    assert not green[tuple(plain.pixels(np.array([-2.0, 0, 0])).astype(int)[::-1])]
    assert not (viz.draw_outline(replace(plain, span=(5.0, 9.0)), navmesh).picture == viz.OUTLINE).all(axis=2).any()
    here = np.array([[-1.99, 0, 0.01]])  # the centre of a pixel
    for heading, (east, south) in ((0, (0, -1)), (np.pi / 2, (-1, 0)), (np.pi, (0, 1)), (-np.pi / 2, (1, 0))):
        picture = viz.draw_viewpoints(plain, here, np.array([heading]), [2])
        of_its_color = np.argwhere((picture == viz.PATH_COLORS[1]).all(axis=2))[:, ::-1]
        lean = of_its_color.mean(axis=0) - plain.pixels(here[0])
        assert lean @ (east, south) > 1 and abs(lean @ (south, east)) < 1


def test_viewpoints_of_one_place_do_not_hide_each_other(navmesh):
    plain = viz.navmesh_map(navmesh, size=400)
    crowd = np.array([[-2.0, 0, 0], [-2.0, 0, 0], [-1.95, 0, 0], [3.0, 0, 2.0]])
    picture = viz.draw_viewpoints(plain, crowd, np.zeros(4), [1, 2, 3, 4])
    alone = viz.draw_viewpoints(plain, crowd[3:], np.zeros(1), [4])

    def disc(drawn, number):
        return (drawn == viz.PATH_COLORS[number - 1]).all(axis=2)

    visible = [disc(picture, number).sum() for number in (1, 2, 3, 4)]
    assert min(visible) > 0.75 * max(visible)
    np.testing.assert_array_equal(disc(picture, 4), disc(alone, 4))  # who stands clear is where they are
    for number in (1, 2, 3):
        shift = np.argwhere(disc(picture, number))[:, ::-1].mean(axis=0) - plain.pixels(crowd[number - 1])
        assert np.linalg.norm(shift) < 40


def test_what_stands_high_is_drawn_where_its_pixels_are_said_to_be(renderer_of):
    """Rays of a map are parallel: a corner 2.5 m up has the pixel of one on the floor, within two."""
    tower = box((7, 2.5, 7), (8, 2.6, 8))
    scene = scene_of("tower", box((-8, -0.1, -8), (8, 0, 8)), tower)
    above = viz.scene_map(renderer_of(scene), scene, 0, 800, cut=3.0)
    column, row = above.pixels(np.array([7.0, 0, 7.5])).round().astype(int)
    line = above.picture[row, column - 12 : column + 12].astype(int).sum(axis=1)
    assert abs(int(np.argmin(line)) - 12) <= 2


def test_a_map_is_neither_mirrored_nor_turned_against_the_navmesh(renderer_of):
    """The floor is L-shaped; its foot points east and lies in the south."""
    ell = scene_of("ell", box((0, -0.1, 0), (2, 0, 8)), box((2, -0.1, 6), (6, 0, 8)))
    navmesh = NavMesh.build(ell.vertices, ell.triangles)
    for above in (viz.scene_map(renderer_of(ell), ell, 0, 300), viz.navmesh_map(navmesh, 300)):
        filled = []
        for x, z in ((1, 1), (5, 7), (5, 1), (1, 7)):
            column, row = above.pixels(np.array([x, 0.0, z])).astype(int)
            filled.append(tuple(above.picture[row, column]) != viz.BACKGROUND)
        assert filled == [True, True, False, True]
        assert (above.picture[:10, -10:] == viz.BACKGROUND).all()  # the corner in the north-east


@pytest.mark.parametrize("size", [20, 400, 8000])
def test_the_bar_of_the_scale_is_of_a_round_length_that_can_be_seen(size):
    blank = viz.TopDownMap(np.full((100, 300, 3), 255, np.uint8), (0.0, 0.0), size / 8)
    red = replace(blank, picture=np.full_like(blank.picture, (200, 30, 30)))
    ink = (viz.draw_trajectories(red, []) == viz.INK).all(axis=2)[-8]
    metres = (np.ptp(np.flatnonzero(ink)) + 1) / blank.pixels_per_metre
    assert 40 <= ink.sum() <= 110
    assert min(abs(np.log10(metres / round_one)) for round_one in (0.05, 20.0, 1.0)) < 0.02


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("picture", ValueError, "'' is not the suffix"),
        ("picture.glb", ValueError, "'.glb' is not the suffix of an image format; use .png"),
        ("none/picture.png", FileNotFoundError, "no folder '.*none'"),
        ("folder.png", IsADirectoryError, "is a folder: name a file in it"),
    ],
)
def test_where_no_picture_can_be_written_is_said_by_name(tmp_path, name, error, said):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(error, match=said):
        viz.save_picture(np.zeros((4, 4, 3), np.uint8), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_images_that_are_no_pictures_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"picture float64 \(4, 4, 1\): pass uint8 .H, W, 3.; depth_picture"):
        viz.save_picture(np.zeros((4, 4, 1)), tmp_path / "depth.png")
    with pytest.raises(ValueError, match=r"picture <U5 \(\): pass uint8"):
        viz.save_picture("a.png", np.zeros((4, 4, 3), np.uint8))
    with pytest.raises(ValueError, match=r"pictures of shape \(4, 4, 3\): pass images .N, H, W, 3."):
        viz.mosaic(np.zeros((4, 4, 3), np.uint8))


def test_trajectories_and_goals_are_drawn_where_they_are(navmesh):
    top_down = viz.navmesh_map(navmesh, size=400)
    path = np.array([[-3, 0, 0], [-3, 0, 2]], float)
    picture = viz.draw_trajectories(top_down, [path], np.array([[3, 0, 2]], float))
    column, row = top_down.pixels(np.array([-3, 0, 1.0])).astype(int)
    assert tuple(picture[row, column]) == viz.PATH_COLORS[0]
    column, row = top_down.pixels(np.array([3, 0, 2.0])).astype(int)
    assert tuple(picture[row, column]) == viz.PATH_COLORS[0]
    column, row = top_down.pixels(np.array([0.0, 0, -1])).astype(int)  # inside the wall
    assert tuple(picture[row, column]) == viz.BACKGROUND


def test_where_no_path_leads_none_is_drawn_and_a_map_needs_pixels(navmesh):
    top_down = viz.navmesh_map(navmesh, size=400)
    nothing = viz.draw_trajectories(top_down, [np.empty((0, 3), np.float32)])
    np.testing.assert_array_equal(nothing, viz.draw_trajectories(top_down, []))
    with pytest.raises(ValueError, match="size=0: pass a whole number"):
        viz.navmesh_map(navmesh, size=0)
