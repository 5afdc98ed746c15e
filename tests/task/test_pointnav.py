import numpy as np
import pytest

from gym_batchnav.state import agent_state, episode_state
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.components import Components
from gym_batchnav.task.pointnav import PointNav


def state_of(task=PointNav(), **arrays):  # noqa: B008 - frozen
    count = len(next(iter(arrays.values())))
    agents = agent_state(count)
    episodes = episode_state(count)
    for name, values in arrays.items():
        getattr(episodes, name)[:] = values
    return TaskState(agents, episodes, {}, None, 500, task.success_distance)


def measured(state, task=PointNav()):  # noqa: B008 - frozen
    components = Components(task)
    all_ended = np.ones(state.num_envs, bool)
    return components.measure_step(state) | components.measure_ends(state, all_ended)


def scored(state, task=PointNav()):  # noqa: B008 - frozen
    components = Components(task)
    active = np.ones(state.num_envs, bool)
    measures = components.measure_step(state)
    terminated = components.terminated(state, measures, active)
    measures |= components.measure_ends(state, terminated | state.timed_out)
    return components.reward(state, measures, active), terminated


def test_reward_is_slack_plus_progress_plus_bonus():
    state = state_of(previous_distance=[3, 0.3, 0.3], distance=[2.75, 0.1, 0.3], stopped=[False, True, True])
    np.testing.assert_allclose(scored(state)[0], [0.24, -0.01 + 0.2 + 2.5, -0.01], atol=1e-6)


def test_the_papers_last_step_pays_spl_and_no_progress():
    state = state_of(
        previous_distance=[3, 0.1, 0.1, 0.1, 3],
        distance=[2.75, 0.1, 0.1, 0.1, 2.75],
        start_distance=[4, 4, 4, 4, 4],
        path_length=[1, 8, 4, 4, 0],
        num_steps=[1, 9, 9, 500, 500],
        stopped=[False, True, True, False, False],
    )
    # Under way: progress. Success at twice the length, success at the length, time-outs on the goal and on the way.
    reward, _ = scored(state, PointNav.bps_paper())
    np.testing.assert_allclose(reward, [0.24, -0.01 + 1.25, -0.01 + 2.5, -0.01, -0.01], atol=1e-6)


def test_stop_terminates_and_all_actions_taken_is_time_out():
    state = state_of(stopped=[True, False, True, False], num_steps=[3, 500, 500, 499], distance=[0, 0, 0, 0])
    np.testing.assert_array_equal(scored(state)[1], [True, False, True, False])
    np.testing.assert_array_equal(state.timed_out, [False, True, True, False])
    measures = measured(state_of(stopped=[False], num_steps=[500], distance=[0.0], start_distance=[2.0]))
    assert not measures["success"][0] and measures["spl"][0] == 0  # it stands on its goal at the time limit


@pytest.mark.parametrize(("distance", "succeeds"), [(0.9, [True]), (1.1, [False])])
def test_success_is_by_the_tasks_own_distance(distance, succeeds):
    task = PointNav(success_distance=1.0)
    assert measured(state_of(task, stopped=[True], distance=[distance]), task)["success"] == succeeds


def test_infos_are_of_the_dtypes_that_users_know():
    state = state_of(stopped=[True], distance=[0.1], start_distance=[2.0])
    dtypes = {name: str(values.dtype) for name, values in measured(state).items()}
    assert dtypes == {
        "distance_to_goal": "float32", "path_length": "float64", "collisions_count": "int32",
        "success": "bool", "spl": "float64", "soft_spl": "float64",
    }  # fmt: skip
    assert scored(state)[0].dtype == np.float64


def test_observation_is_polar_goal():
    state = state_of(goal=[[-2, 0, 0]])
    components = Components(PointNav())
    observed = components.observe(state)["pointgoal_with_gps_compass"]
    np.testing.assert_allclose(observed, [[2, np.pi / 2]], atol=1e-6)
    assert components.spaces["pointgoal_with_gps_compass"].contains(observed[0])
