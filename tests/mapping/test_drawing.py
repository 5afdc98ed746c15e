"""Maps of images that are computed by hand: a wall, a floor, what hangs high and what lies low."""

import numpy as np
import pytest

from gym_batchnav.geometry import Camera
from gym_batchnav.mapping.drawing import BLOCKED, BUMPED, FREE, Band, Maps, Poses, draw_all
from gym_batchnav.mapping.sensors import view_of

SIDE = 80
CELL = 0.1
CAMERA = Camera(64, 64, normalize_depth=False)
BAND = Band(0.2, 0.0, 1.5)


def empty():
    return Maps(np.zeros((1, SIDE, SIDE), np.uint8), np.zeros((1, 3)), np.zeros(1, np.int32), np.zeros((1, 3)), CELL)


def draw(maps, depth, position=(0.0, 0.0, 0.0), heading=0.0, pitch=0.0, collisions=0, camera=CAMERA, band=BAND):
    place, turned, tilted = (np.array([one], float) for one in (position, heading, pitch))
    eye_height, yaw = np.array([camera.eye_height]), np.radians([camera.yaw_deg])
    poses = Poses(place, turned, np.array([collisions]), eye_height=eye_height, yaw=yaw, pitch=tilted)
    pixels = depth[None, :, :, None].astype(np.float32)
    draw_all(maps, np.zeros(1, np.int64), pixels, poses, view_of(camera), band)
    return maps.cells[0]


def planes(wall=np.inf, wall_from=0.0, wall_to=np.inf, floor=True, pitch=0.0, camera=CAMERA):
    """Depth [H, W] of a wall across the view, between two heights, and of a floor; 0 where nothing is hit."""
    rows = (1 - (np.arange(camera.height) + 0.5) / camera.height * 2) * camera.tan_half_height
    ahead = np.cos(pitch) - rows * np.sin(pitch)  # per metre of depth
    up = np.sin(pitch) + rows * np.cos(pitch)
    with np.errstate(divide="ignore", invalid="ignore"):
        to_wall = np.where(ahead > 0, wall / ahead, np.inf)
        height = camera.eye_height + up * np.where(np.isfinite(to_wall), to_wall, 0)
        to_wall = np.where((height >= wall_from) & (height <= wall_to), to_wall, np.inf)
        to_floor = np.where((up < 0) & floor, -camera.eye_height / up, np.inf)
    nearest = np.minimum(to_wall, to_floor)
    return np.repeat(np.where(nearest < camera.max_depth, nearest, 0.0)[:, None], camera.width, axis=1)


def cell(x, z):
    return round(x / CELL) + SIDE // 2, round(z / CELL) + SIDE // 2


