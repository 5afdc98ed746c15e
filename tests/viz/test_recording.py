import sys

import gymnasium
import numpy as np
import pytest
from PIL import Image, ImageSequence
from rooms import box_room

from gym_batchnav import viz
from gym_batchnav.evaluation.agents import RandomAgent, ShortestPathAgent
from gym_batchnav.geometry import Camera
from gym_batchnav.system.extras import MissingExtraError
from gym_batchnav.task.explore import Explore
from gym_batchnav.task.multigoal import MultiGoalNav


@pytest.mark.parametrize("mode", ["next_step", "disabled"])
def test_a_recording_is_what_the_same_steps_by_hand_show(make, mode):
    recording = viz.record_episodes(make(autoreset_mode=mode), indices=(2, 0), size=32, seed=5)
    env = make()
    env.reset(seed=5)
    for agent, row in ((2, 0), (0, 1)):
        np.testing.assert_array_equal(recording.positions[0, row], env.agents.position[agent])
        np.testing.assert_array_equal(recording.goals[row], env.episodes.goal[agent])
    running = np.ones(3, bool)
    spl = np.zeros(3)
    steps = np.zeros(3, int)
    for step in range(1, len(recording.positions)):
        _, _, terminated, truncated, info = env.step(env.shortest_path_actions())
        for agent, row in ((2, 0), (0, 1)):
            if running[agent]:
                np.testing.assert_array_equal(recording.positions[step, row], env.agents.position[agent])
                assert recording.headings[step, row] == env.agents.heading[agent]
                assert recording.distances[step, row] == env.episodes.distance[agent]
                picture = env.pictures(np.array([agent]), 32)[0]
                np.testing.assert_array_equal(recording.view(row, step), picture)
        ended = running & (terminated | truncated)
        steps += running
        if ended.any():
            spl[ended] = info["spl"][ended]
        running &= ~ended
    np.testing.assert_array_equal(recording.spl, spl[[2, 0]])
    np.testing.assert_array_equal(recording.num_steps, steps[[2, 0]])
    assert recording.success.all() and not running[[0, 2]].any()
    early = int(np.argmin(recording.num_steps))
    rest = recording.positions[recording.num_steps[early] :, early]
    np.testing.assert_array_equal(rest, np.broadcast_to(rest[0], rest.shape))


def test_steps_that_an_agent_waits_for_others_of_its_world_are_not_its_own(make):
    env = make(2, agents_per_world=2, sensors=(), max_episode_steps=4)
    recording = viz.record_episodes(env, lambda observation: np.array([0, 2]), indices=(0, 1), size=16, seed=0)
    assert recording.num_steps.tolist() == [1, 4] and len(recording.path(0)) == 2


def test_a_policy_acts_on_what_the_wrapped_batch_gives(make):
    seen = []

    class Doubled(gymnasium.vector.VectorObservationWrapper):
        def observations(self, observations):
            return {name: 2 * values for name, values in observations.items()}

    def stop_at_once(observation):
        seen.append(observation)
        return np.zeros(3, np.int64)

    env = make()
    recording = viz.record_episodes(Doubled(env), stop_at_once, sensors=("depth", "rgb"), size=24, seed=0)
    assert recording.num_steps.tolist() == [1] and not recording.success[0] and recording.spl[0] == 0
    goal = seen[0]["pointgoal_with_gps_compass"][0, 0]
    offset = (recording.goals - recording.positions[0])[0, [0, 2]]
    assert goal == pytest.approx(2 * np.linalg.norm(offset), rel=1e-5)
    assert list(recording.pictures) == ["depth", "rgb"] and recording.view(0, 1).shape == (24, 48, 3)


def test_people_see_more_of_a_scan_than_its_row(make):
    env = make(sensors=("depth",), camera=Camera(64, 1))
    recording = viz.record_episodes(env, lambda observation: np.zeros(3, np.int64), size=24, seed=0)
    assert recording.view(0, 0).shape == (8, 24, 3)


