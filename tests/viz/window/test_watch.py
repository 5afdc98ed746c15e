"""A window onto a batch that a program steps."""

import threading
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("viser", reason="needs the extra [view]")

from gym_batchnav import viz
from gym_batchnav.geometry import Camera, camera_to_world
from gym_batchnav.lenses import Equirectangular
from gym_batchnav.state import Action
from gym_batchnav.viz.window.page import Page
from gym_batchnav.viz.window.snapshot import SENSORS, Photographer
from gym_batchnav.viz.window.watch import Pace
from gym_batchnav.worlds.views import FIRST_BODY_ID


@pytest.fixture
def make(make):
    return partial(make, 4)


def wait_for(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_a_snapshot_is_a_copy_of_what_the_picked_agent_sees(make):
    env = make(sensors=("rgb",))
    env.reset(seed=1)
    photographer = Photographer(env, env.cameras.rig.first.width)
    snapshot = photographer.take(2)
    position = env.agents.position[2].copy()
    np.testing.assert_array_equal(snapshot.indices, [2, 0, 1, 3])
    np.testing.assert_array_equal(snapshot.poses, camera_to_world(env.cameras.views(env.agents))[[2, 0, 1, 3]])
    np.testing.assert_array_equal(snapshot.pictures["rgb"], env.pictures(np.array([2]), 64)[0])
    assert set(snapshot.pictures) == set(SENSORS)
    for _ in range(5):
        env.step(env.shortest_path_actions())
    np.testing.assert_array_equal(snapshot.position, position)
    assert snapshot.facts["state"] == "under way" and photographer.take(2).facts["step"] == "5 of 500"
    assert photographer.take(99).picked == 3
    photographer.close()


def test_cameras_with_another_lens_are_shown(make):
    env = make(sensors=("rgb",), camera=Camera(32, 16, lens=Equirectangular()))
    env.reset(seed=1)
    photographer = Photographer(env, 32)
    snapshot = photographer.take(1)
    assert snapshot.fov == pytest.approx(2 * np.arctan(0.5)) and snapshot.aspect == 2
    assert snapshot.pictures["rgb"].shape == (16, 32, 3)
    photographer.close()


def test_other_agents_are_in_the_pictures(make):
    env = make(sensors=("rgb", "semantic"), agents_per_world=4, renderer="embree")
    env.reset(seed=1)
    photographer = Photographer(env, env.cameras.rig.first.width)
    num_seen = 0
    for _ in range(8):
        observation = env.step(env.shortest_path_actions())[0]
        for picked in range(4):
            np.testing.assert_array_equal(photographer.take(picked).pictures["rgb"], observation["rgb"][picked])
        num_seen += int((observation["semantic"] >= FIRST_BODY_ID).any(axis=(1, 2, 3)).sum())
    assert num_seen > 0
    photographer.close()


def test_nothing_is_taken_while_nobody_looks(make, monkeypatch):
    monkeypatch.setattr(Photographer, "take", lambda *_: pytest.fail("a snapshot for nobody"))
    env = make()
    with viz.serve(env, port=0) as window:
        env.reset(seed=1)
        for _ in range(20):
            env.step(env.shortest_path_actions())
        assert window.num_viewers == 0 and window.page.shown is None
    assert env.stepper.listeners == []


def test_the_state_says_how_an_episode_ended(make):
    env = make(sensors=())
    env.reset(seed=1)
    photographer = Photographer(env, 32)

    def state_of(index):
        return photographer.take(index).facts["state"]

    env.step(np.where(np.arange(4) == 1, Action.STOP, env.shortest_path_actions()))
    assert state_of(1) == f"ended by STOP: failure, {env.episodes.distance[1]:.2f} m from the goal"
    for _ in range(200):
        if env.episodes.done[0]:
            break
        assert state_of(0) == "under way"
        env.step(env.shortest_path_actions())
    assert state_of(0) == "ended by STOP: success"
    photographer.close()


def test_viewers_follow_the_batch(make, monkeypatch):
    loading = []  # what the panel says while a scene is sent
    load = Page._load_scene
    monkeypatch.setattr(Page, "_load_scene", lambda *given: (loading.append(given[0]._loading.visible), load(*given)))
    monkeypatch.setattr(Page, "num_viewers", property(lambda self: 1))
    env = make()
    with viz.serve(env, port=0, share=1.0) as window:
        env.reset(seed=1)
        wait_for(lambda: window.page.shown is not None)
        assert loading == [True] and not window.page._loading.visible
        first = window.page.shown
        time.sleep(0.15)  # longer than the period
        for _ in range(3):
            env.step(env.shortest_path_actions())
            time.sleep(0.15)
        wait_for(lambda: window.page.shown is not first)
        assert int(window.page.shown.facts["step"].split()[0]) >= 1
        assert window.page.shown.picked == 0
    window.close()


@pytest.mark.parametrize(("failing", "what"), [((Page, "show"), "draw"), ((Photographer, "take"), "look at")])
def test_an_error_of_the_window_is_reported_once_and_the_batch_goes_on(make, monkeypatch, failing, what):
    monkeypatch.setattr(Page, "num_viewers", property(lambda self: 1))
    works = getattr(*failing)
    calls = []

    def fails_twice(*arguments):
        calls.append(arguments)
        if len(calls) <= 2:
            raise KeyError("a defect")
        return works(*arguments)

    monkeypatch.setattr(*failing, fails_twice)
    monkeypatch.setattr("gym_batchnav.viz.window.watch.PERIOD", 0.0)
    env = make()
    with pytest.warns(UserWarning) as reports, viz.serve(env, port=0, share=1.0) as window:
        env.reset(seed=1)
        end = time.monotonic() + 30
        while window.page.shown is None and time.monotonic() < end:
            env.step(env.shortest_path_actions())
            time.sleep(0.01)
        assert window.page.shown is not None and len(calls) >= 3
    (report,) = reports
    assert f"could not {what} the batch" in str(report.message) and "KeyError: 'a defect'" in str(report.message)


def test_a_watched_batch_behaves_like_any_other(make, monkeypatch):
    monkeypatch.setattr(Page, "num_viewers", property(lambda self: 1))
    watched = make(sensors=("depth", "rgb"))
    plain = make(sensors=("depth", "rgb"))
    with viz.serve(watched, port=0, share=1.0):
        watched.reset(seed=5)
        plain.reset(seed=5)
        for _ in range(40):
            actions = plain.shortest_path_actions()
            seen, expected = watched.step(actions), plain.step(actions)
            for name, values in expected[0].items():
                np.testing.assert_array_equal(seen[0][name], values)
            np.testing.assert_array_equal(seen[1], expected[1])


def test_wrong_arguments_are_named(make):
    threads = threading.active_count()
    with pytest.raises(TypeError, match="is not a batch"):
        viz.serve(gymnasium.make("CartPole-v1"))
    for keywords in ({"share": 0}, {"size": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(keywords))}=0"):
            viz.serve(make(), **keywords)
    assert threading.active_count() <= threads


@given(st.lists(st.floats(1e-4, 2.0), min_size=2, max_size=30), st.floats(0.001, 1.0), st.floats(0.0, 0.5))
def test_work_takes_at_most_its_share_of_the_time(durations, share, period):
    now = begun = 100.0
    pace = Pace(share, period, lambda: now)
    assert pace.wait == 0
    for duration in durations:
        now += pace.wait
        with pace.work():
            now += duration
    now += pace.wait
    assert sum(durations) <= share * (now - begun) * (1 + 1e-9)
    assert now - begun >= period * len(durations) - 1e-9