def test_a_wall_blocks_its_cells_and_floor_is_free():
    cells = draw(empty(), planes(wall=2.0))
    rows, columns = np.nonzero(cells & BLOCKED)
    _, wall = cell(0, -2.0)
    assert set(rows) == {wall}
    assert columns.min() == cell(-1.97, 0)[0] and columns.max() == cell(1.97, 0)[0]  # 90 degrees
    assert len(columns) == columns.max() - columns.min() + 1
    for z in np.arange(-1.4, -1.9, -0.1):  # nearer floor is below the view
        x, row = cell(0, z)
        assert cells[row, x] == FREE
    free_rows, free_columns = np.nonzero(cells & FREE)
    assert free_rows.min() >= wall and free_rows.max() == SIDE // 2
    assert np.all(np.abs(free_columns - SIDE // 2) <= SIDE // 2 - free_rows + 1)  # inside the view


@pytest.mark.parametrize("heading", [np.pi / 2, np.pi])
def test_the_map_does_not_turn_with_the_agent(heading):
    cells = draw(empty(), planes(wall=2.0), heading=heading)
    x, z = cell(-np.sin(heading) * 2, -np.cos(heading) * 2)
    assert cells[z, x] & BLOCKED
    x, z = cell(np.sin(heading) * 2, np.cos(heading) * 2)
    assert cells[z, x] == 0


@pytest.mark.parametrize(
    ("low", "high", "blocks"), [(0.0, 0.15, False), (0.0, 0.4, True), (1.6, 2.5, False), (1.0, 1.4, True)]
)
def test_what_is_low_enough_to_step_on_or_high_enough_to_pass_under_does_not_block(low, high, blocks):
    cells = draw(empty(), planes(wall=2.0, wall_from=low, wall_to=high))
    assert bool((cells & BLOCKED).any()) == blocks


@pytest.mark.parametrize("pitch", [-0.3, 0.2])
def test_a_tilted_camera_draws_the_same_wall(pitch):
    cells = draw(empty(), planes(wall=2.0, pitch=pitch), pitch=pitch)
    rows, _ = np.nonzero(cells & BLOCKED)
    assert set(rows) == {cell(0, -2.0)[1]}


def test_where_nothing_is_hit_nothing_is_drawn():
    for normalize, miss in ((False, "far"), (True, "far"), (True, "zero")):
        camera = Camera(16, 16, normalize_depth=normalize, depth_miss=miss)
        nothing = np.full((16, 16), camera.depth_encoding.miss)
        cells = draw(empty(), nothing, camera=camera)
        assert np.count_nonzero(cells) == 1 and cells[SIDE // 2, SIDE // 2] == FREE


def test_depth_may_be_normalised_and_the_camera_off_the_axis():
    camera = Camera(64, 64, offset=(0.3, 0.2), yaw_deg=90)
    cells = draw(empty(), planes(wall=2.0) / 10.0, camera=camera)
    _, columns = np.nonzero(cells & BLOCKED)
    assert set(columns) == {cell(-2.0 + 0.3, 0)[0]}  # it looks along -x, from 0.3 m right of the axis


def test_drawing_again_changes_nothing():
    maps = empty()
    once = draw(maps, planes(wall=2.0), collisions=1).copy()
    np.testing.assert_array_equal(draw(maps, planes(wall=2.0), collisions=1), once)


def test_who_collides_without_moving_marks_what_is_ahead():
    nothing = np.zeros((64, 64))
    maps = empty()
    assert not (draw(maps, nothing) & BUMPED).any()
    bumped = np.argwhere(draw(maps, nothing, heading=np.pi / 2, collisions=1) & BUMPED) - SIDE // 2
    assert [0, -2] in bumped.tolist() and len(bumped) == 3 and (bumped[:, 1] < 0).all()  # to -x
    maps = empty()
    draw(maps, nothing)
    assert not (draw(maps, nothing, position=(0.2, 0, 0), collisions=1) & BUMPED).any()  # it slid along


def test_the_map_moves_with_an_agent_that_comes_near_its_border():
    maps = empty()
    draw(maps, planes(wall=2.0))
    far = SIDE // 4 * CELL + 0.5
    cells = draw(maps, np.zeros((64, 64)), position=(far, 0.0, 0.0))
    np.testing.assert_allclose(maps.places[0], [far, 0, 0], atol=CELL / 2)
    x = round((0 - maps.places[0, 0]) / CELL) + SIDE // 2
    _, z = cell(0, -2.0)
    assert cells[z, x] & BLOCKED and cells[SIDE // 2, x] & FREE
    rows, _ = np.nonzero(cells & BLOCKED)
    assert set(rows) == {z}


def test_another_storey_has_an_empty_map():
    maps = empty()
    draw(maps, planes(wall=2.0))
    cells = draw(maps, np.zeros((64, 64)), position=(0, 3.0, 0))
    assert np.count_nonzero(cells) == 1 and maps.places[0, 2] == 3.0


@pytest.mark.parametrize(("slope", "blocks"), [(0.0, True), (0.02, True), (0.1, False)])
def test_points_may_be_higher_at_a_distance_without_blocking(slope, blocks):
    cells = draw(empty(), planes(wall=3.0, wall_to=0.4), band=Band(0.2, slope, 1.5))
    assert bool((cells & BLOCKED).any()) == blocks