def test_what_cannot_be_recorded_is_refused_with_a_remedy(make):
    with pytest.raises(ValueError, match="autoreset_mode='next_step' or 'disabled'"):
        viz.record_episodes(make(autoreset_mode="same_step"))
    with pytest.raises(TypeError, match=r"gymnasium\.make_vec"):
        viz.record_episodes(gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync"))
    single = gymnasium.make("BatchNav/PointNav-v0", scenes=box_room(), renderer="embree", episodes=5)
    with pytest.raises(TypeError, match=r"env\.unwrapped\.batch"):
        viz.record_episodes(single)
    for wrong, message in (({"indices": (-1,)}, "environments 0 to 0"), ({"size": 0}, "size=0: pass a whole number")):
        with pytest.raises(ValueError, match=message):
            viz.record_episodes(single.unwrapped.batch, **wrong)
    assert viz.record_episodes(single.unwrapped.batch, size=16, seed=0).success[0]
    single.close()


def test_a_clip_shows_the_way_so_far_beside_the_view(make):
    env = make()
    recording = viz.record_episodes(env, indices=(0, 1), size=48, seed=1)
    frames = viz.episode_clip(gymnasium.wrappers.vector.RecordEpisodeStatistics(env), recording, size=600, every=3)
    last = int(recording.num_steps.max())
    assert len(frames) == len([*range(0, last, 3), last])
    assert len({frame.shape for frame in frames}) == 1
    above = viz.batch_map(env, 0, 600, float(recording.positions[0, 0, 1]))
    path = recording.path(0)
    lengths = np.r_[0, np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))]
    halfway = path[np.searchsorted(lengths, lengths[-1] / 2)]
    column, row = above.pixels(halfway).round().astype(int)
    around = np.s_[row - 2 : row + 3, column - 2 : column + 3]
    has_way = [(frame[around] == viz.PATH_COLORS[0]).all(axis=2).any() for frame in (frames[0], frames[-1])]
    assert has_way == [False, True]
    with pytest.raises(ValueError, match="0 filmed agents"):
        viz.episode_clip(env, viz.record_episodes(env, num_filmed=0, seed=1))


def test_maps_show_every_goal_of_a_tour_in_order(make):
    env = make(task=MultiGoalNav(num_goals=3), max_episode_steps=400)
    seen = {1: [], 2: []}  # the goals of these agents as they change

    class Watched(ShortestPathAgent):
        def act(self, env, observation, begun):
            for index, goals in seen.items():
                if env.episodes.count[index] == 1 and not (goals and (goals[-1] == env.episodes.goal[index]).all()):
                    goals.append(env.episodes.goal[index].copy())
            return super().act(env, observation, begun)

    recording = viz.record_episodes(env, Watched(), indices=(1, 2), num_filmed=0, seed=3)
    assert recording.success.all()
    for tour, goals in zip(recording.tours, seen.values(), strict=True):
        np.testing.assert_array_equal(tour, goals)
        assert tour.shape == (3, 3)
    np.testing.assert_array_equal(recording.goals, [goals[0] for goals in seen.values()])
    above = viz.batch_map(env, size=500)
    tour = np.array([[-2.0, 0, 0], [-2.0, 0, 2], [2.5, 0, 2]])
    start = np.array([[3.0, 0, -2.0]])
    picture = viz.draw_trajectories(above, [start], [tour])
    stars = viz.draw_trajectories(above, [start] * 3, tour, colors=viz.PATH_COLORS[:1])  # of three agents, no numbers
    numbers = (picture != stars).any(axis=2)
    for goal in tour:
        column, row = above.pixels(goal).astype(int)
        assert tuple(picture[row, column]) == viz.PATH_COLORS[0]
        beside = (slice(row - 20, row - 2), slice(column + 2, column + 20))
        assert numbers[beside].sum() > 20
        numbers[beside] = False
    assert not numbers.any()
    assert (picture != viz.draw_trajectories(above, [start], [tour[::-1]])).any()
    assert viz.trajectory_maps(env, recording).shape[2] == 3


def test_the_shortest_path_of_a_map_leads_to_all_goals_of_a_tour(make, monkeypatch):
    env = make(task=MultiGoalNav(num_goals=2), max_episode_steps=400)
    recording = viz.record_episodes(env, num_filmed=0, seed=3)
    drawn = []
    draw = viz.draw_trajectories
    clips = "gym_batchnav.viz.clips.draw_trajectories"
    monkeypatch.setattr(clips, lambda *given, **more: drawn.append(given) or draw(*given, **more))
    viz.trajectory_maps(env, recording)
    (path,) = drawn[0][1]
    (tour,) = recording.tours
    length = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    episodes = env.simulator.episode_set(0)
    (row,) = (row for row in range(len(episodes)) if np.array_equal(episodes.tour_goals(row), tour))
    assert length == pytest.approx(episodes.distance[row], rel=1e-4)
    np.testing.assert_allclose(path[-1], tour[1], atol=1e-5)


