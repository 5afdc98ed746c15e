"""States from outside: whatever does not fit is refused by name before a kernel reads it, and nothing changes."""

import copy

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.task.measures import NDTW
from gym_batchnav.task.sensors import PreviousAction
from gym_batchnav.worlds.people import People

N = 2


@pytest.fixture(scope="module")
def env():
    env = BatchNavEnv(
        N, scenes=[box_room()], sensors=("depth", MapPath(), PreviousAction()), measures=(NDTW(),), renderer="embree",
        camera=Camera(16, 16), agents_per_world=2, bodies=(People(1),), episodes=20,
    )  # fmt: skip
    env.reset(seed=0)
    env.step(np.array([1, 2]))
    yield env
    env.close()


def changed(array, value):
    array = array.copy()
    array.reshape(-1)[0] = value
    return array


WILD = [
    ("buffers", "map_places", np.nan),
    ("buffers", "map_path_cells", 32767),
    ("buffers", "map_path_cells", -1),
    ("buffers", "map_path_counts", 65),
    ("buffers", "map_path_reading", np.inf),
    ("buffers", "reference_size", 10**6),
    ("buffers", "previous_action", 9),
    ("agents", "position", np.nan),
    ("agents", "pitch", 2.0),
    ("agents", "slot", 1),
    ("episodes", "goal", np.nan),
    ("episodes", "distance", np.nan),
    ("episodes", "path_length", -1.0),
    ("episodes", "num_steps", -1),
    ("episodes", "num_collisions", 2**31 - 1),
    ("episodes", "category", 1),
    ("episodes", "count", -1),
    ("worlds", "previous", 1e30),
    ("worlds", "heading", np.inf),
    ("worlds", "num_goals", -(2**31)),
]


def assert_same(found, expected):
    assert found["schedule"] == expected["schedule"] and found["library"] == expected["library"]
    for part in ("agents", "episodes", "buffers", "worlds"):
        for name, array in expected[part].items():
            np.testing.assert_array_equal(found[part][name], array, err_msg=name)


@pytest.mark.parametrize(("part", "name", "value"), WILD)
def test_wild_values_are_refused_by_name(env, part, name, value):
    state = env.get_state()
    wild = {**state, part: {**state[part], name: changed(state[part][name], value)}}
    with pytest.raises(ValueError, match=f"{name}|state uses scene slots"):
        env.set_state(wild)
    assert_same(env.get_state(), state)


def test_other_kinds_of_arrays_flags_of_other_bytes_and_arrays_of_others_are_refused_by_name(env):
    for array in (None, "text", {}, [[1], [2, 3]], np.zeros(N), np.zeros(N, object), np.zeros(N, np.int64)):
        state = env.get_state()
        state["agents"]["polygon"] = array
        with pytest.raises(ValueError, match="polygon"):
            env.set_state(state)
    state = env.get_state()
    flags = np.full(N, 7, np.uint8).view(bool)
    for wrong in ({"done": flags}, {"mine": np.zeros(N)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            env.set_state({**state, "episodes": {**state["episodes"], **wrong}})


@pytest.mark.parametrize(
    "path",
    [("schedule",), ("library",), *(("schedule", key) for key in ("order", "next"))]
    + [("library", key) for key in ("names", "source_index", "active", "plan", "refused", "step", "next_swap")]
    + [("library", "plan", "seed"), ("library", "plan", "position"), ("library", "active", 0), ("worlds",)],
)
def test_a_changed_plan_is_refused_or_taken_and_no_other_error_is_raised(env, path):
    state = env.get_state()
    for wrong in (None, 7, "x", [], {}, -1, 2**70, 0.5, [[]], ["once"], {"": 0}):
        wild = copy.deepcopy(state)
        place = wild
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = wrong
        try:
            env.set_state(wild)
        except ValueError:
            assert_same(env.get_state(), state)
        else:
            assert wrong in (7, {})
            env.set_state(state)
