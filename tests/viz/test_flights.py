"""Maps, clips and evaluations of flying agents."""

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from rooms import box, box_room, scene_of

from gym_batchnav import viz
from gym_batchnav.env.ids import make_batch
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.flight.task import DroneNav
from gym_batchnav.geometry import Camera
from gym_batchnav.viz.demonstration import demonstrate, draw_demonstration
from gym_batchnav.viz.maps import section_map

ROOM = box((-4, 0, -3), (4, 2.6, 3), inward=True)


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    made = make_batch(
        "DroneNav",
        2, task=DroneNav(sampler=FlightEpisodes(num_goals=2)), scenes=[box_room()], episodes=4, renderer="embree",
        camera=Camera(8, 8, eye_height=0),
    )  # fmt: skip
    yield made
    made.close()


@pytest.mark.parametrize(
    ("path", "columns"),
    [([[-3, 1, 2.1], [3, 1, 1.9]], (1.0, 1.5)), ([[1.6, 1, 2.5], [1.9, 1, -2.5]], (-2.0, -1.0))],
    ids=["from the south", "from the east"],
)
def test_a_section_shows_things_where_their_pixels_are(renderer_of, path, columns):
    """A box of 0.5 x 0.6 x 1 m behind the path; another one in front of it is cut away."""
    path = np.array(path)
    hidden = box((-1, 0.1, 2.6), (0, 2, 2.9)) if path[0, 0] < 0 else box((2.6, 0.1, -1), (2.9, 2, 0))
    thing = box((1.0, 0.4, 1.0), (1.5, 1.0, 2.0))
    drawn = []
    for objects in ([ROOM], [ROOM, thing, hidden]):
        scene = scene_of("room", *objects)
        drawn.append(section_map(renderer_of(scene), scene, 0, [path], 400))
    rows, cols = np.nonzero((drawn[0].picture != drawn[1].picture).any(axis=-1))
    corners = drawn[1].pixels(thing.reshape(-1, 3))
    np.testing.assert_allclose([cols.min(), cols.max() + 1], [corners[:, 0].min(), corners[:, 0].max()], atol=2)
    np.testing.assert_allclose([rows.min(), rows.max() + 1], [corners[:, 1].min(), corners[:, 1].max()], atol=2)
    right = corners[:, 0] / drawn[1].pixels_per_metre + drawn[1].origin[0]
    np.testing.assert_allclose([right.min(), right.max()], columns, atol=1e-3)


def closest(points):
    """The least distance of points [n, 3] from the boxes of box_room, metres."""
    distances = []
    for low, high in (((-0.1, 0, -3), (0.1, 2.6, 1.5)), ((1.5, 0, -1.0), (2.5, 0.7, 0.0))):
        outside = np.maximum(np.maximum(np.array(low) - points, points - np.array(high)), 0)
        distances.append(np.linalg.norm(outside, axis=1).min())
    return min(distances)


def test_the_shortest_path_in_the_air_has_the_length_of_its_episode(env):
    env.reset(seed=0)
    ground = env.simulator.navigation(0)
    episodes = ground.episode_set
    for row in range(len(episodes)):
        goal = episodes.tour_goals(row)[0]
        path = ground.shortest_path(episodes.start[row], goal)
        np.testing.assert_allclose(path[[0, -1]], [episodes.start[row], goal], atol=1e-5)
        length = np.linalg.norm(np.diff(path.astype(float), axis=0), axis=1).sum()
        assert length == pytest.approx(episodes.distance[row], abs=2e-3)
        for before, after in pairwise(path.astype(float)):
            points = before + np.linspace(0, 1, 50)[:, None] * (after - before)
            assert closest(points) > 0.15 - 0.075  # half a voxel: steps between neighbours are not checked
    with pytest.raises(ValueError, match="goal=9: pass a number from 0 to"):
        ground.tables.shortest_path(episodes.start[0], 9)


def test_clips_and_maps_of_flights_show_them_from_above_and_from_the_side(env):
    recording = viz.record_episodes(env, indices=(0, 1), size=32, seed=0)
    above = viz.batch_map(env, 0, 200, recording.positions[0, :, 1])
    side = viz.section_map(env.renderer, env.library.scene(0), 0, [recording.path(0)], 200)
    frames = viz.episode_clip(env, recording, 200, every=10)
    assert frames[0].shape[0] >= above.picture.shape[0] + side.picture.shape[0]
    assert len({frame.shape for frame in frames}) == 1
    assert viz.trajectory_maps(env, recording).shape[0] > 420
    flown = side.pixels(recording.path(0))
    assert (flown >= 0).all() and (flown < np.array(side.picture.shape[1::-1])).all()


@pytest.mark.slow
def test_the_demonstration_flies(env, tmp_path):
    figures = demonstrate(env, 0.05)
    assert figures["steps"] >= 1 and figures["num_envs"] == 2
    files = draw_demonstration(env, tmp_path)
    assert [path.name for path in files] == ["mosaic.png", "map.png", "clip.gif"]
    with Image.open(tmp_path / "map.png") as image:
        assert image.height > 900  # from above and from the side