def test_figures_have_axes_in_metres_and_the_values_of_the_navmesh(make):
    pytest.importorskip("matplotlib")
    from gym_batchnav.viz import figures

    env = make()
    recording = viz.record_episodes(env, size=24, seed=0)
    above = viz.batch_map(env, 0, 160)
    field = figures.field_figure(env.simulator.navmesh(0), recording.goals[0], above)
    left, right = field.axes[0].get_xlim()
    assert (left, right - left) == pytest.approx((above.origin[0], above.picture.shape[1] / above.pixels_per_metre))
    assert field._repr_png_().startswith(b"\x89PNG")
    metres = viz.geodesic_field(env.simulator.navmesh(0), recording.goals[0], above)
    assert field.axes[1].get_ylim() == pytest.approx((0, metres[np.isfinite(metres)].max()))
    lengths, bends, _ = figures.episodes_figure(env.simulator.episode_set(0)).axes
    for axes in (lengths, bends):
        assert sum(bar.get_height() for bar in axes.patches) == len(env.simulator.episode_set(0))
    assert bends.patches[0].get_x() >= 0.99
    strip = figures.strip_figure(recording, count=4)
    np.testing.assert_array_equal(strip.axes[-1].lines[0].get_ydata(), recording.distances[:, 0])
    with pytest.raises(ValueError, match="num_filmed="):
        figures.strip_figure(recording, index=1)


FRAMES = [np.full((21, 35, 3), shade, np.uint8) for shade in range(0, 240, 48)]


@pytest.mark.parametrize("name", ["clip.gif", "clip.png", "clip.mp4", "clip.webm"])
def test_clips_keep_frames_and_size(tmp_path, name):
    is_film = name in ("clip.mp4", "clip.webm")
    if is_film:
        pytest.importorskip("imageio_ffmpeg", reason="imageio-ffmpeg is not installed")
    viz.save_clip(FRAMES, tmp_path / name, fps=8)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if is_film:
        import imageio.v3 as iio

        film = iio.imread(tmp_path / name, plugin="FFMPEG")
        assert iio.immeta(tmp_path / name, plugin="FFMPEG")["fps"] == 8
    else:
        with Image.open(tmp_path / name) as clip:
            film = np.stack([np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(clip)])
    assert film.shape == (len(FRAMES), *((22, 36, 3) if is_film else (21, 35, 3)))  # even sizes
    np.testing.assert_allclose(film[:, 8, 8].mean(axis=1), range(0, 240, 48), atol=6)


def test_without_the_extra_a_film_says_how_to_get_it_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio.v3", None)
    with pytest.raises(MissingExtraError, match=r'pip install "gym-batchnav\[viz\]"'):
        viz.save_clip(FRAMES, tmp_path / "clip.mp4")
    monkeypatch.delitem(sys.modules, "gym_batchnav.viz.figures", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'a figure .*pip install "gym-batchnav\[viz\]"'):
        import gym_batchnav.viz.figures  # noqa: F401
    assert not list(tmp_path.iterdir())


def test_frames_that_make_no_clip_are_refused(tmp_path):
    for frames in ([], [FRAMES[0], FRAMES[0][1:]]):
        with pytest.raises(ValueError, match="of the same size"):
            viz.save_clip(frames, tmp_path / "clip.gif")
    with pytest.raises(ValueError, match=r"'.jpg' is not the suffix of a clip; use \.gif"):
        viz.save_clip(FRAMES, tmp_path / "clip.jpg")
    with pytest.raises(ValueError, match="fps=0: pass a positive number"):
        viz.save_clip(FRAMES, tmp_path / "clip.gif", fps=0)
    for wrong in (np.zeros((4, 4, 3)), np.zeros((4, 4, 1), np.uint8)):
        with pytest.raises(ValueError, match=r"pass uint8 \[H, W, 3\]"):
            viz.save_clip([wrong], tmp_path / "clip.gif")
    assert not list(tmp_path.iterdir())


def test_tasks_without_success_have_no_goals(make):
    env = make(2, task=Explore(), max_episode_steps=8, camera=Camera(16, 16))
    with pytest.raises(ValueError, match="agents of Explore have no goal to go to"):
        viz.record_episodes(env)
    recording = viz.record_episodes(env, RandomAgent(), indices=(0, 1), num_filmed=2, size=32, seed=3)
    assert [len(tour) for tour in recording.tours] == [0, 0] and np.isnan(recording.spl).all()
    picture = viz.trajectory_maps(env, recording)
    assert picture.ndim == 3 and len(viz.episode_clip(env, recording)) > 1
