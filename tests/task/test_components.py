"""Custom components: the order of calls, buffers, and errors."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from walks import assert_equal, walk

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.task.api import Measure, Sensor, Task
from gym_batchnav.task.explore import CellsVisited, Explore
from gym_batchnav.task.measures import Success
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.sensors import GPS, Compass, Heading, PreviousAction
from gym_batchnav.testing import check_vector_env

STOP, FORWARD, LEFT, RIGHT = range(4)


@dataclass(frozen=True)
class Turns(Measure):
    """A sensor and measure that counts turns."""

    name = "turns"
    space = Box(0, np.inf, (1,), np.float32)

    def buffers(self, num_envs):
        return {"turns": np.full(num_envs, 77)}  # which no episode sees

    def update(self, state, actions, active):
        state.buffers["turns"] += active & (actions >= LEFT)

    def measure(self, state):
        return state.buffers["turns"]

    def observe(self, state):
        return state.buffers["turns"][:, None].astype(np.float32)


@dataclass(frozen=True)
class Trail(Sensor):
    """A sensor of the last three positions, with buffers that is initialised to the start."""

    name = "trail"
    space = Box(-np.inf, np.inf, (3, 3), np.float32)

    def buffers(self, num_envs):
        return {"trail": np.zeros((num_envs, 3, 3), np.float32)}

    def begin(self, state, indices):
        state.buffers["trail"][indices] = state.agents.position[indices, None]

    def update(self, state, actions, active):
        trail = state.buffers["trail"]
        trail[active] = np.concatenate([trail[active, 1:], state.agents.position[active, None]], axis=1)

    def observe(self, state):
        return state.buffers["trail"]


class Dance(Task):
    """A task with one point per turn; the fifth turn ends an episode."""

    sensors = (Trail(),)
    measures = (Turns(),)

    def reward(self, state, measures):
        return np.ones(state.num_envs, np.float32) * measures["turns"]

    def terminated(self, state, measures):
        return measures["turns"] >= 5


@pytest.fixture
def make(library, opened):
    def make(num_envs=4, **kwargs):
        keywords = {"library": library, "episodes": 50, "sensors": (), "task": Dance()}
        return opened(BatchNavEnv(num_envs, **{**keywords, "max_episode_steps": 9, **kwargs}))

    return make


def assert_same_steps(left, right):
    for one, other in zip(left, right, strict=True):
        assert_equal(one[0], other[0]), assert_equal(one[4], other[4])
        for a, b in zip(one[1:4], other[1:4], strict=True):
            np.testing.assert_array_equal(a, b)


class TestProtocol:
    def test_defaults_do_nothing_and_stop_ends_an_episode(self, make):
        class Idle(Task):
            def reward(self, state, measures):
                return np.full(state.num_envs, 3)

        env = make(3, task=Idle(), max_episode_steps=4)
        assert Idle().buffers(3) == {} and env.single_observation_space == Dict({})
        observation, info = env.reset(seed=0)
        assert observation == {}
        assert set(info) == {"scene_index", "episode_index", "_scene_index", "_episode_index"}
        for step in range(4):
            _, reward, terminated, truncated, _ = env.step(np.array([FORWARD, STOP if step == 0 else LEFT, LEFT]))
            if step == 0:
                np.testing.assert_array_equal(terminated, [False, True, False])
                np.testing.assert_array_equal(reward, [3, 3, 3])
                assert reward.dtype == np.float64
        np.testing.assert_array_equal(truncated, [True, False, True])

    @pytest.mark.parametrize("base", [Sensor, Measure, Task])
    def test_what_must_be_said_must_be_said(self, base):
        with pytest.raises(TypeError, match=r"observe|measure|reward"):
            type("Silent", (base,), {})()

    def test_an_object_that_inherits_nothing_will_do(self, make):
        class Bare:
            name = "bare"
            space = Discrete(3)
            buffers = Sensor.buffers
            begin = Sensor.begin
            update = Sensor.update

            def observe(self, state):
                return np.full(state.num_envs, 2)

        observation, _ = make(2, sensors=(Bare(),)).reset(seed=0)
        np.testing.assert_array_equal(observation["bare"], [2, 2])

    def test_calls_come_in_the_order_that_is_written_down(self, make):
        calls = []

        class Told(Task):
            def begin(self, state, indices):
                calls.append(f"begin {indices.tolist()}")

            def update(self, state, actions, active):
                calls.append("update")

            def reward(self, state, measures):
                calls.append("reward")
                return measures["turns"]

            def terminated(self, state, measures):
                calls.append("terminated")
                return state.episodes.stopped

        env = make(2, task=Told(), measures=(Turns(),), autoreset_mode="same_step")
        env.reset(seed=0), env.step(np.array([STOP, LEFT]))
        assert calls == ["begin [0, 1]", "update", "terminated", "reward", "begin [0]"]

    def test_stopping_at_the_limit_of_a_task_that_goes_on_is_a_time_out(self, make):
        env = make(1, max_episode_steps=3)
        env.reset(seed=0)
        ends = [env.step(np.array([STOP]))[2:4] for _ in range(3)]
        assert [bool(truncated[0]) for _, truncated in ends] == [False, False, True]
        assert not any(terminated[0] for terminated, _ in ends)

    def test_a_reading_is_computed_once_a_step_for_rewards_and_observations(self, make):
        counts = []

        @dataclass(frozen=True)
        class Facing(Sensor):
            name = "facing"
            space = Box(-np.inf, np.inf, (1,), np.float32)

            def observe(self, state):
                counts.append(1)
                return state.agents.heading[:, None]

        class Look(Task):
            sensors = (Facing(),)

            def reward(self, state, measures):
                with pytest.raises(ValueError, match="read-only"):
                    state.reading("facing")[:] = 0
                return state.reading("facing")[:, 0]

        env = make(2, task=Look(), sensors=())
        env.reset(seed=0)
        for _ in range(3):
            counts.clear()
            observation, reward, *_ = env.step(np.array([LEFT, RIGHT]))
            assert len(counts) == 1
            np.testing.assert_array_equal(reward, observation["facing"][:, 0])
        turned = env.set_pose(env.agents.position, env.agents.heading + 1)
        np.testing.assert_array_equal(turned["facing"][:, 0], env.agents.heading)
        with pytest.raises(KeyError, match="sensor 'gps': add it to the task's sensors; the known ones are 'facing'"):
            env.task_state.reading("gps")

    def test_headings_are_stored_within_a_turn(self, make):
        env = make(3, task=PointNav(), sensors=(Heading(),))
        env.reset(seed=0)
        given = np.array([5.0, -np.pi, 1.25])
        seen = env.set_pose(env.agents.position, given)
        np.testing.assert_allclose(seen["heading"][:, 0], [5 - 2 * np.pi, -np.pi, 1.25], atol=1e-6)
        assert env.observation_space.contains(seen)
        for far in (np.pi, 101.0, -1e4):
            assert env.observation_space.contains(env.set_pose(env.agents.position, np.full(3, far)))

    def test_last_observations_are_read_for_the_agents_whose_episodes_end(self, make):
        sizes = []

        class Once(GPS):
            def observe(self, state):
                assert (state.reading("trail")[:, 2] == state.agents.position).all()
                sizes.append(state.num_envs)
                return GPS.observe(self, state)

        env = make(3, task=PointNav(), sensors=(Once(), Trail()), autoreset_mode="same_step")
        env.reset(seed=0)
        env.step(np.array([LEFT, STOP, FORWARD]))
        assert sizes == [3, 1, 3]

    def test_readings_of_another_state_are_not_observed(self, make):
        env = make(2, task=PointNav(), sensors=(Compass(),))
        start = env.reset(seed=0)[0]["compass"]
        state = env.get_state()
        functional = env.functional("numpy")
        value = functional.state()
        env.task_state.reading("compass")
        turned = env.set_pose(env.agents.position, env.episodes.start_heading + 0.5)["compass"]
        np.testing.assert_allclose(turned, 0.5, atol=1e-6)
        env.task_state.reading("compass")
        np.testing.assert_array_equal(env.set_state(state)["compass"], start)
        env.step(np.array([LEFT, RIGHT]))
        env.task_state.reading("compass")
        np.testing.assert_array_equal(functional.observe(value)["compass"], start)

    def test_measures_are_computed_once_a_step_and_at_the_end_only_when_needed(self, make):
        count = {"always": 0, "late": 0}

        @dataclass(frozen=True)
        class Counted(Measure):
            name: str
            at_end: bool

            def measure(self, state):
                count[self.name] += 1
                return np.zeros(state.num_envs)

        env = make(2, measures=(Counted("always", False), Counted("late", True)), task=PointNav())
        env.reset(seed=0)
        count.update(always=0, late=0)
        for expected in (1, 2):
            env.step(np.array([LEFT, LEFT]))
            assert count == {"always": expected, "late": 0}
        env.step(np.array([STOP, LEFT]))
        assert count == {"always": 3, "late": 1}


class TestMemory:
    @pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
    def test_an_episode_begins_with_zeros_and_its_start(self, make, mode):
        env = make(8, autoreset_mode=mode, sensors=(Turns(), Trail(), PreviousAction(), Turns()), measures=(Turns(),))
        observation, info = env.reset(seed=0)
        count = np.zeros(8, int)
        ended_before = np.zeros(8, bool)
        num_ends = 0
        rng = np.random.default_rng(1)
        np.testing.assert_array_equal(observation["trail"], np.repeat(env.episodes.start[:, None], 3, axis=1))
        for _ in range(60):
            actions = rng.integers(1, 4, 8)
            if mode == "disabled" and ended_before.any():
                observation, info = env.reset(options={"reset_mask": ended_before})
                count[ended_before] = 0
                np.testing.assert_array_equal(info["turns"], count)
            begins = ended_before if mode == "next_step" else np.zeros(8, bool)
            observation, reward, terminated, truncated, info = env.step(actions)
            count = np.where(begins, 0, count + (actions >= LEFT))
            np.testing.assert_array_equal(reward, np.where(begins, 0, count))
            ended_before = terminated | truncated
            np.testing.assert_array_equal(terminated, ~begins & (count >= 5))
            if ended_before.any():
                num_ends += 1
                final = info.get("final_info", info)
                np.testing.assert_array_equal(final["turns"][ended_before], count[ended_before])
                last = info.get("final_obs", observation)["turns"][ended_before, 0]
                np.testing.assert_array_equal(last, count[ended_before])
            fresh = begins | (ended_before if mode == "same_step" else False)
            count[fresh] = 0
            np.testing.assert_array_equal(info["turns"], count)
            np.testing.assert_array_equal(observation["turns"][:, 0], count)
            np.testing.assert_array_equal(observation["previous_action"], np.where(fresh, 0, actions + 1))
            starts = np.repeat(env.episodes.start[fresh, None], 3, axis=1)
            np.testing.assert_array_equal(observation["trail"][fresh], starts)
        assert num_ends > 8

    @pytest.mark.parametrize("mode", ["next_step", "same_step"])
    def test_infos_of_an_episode_that_begins_are_measured_anew(self, make, mode):
        @dataclass(frozen=True)
        class Double(Measure):
            name = "double"

            def measure(self, state):
                return 2 * state.buffers["turns"]  # no view of what the next episode writes

        double = task(measures=(Turns(), Double()), reward=lambda self, state, measures: measures["double"])
        env = make(1, task=double, autoreset_mode=mode, max_episode_steps=2)
        env.reset(seed=0)
        steps = [env.step(np.array([LEFT])) for _ in range(3)]
        assert [step[1][0] for step in steps] == [2, 4, 0 if mode == "next_step" else 2]
        assert [step[4]["double"][0] for step in steps] == ([2, 4, 0] if mode == "next_step" else [2, 0, 2])

    def test_states_hold_it(self, make):
        env = make(6, sensors=(PreviousAction(),))
        other = make(6, sensors=(PreviousAction(),))
        env.reset(seed=0), other.reset(seed=9)
        walk(env, 13)
        state = env.get_state()
        assert set(state["buffers"]) == {"turns", "trail", "previous_action"}
        assert not np.shares_memory(state["buffers"]["turns"], env.simulator.buffers["turns"])
        assert_equal(other.set_state(state), env.set_state(state))
        assert_same_steps(walk(env, 20), walk(other, 20))

    @pytest.mark.parametrize("change", [lambda m: m.pop("turns"), lambda m: m.update(turns=np.zeros(2, int))])
    def test_states_of_others_are_refused_and_nothing_changes(self, make, change):
        env = make(3)
        env.reset(seed=0)
        state = env.get_state()
        before = env.get_state()
        change(state["buffers"])
        state["agents"]["heading"] += 1
        with pytest.raises(ValueError, match="turns"):
            env.set_state(state)
        assert_equal(env.get_state()["agents"], before["agents"])


class TestAssembly:
    def test_the_checker_of_environments_finds_nothing(self, make):
        check_vector_env(make(sensors=(PreviousAction(), GPS(), Turns()), autoreset_mode="same_step"), steps=60)

    @pytest.mark.parametrize("task", [PointNav(success_distance=0.5), Dance()])
    def test_tasks_can_be_sent_to_other_processes(self, task):
        again = pickle.loads(pickle.dumps(task))
        assert type(again) is type(task) and again.success_distance == task.success_distance


def sensor(**parts):
    return type("Odd", (Sensor,), {"name": "odd", "space": Box(0, 1, (2,)), "observe": _zeros(2), **parts})()


def measure(**parts):
    return type("Odd", (Measure,), {"name": "odd", "measure": _zeros(), **parts})()


def task(**parts):
    return type("Odd", (Task,), {"reward": _zeros(), **parts})()


def _zeros(*shape, dtype=np.float32):
    return lambda self, state, *rest: np.zeros((state.num_envs, *shape), dtype)


def _gives(value):
    return lambda self, *rest: value


class TestWrongUse:
    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"task": Dance}, r"task=Dance is a class.*Dance\(\)"),
            ({"task": object()}, "has no buffers.*reward.*api.Task"),
            ({"task": task(sensors=GPS())}, r"sensors of Odd: GPS\(\) is not a tuple.*\(component,\)"),
            ({"task": task(sensors=("depth",))}, r"'depth' of a task.*sensors=\('depth',\)"),
            ({"task": task(success_distance=None)}, "success_distance=None of Odd.*positive number of metres"),
            ({"task": "pointnav"}, r"task='pointnav': pass an object, such as PointNav\(\) of gym_batchnav\.task"),
            ({"task": task(buffers=_gives(None))}, "buffers of Odd is a NoneType.*dict"),
            ({"measures": Success()}, r"measures: Success\(\) is not a tuple.*\(component,\)"),
            ({"sensors": (GPS,)}, r"sensor=GPS is a class"),
            ({"sensors": (3,)}, "sensor=3 has no buffers.*api.Sensor"),
            ({"sensors": (Success(),)}, "has no space, observe"),
            ({"measures": ("spl",)}, r"measure='spl': pass an object, such as SPL\(\) of gym_batchnav\.task\.measures"),
            ({"sensors": (sensor(name="depth"),)}, "'depth' of Odd: the environment itself"),
            ({"measures": (measure(name="episode_index"),)}, "'episode_index' of Odd.*another"),
            ({"measures": (measure(name="episode"),)}, "'episode' of Odd.*another"),
            ({"sensors": (sensor(name="a b"),)}, "'a b'.*identifier"),
            ({"measures": (measure(name="_x"),)}, "'_x'.*underscore"),
            ({"sensors": (sensor(name=None),)}, "None.*identifier"),
            ({"sensors": (sensor(name="trail"),)}, "'trail' of both Trail and Odd.*rename"),
            (
                {"task": Explore(), "measures": (CellsVisited(2.0),)},
                "'cells_visited' of both CellsVisited and C.*rename",
            ),
            ({"sensors": (sensor(space=Dict({})),)}, "space of sensor 'odd'.*Box"),
            ({"measures": (measure(buffers=_gives({"trail": np.zeros(4)})),)}, "buffers 'trail' of both.*rename"),
            ({"measures": (measure(buffers=_gives({"x": np.zeros(3)})),)}, r"'x' of Odd is float64 \(3,\).*4 rows"),
            ({"measures": (measure(buffers=_gives({"x": [0] * 4})),)}, "buffers 'x' of Odd is a list"),
            ({"measures": (measure(buffers=_gives({"x": np.array([None] * 4)})),)}, "object.*numbers"),
        ],
    )
    def test_wrong_components_are_refused_by_name(self, make, wrong, named):
        with pytest.raises(ValueError, match=named):
            make(**wrong)

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"sensors": (sensor(observe=_zeros()),)}, r"sensor 'odd' of Odd gave float32 \(4,\).*float32 \(4, 2\)"),
            ({"sensors": (sensor(observe=_zeros(2, dtype=float)),)}, r"gave float64 \(4, 2\).*array of float32"),
            ({"sensors": (sensor(observe=_gives(None)),)}, "gave a NoneType"),
            ({"sensors": (sensor(observe=_gives(np.full((4, 2), np.nan, np.float32))),)}, "outside its space.*clip"),
            ({"sensors": (sensor(space=Discrete(3), observe=_gives(np.full(4, 3))),)}, "outside its space Discrete"),
            ({"measures": (measure(measure=_zeros(1)),)}, r"'odd' of Odd gave float32 \(4, 1\).*numbers \(4,\)"),
            ({"measures": (measure(measure=_zeros(1), at_end=True),)}, "measure 'odd'"),
            ({"measures": (measure(measure=_gives(np.array(["a"] * 4))),)}, "numbers"),
            ({"task": task(reward=_gives(0.0))}, r"reward of Odd gave a float.*numbers \(4,\)"),
            ({"task": task(terminated=_zeros())}, r"terminated of Odd gave float32 \(4,\).*bool \(4,\)"),
        ],
    )
    def test_what_does_not_fit_is_named_the_first_time(self, make, wrong, named):
        env = make(**wrong)
        with pytest.raises(ValueError, match=named):
            env.reset(seed=0)
            env.step(np.zeros(4, int))

    def test_rewards_that_are_not_finite_are_refused_in_any_step_but_not_where_nobody_acts(self, make):
        class Late(Task):
            def reward(self, state, measures):
                return np.where(state.episodes.num_steps == 2, np.nan, 1 / (state.episodes.num_steps > 0))

        env = make(3, task=Late())
        env.reset(seed=0)
        env.step(np.array([FORWARD, STOP, FORWARD]))
        with np.errstate(divide="ignore"), pytest.raises(ValueError, match="reward of Late is nan in environment 0"):
            env.step(np.array([FORWARD, FORWARD, FORWARD]))
        env = make(1, task=Late())
        env.reset(seed=0)
        env.step(np.array([STOP]))
        with np.errstate(divide="ignore"):
            assert env.step(np.array([LEFT]))[1].tolist() == [0.0]  # the next episode begins, with no step taken

    def test_a_measure_that_there_is_not_is_named_and_no_task_is_changed_on_the_way(self, make):
        env = make(1, task=task(reward=lambda self, state, measures: measures["spl"]), measures=(Turns(),))
        env.reset(seed=0)
        with pytest.raises(KeyError, match=r"measure 'spl': add it.*the known ones are 'turns'"):
            env.step(np.array([LEFT]))
        with pytest.raises(AttributeError):
            env.set_attr("task", PointNav())
