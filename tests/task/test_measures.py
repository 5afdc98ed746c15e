import numpy as np
import pytest

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.state import Buffers, agent_state, episode_state
from gym_batchnav.task import measures as measure
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.explore import Coverage
from gym_batchnav.task.measures import NDTW


def test_success_needs_stop_within_the_distance():
    stopped = np.array([True, True, False, True])
    distance = np.array([0.19, 0.2, 0.0, np.inf])
    np.testing.assert_array_equal(measure.success(stopped, distance, 0.2), [True, False, False, False])


def test_spl_of_known_walks():
    succeeded = np.array([True, True, True, False])
    start = np.array([4.0, 4.0, 4.0, 4.0])
    path = np.array([4.0, 8.0, 2.0, 4.0])
    # Twice as far as needed is one half; a path shorter than the geodesic (the radius of success) is no more than 1.
    np.testing.assert_allclose(measure.spl(succeeded, start, path), [1, 0.5, 1, 0])


def test_soft_spl_rewards_the_way_made_and_nothing_is_divided_by_zero():
    left = np.array([1.0, 6.0, 0.0])
    start = np.array([4.0, 4.0, 4.0])
    path = np.array([3.0, 2.0, 5.0])
    np.testing.assert_allclose(measure.soft_spl(left, start, path), [0.75, 0, 0.8])
    zero = np.zeros(1)
    with np.errstate(all="raise"):
        assert measure.spl(np.array([True]), zero, zero)[0] == 1
        assert measure.soft_spl(zero, zero, zero)[0] == pytest.approx(0)


def state_of(buffers=None, success_distance=0.2, max_episode_steps=500, **arrays):
    count = len(next(iter(arrays.values())))
    episodes = episode_state(count)
    for name, values in arrays.items():
        getattr(episodes, name)[:] = values
    return TaskState(agent_state(count), episodes, Buffers(buffers or {}), None, max_episode_steps, success_distance)


def test_tasks_are_summed_up_by_spl_and_success_or_by_their_first_measure():
    assert measure.main_measures(["distance_to_goal", "success", "spl"]) == ("spl", "success")
    assert measure.main_measures(["success"]) == ("success",) and measure.main_measures([]) == ()
    assert measure.main_measures(["cells_visited", "path_length"]) == ("cells_visited",)


def test_collisions_per_metre():
    state = state_of(num_collisions=[0, 6, 3, 2], path_length=[4.0, 3.0, 0.0, 0.5])
    np.testing.assert_array_equal(measure.CollisionRate().measure(state), [0, 2, 3, 2])


def test_oracle_success_remembers_the_nearest_visit():
    oracle = measure.OracleSuccess()
    state = state_of(oracle.buffers(4), distance=[0.1, 3, 3, 3])
    oracle.begin(state, np.arange(4))
    for distance, active in (([4, 0.1, 0.3, 0.1], [1, 1, 1, 0]), ([4, 4, 0.2, 4], [1, 1, 1, 1])):
        state.episodes.distance[:] = distance
        oracle.update(state, np.ones(4, int), np.array(active, bool))
    np.testing.assert_array_equal(oracle.measure(state), [True, True, False, False])
    oracle.begin(state, np.array([0]))
    np.testing.assert_array_equal(oracle.measure(state), [False, True, False, False])


def test_stop_in_the_last_step_is_no_time_out():
    state = state_of(num_steps=[9, 10, 10], stopped=[False, False, True], max_episode_steps=10)
    np.testing.assert_array_equal(measure.TimedOut().measure(state), [False, True, False])


def test_distance_bins_include_their_lower_limit():
    state = state_of(start_distance=[1.5, 2.99, 3.0, 4.0, 5.0, 20.0])
    np.testing.assert_array_equal(measure.DistanceBin().measure(state), [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(measure.DistanceBin((4.0,)).measure(state), [0, 0, 0, 1, 1, 1])
    for limits in ((), (3.0, 2.0), (0.0, 1.0), (np.nan,), 3.0, "3", (None,)):
        with pytest.raises(ValueError, match="rising, positive"):
            measure.DistanceBin(limits)


def test_a_batch_reports_them(library):
    added = (
        measure.CollisionRate(), measure.NavigationError(), measure.OracleSuccess(), measure.TimedOut(),
        measure.DistanceBin(), NDTW(), Coverage(),
    )  # fmt: skip
    keywords = {"library": library, "episodes": 20, "sensors": (), "measures": added}
    env = BatchNavEnv(8, autoreset_mode="disabled", max_episode_steps=150, **keywords)
    _, info = env.reset(seed=0)
    assert set(info) >= {"collisions_per_metre", "coverage"} and "ndtw" not in info
    done = np.zeros(8, bool)
    for _ in range(150):
        with env.paused(done):
            _, _, terminated, truncated, info = env.step(env.shortest_path_actions())
        ended = (terminated | truncated) & ~done
        for index in np.flatnonzero(ended):
            assert info["success"][index] and info["oracle_success"][index] and not info["timed_out"][index]
            assert info["navigation_error"][index] == info["distance_to_goal"][index] < 0.2
            assert info["distance_bin"][index] == np.digitize(env.episodes.start_distance[index], (3, 5))
            assert info["ndtw"][index] > 0.9 and 0 < info["coverage"][index] <= 1
        done |= ended
        if done.all():
            break
        env.simulator.episodes.done[:] = False
    assert done.all()
    env.close()
