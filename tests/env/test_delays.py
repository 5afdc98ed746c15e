"""Periods and latencies of sensors, compared with lists of all past readings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walks import assert_equal

from gym_batchnav import BatchNavEnv, Camera, GaussianNoise, SensorTiming
from gym_batchnav.env.config import EnvConfig, bytes_per_environment
from gym_batchnav.task.measures import PathLength
from gym_batchnav.task.sensors import PreviousAction

N = 5
GOAL = "pointgoal_with_gps_compass"


@pytest.fixture
def make(library, opened):
    def make(**kwargs):
        keywords = {"library": library, "episodes": 20, "renderer": "embree"}
        keywords |= {"sensors": ("rgb", "depth", PreviousAction()), "camera": Camera(12, 8), **kwargs}
        return opened(BatchNavEnv(N, **keywords))

    return make


def copies(observation):
    return {key: values.copy() for key, values in observation.items()}


class Clashing(PathLength):
    """A measure whose buffer has the name of one of the batch's."""

    name = "clashing"

    def buffers(self, num_envs):
        return {"kept depth": np.zeros(num_envs)}


def test_buffers_of_a_component_do_not_replace_those_of_the_batch(make):
    with pytest.raises(ValueError, match="buffers 'kept depth' of a component: the batch has others of this name"):
        make(sensor_timing={"depth": SensorTiming(latency=2)}, measures=(Clashing(),))


TIMINGS = st.dictionaries(
    st.sampled_from(["rgb", "depth", GOAL, "previous_action"]),
    st.builds(SensorTiming, st.integers(1, 6), st.integers(0, 9)),
)


@settings(max_examples=8)
@given(timing=TIMINGS, mode=st.sampled_from(["next_step", "same_step", "disabled"]), seed=st.integers(0, 99))
def test_observations_are_those_of_the_past(library, timing, mode, seed):
    keywords = {"library": library, "episodes": 20}
    keywords |= {"sensors": ("rgb", "depth", PreviousAction()), "camera": Camera(6, 4), "renderer": "embree"}
    delayed = BatchNavEnv(N, sensor_timing=timing, autoreset_mode=mode, **keywords)
    clean = BatchNavEnv(N, autoreset_mode=mode, **keywords)
    past = [{} for _ in range(N)]  # by environment: readings by step

    def check(index, step, seen, plain):
        past[index][step] = {key: values[index].copy() for key, values in plain.items()}
        for key, values in seen.items():
            one = timing.get(key, SensorTiming())
            step_read = max(step - one.latency, 0) // one.period * one.period
            np.testing.assert_array_equal(values[index], past[index][step_read][key])

    def check_all(seen, plain):
        assert seen.keys() == plain.keys()
        for index, step in enumerate(clean.episodes.num_steps.tolist()):
            past[index] = past[index] if step else {}
            check(index, step, seen, plain)

    rng = np.random.default_rng(seed)
    check_all(*(env.reset(seed=seed)[0] for env in (delayed, clean)))
    for _ in range(30):
        actions = rng.choice(4, N, p=[0.06, 0.44, 0.25, 0.25])
        before = clean.episodes.num_steps.copy()
        seen, _, _, _, info = delayed.step(actions)
        plain, _, _, _, clean_info = clean.step(actions)
        for index in np.flatnonzero(info.get("_final_obs", np.zeros(N, bool))):  # of the episodes that ended
            check(index, int(before[index]) + 1, info["final_obs"], clean_info["final_obs"])
        check_all(seen, plain)
        if mode == "disabled" and clean.episodes.done.any():
            options = {"reset_mask": clean.episodes.done.copy()}
            check_all(*(env.reset(options=options)[0] for env in (delayed, clean)))
    delayed.close()
    clean.close()


def test_a_restored_state_holds_what_has_not_arrived_yet(make):
    env = make(sensor_timing={"rgb": SensorTiming(np.uint8(3), np.uint8(4)), "depth": SensorTiming(latency=2)})
    env.reset(seed=0)
    for _ in range(5):
        env.step(np.full(N, 1))
    state = env.get_state()
    first = [copies(env.step(np.full(N, 2))[0]) for _ in range(6)]
    env.set_state(state)
    for one in first:
        assert_equal(env.step(np.full(N, 2))[0], one)


def test_a_picture_keeps_the_noise_of_the_step_in_which_it_was_taken(make):
    env = make(sensor_timing={"rgb": SensorTiming(4)}, sensor_noise={"rgb": GaussianNoise()})
    pictures = [env.reset(seed=0)[0]["rgb"]] + [env.step(np.full(N, 2))[0]["rgb"] for _ in range(4)]
    for picture in pictures[1:4]:
        np.testing.assert_array_equal(picture, pictures[0])
    assert (pictures[4] != pictures[0]).any()


def test_tasks_read_without_delay(make):
    env = make(sensor_timing={GOAL: SensorTiming(latency=3)})
    env.reset(seed=0)
    for _ in range(6):
        seen = env.step(np.full(N, 2))[0]
    assert (seen[GOAL] != env.task_state.reading(GOAL)).any()


def test_the_estimate_of_memory_counts_what_is_kept():
    timings = (None, {"rgb": SensorTiming(latency=9)})
    without, delayed = (bytes_per_environment(EnvConfig(sensors=("rgb",), sensor_timing=one)) for one in timings)
    assert delayed - without == 10 * 64 * 64 * 3
    huge = EnvConfig(sensors=("rgb",), camera=Camera(1024, 1024), sensor_timing={"rgb": SensorTiming(latency=999)})
    assert bytes_per_environment(huge) > 1000 * 1024 * 1024 * 3, "without taking memory"


@pytest.mark.parametrize(
    ("timing", "message"),
    [
        ({"infrared": SensorTiming()}, "'infrared'.*unknown sensor; available: 'depth', 'pointgoal_with_gps_compass'"),
        ({"depth": 3}, "pass a SensorTiming"),
        (SensorTiming(), "pass a dict"),
    ],
)
def test_wrong_timing_is_refused_by_name(timing, message):
    with pytest.raises(ValueError, match=f"(?s)sensor_timing=.*{message}"):
        BatchNavEnv(2, sensor_timing=timing)


def test_periods_are_checked():
    for period in (0, 1.5, True, 1001, "2"):
        with pytest.raises(ValueError, match="period="):
            SensorTiming(period)
    with pytest.raises(ValueError, match="latency="):
        SensorTiming(latency=-1)
