"""A batch as a function of its state, compared with the batch itself, stepped as usual."""

import pickle
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from rooms import box_room
from walks import assert_equal

from gym_batchnav import SensorTiming
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes, Scenes
from gym_batchnav.geometry import Camera
from gym_batchnav.system.extras import MissingExtraError
from gym_batchnav.task.explore import Explore

N = 4
STOP, FORWARD, LEFT, RIGHT = range(4)
ROTATING = [box_room(f"room_{i}", width=8 + i, depth=6 + i / 2) for i in range(6)]


@pytest.fixture
def make(library, opened):
    def make(num_envs=N, **kwargs):
        keywords = {"episodes": 40, "max_episode_steps": 9, "camera": Camera(12, 8)}
        if "scenes" not in kwargs:
            keywords["library"] = library
        return opened(BatchNavEnv(num_envs, **{**keywords, **kwargs}))

    return make


def actions_of(seed, steps, num_envs=N):
    rng = np.random.default_rng(seed)
    return [rng.choice(4, size=num_envs, p=[0.1, 0.5, 0.2, 0.2]) for _ in range(steps)]


def copied(value):
    """A copy of results with its own arrays; infos may have dicts of arrays."""
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}
    return np.asarray(value).copy()


def assert_same(left, right):
    """Two results of steps are the same, to the bit."""
    for one, other in zip(left, right, strict=True):
        if isinstance(one, dict):
            assert one.keys() == other.keys()
            assert_same(list(one.values()), list(other.values()))
        else:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


KINDS = {
    "next_step": {"sensors": ("depth", "rgb", "semantic")},
    "same_step": {"autoreset_mode": "same_step"},
    "ring": {"buffers": 1},
    "noise": {"actuation_noise": "locobot", "sensor_timing": {"depth": SensorTiming(period=2, latency=3)}},
    "once": {"episodes": Episodes(order="once", count=40), "sensors": ()},
    "memory": {"task": Explore(), "actions": "velocity"},
    "rotating": {"scenes": Scenes(ROTATING, resident=2, rotate_every=3, deterministic_rotation=True)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_calls_equal_steps_and_give_the_same_again(make, kind):
    """From every state of a rollout, in any order, after whatever else the batch has done."""
    env = make(**KINDS[kind])
    step = make(**KINDS[kind]).functional("numpy")
    actions = [env.action_space.sample() for _ in range(25)] if kind == "memory" else actions_of(3, 25)
    state, *begun = step.reset(seed=2)
    assert_same(begun, env.reset(seed=2))
    states = [state]
    seen = []
    for one in actions:
        state, *results = step(states[-1], one)
        assert_same(results, env.step(one))
        states.append(state)
        seen.append(copied(dict(enumerate(results))))
    for index in np.random.default_rng(0).permutation(25):
        state, *results = step(states[index], actions[index])
        assert_same([dict(enumerate(results))], [seen[index]])
        assert_equal_states(state, states[index + 1])
        assert_same([step.observe(states[index + 1])], [seen[index][0]]) if kind != "same_step" else None


def assert_equal_states(left, right):
    for part in ("agents", "episodes", "buffers"):
        assert_equal(left.as_dict()[part], right.as_dict()[part])
    assert left.schedule == right.schedule and left.library == right.library


class TestState:
    def test_it_is_what_the_batch_saves_and_goes_on_from_and_cannot_be_written(self, make):
        env = make()
        step = env.functional("numpy")
        state, *_ = step.reset(seed=1)
        state, *_ = step(state, np.full(N, FORWARD))
        saved = env.get_state()
        found = state.as_dict()
        assert saved.keys() == found.keys() and saved["library"] == found["library"]
        for part in ("agents", "episodes", "buffers"):
            assert_equal(saved[part], found[part])
        other = make()
        assert_same([other.set_state(found)], [step.observe(state)])
        for array in (state.agents.position, state.block):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0
        assert deepcopy(state) is state
        with pytest.raises(TypeError, match="pack"):
            pickle.dumps(state)
        env.step(np.full(N, LEFT))  # goes on from where the last call left it
        assert_equal_states(step.state(), step(state, np.full(N, LEFT))[0])

    def test_rows_are_taken_from_other_environments(self, make):
        """All environments continue from one of them, each with other actions."""
        step = make().functional("numpy")
        state = step.reset(seed=3)[0]
        state = step(state, np.array([FORWARD, LEFT, RIGHT, FORWARD]))[0]
        assert step.pack(state.take(range(N))).tobytes() == step.pack(state).tobytes()
        spread = state.take([2] * N)
        _, observation, *_ = step(spread, np.full(N, FORWARD))
        _, expected, *_ = step(state, np.full(N, FORWARD))
        for name, values in observation.items():
            np.testing.assert_array_equal(values, np.repeat(expected[name][2:3], N, axis=0))
        after, *_ = step(spread, np.array([FORWARD, LEFT, RIGHT, LEFT]))
        assert after.agents.heading[0] != after.agents.heading[1] == after.agents.heading[3]
        for wrong, named in (([0], "1 indices for 4"), ([0, 1, 2, 9], "environment 9"), ([0.5] * N, "integers")):
            with pytest.raises(ValueError, match=named):
                state.take(wrong)


class TestPacked:
    def test_unpacked_it_goes_on_the_same_in_another_batch(self, make):
        step = make().functional("numpy")
        other = make().functional("numpy")
        state = step.reset(seed=1)[0]
        packed = step.pack(step(state, np.full(N, FORWARD))[0])
        assert packed.dtype == np.uint8 and packed.ndim == 1
        assert len(step.pack(state)) == len(packed)
        one = step(step.unpack(packed), np.full(N, LEFT))
        two = other(other.unpack(packed.copy()), np.full(N, LEFT))
        assert_same(one[1:], two[1:])

    def test_the_queue_of_episodes_is_part_of_it(self, make):
        step = make(episodes=Episodes(order="once", count=40), sensors=()).functional("numpy")
        state = step.reset(seed=0)[0]
        later = state
        for _ in range(20):
            later = step(later, np.full(N, LEFT))[0]
        for one in (state, later, state):
            assert step.unpack(step.pack(one)).schedule == one.schedule
        assert later.schedule["next"] > state.schedule["next"] == N

    def test_what_is_not_from_such_a_batch_is_refused(self, make):
        step = make().functional("numpy")
        state = step.reset(seed=0)[0]
        packed = step.pack(state)
        others = make(N, sensor_timing={"depth": SensorTiming(latency=1)}).functional("numpy")
        others.reset(seed=0)
        fewer = make(episodes=3).functional("numpy")
        fewer.reset(seed=0)
        for use, named in (
            (lambda: step.unpack(packed[:-1]), r"packed state is uint8 \(\d+,\): pass uint8 \(\d+,\)"),
            (lambda: step.unpack(packed.astype(np.int32)), "packed state is int32"),
            (lambda: others.unpack(packed), "pass uint8"),
            (lambda: fewer.unpack(packed), "other arguments"),
        ):
            with pytest.raises(ValueError, match=named):
                use()

    def test_damaged_bytes_are_refused_or_harmless(self, make):
        """Kernels read row numbers without checks."""
        step = make(sensors=()).functional("numpy")
        packed = step.pack(step.reset(seed=0)[0])
        rng = np.random.default_rng(0)
        refused = 0
        for _ in range(60):
            damaged = packed.copy()
            damaged[rng.integers(24, len(packed), 20)] = rng.integers(256, size=20)
            try:
                state = step.unpack(damaged)
            except ValueError:
                refused += 1
            else:
                step(state, np.full(N, FORWARD))
        assert refused > 10
        for place, value in ((8, 2), (8, -1), (16, -1), (16, 10**9)):  # of the header
            damaged = packed.copy()
            damaged[place : place + 8] = np.array([value], np.int64).view(np.uint8)
            with pytest.raises(ValueError, match="damaged"):
                step.unpack(damaged)


class TestArguments:
    def test_wrong_ones_are_named(self, make):
        env = make()
        step = env.functional("numpy")
        with pytest.raises(RuntimeError, match=r"functional\(\).state before reset"):
            step.state()
        state = step.reset(seed=0)[0]
        other = make().functional("numpy").reset(seed=0)[0]
        for use, named in (
            (lambda: step(state.agents, np.zeros(N, int)), "state is a AgentState: pass a BatchState"),
            (lambda: step(other, np.zeros(N, int)), "state of another batch"),
            (lambda: step(state, np.zeros(3, int)), r"actions are int64 \(3,\): pass integers \(4,\)"),
            (lambda: step(state, [0, 1, 2, 7]), r"actions\[3\] = 7"),
            (lambda: env.functional("jax"), "arrays='jax': choose one of 'torch', 'numpy'"),
        ):
            with pytest.raises(ValueError, match=named):
                use()
        env.send(np.full(N, LEFT))
        with pytest.raises(RuntimeError, match="recv"):
            step(state, np.full(N, LEFT))
        env.recv()
        env.close()
        with pytest.raises(RuntimeError, match=r"functional\(\) after close"):
            step(state, np.full(N, LEFT))

    def test_an_ended_episode_is_reset_as_a_function(self, make):
        step = make(autoreset_mode="disabled").functional("numpy")
        state = step.reset(seed=0)[0]
        before = step(state, np.full(N, LEFT))[0]
        state, _, _, terminated, truncated, _ = step(before, np.array([LEFT, STOP, LEFT, LEFT]))
        with pytest.raises(RuntimeError, match="has ended"):
            step(state, np.full(N, LEFT))
        mask = terminated | truncated
        one = step.reset(state, options={"reset_mask": mask})
        step(before, np.full(N, RIGHT))
        two = step.reset(state, options={"reset_mask": mask})
        assert_same(one[1:], two[1:])
        np.testing.assert_array_equal(one[0].episodes.num_steps[mask], 0)
        np.testing.assert_array_equal(one[0].episodes.count, state.episodes.count + mask)

    def test_scenes_that_change_at_any_time_are_refused(self, make):
        rotating = Scenes(ROTATING, resident=2)
        with pytest.raises(ValueError, match="deterministic_rotation=True"):
            make(scenes=rotating).functional("numpy")
        env = make(scenes=replace(rotating, deterministic_rotation=True))
        step = env.functional("numpy")
        state = step.reset(seed=0)[0]
        with pytest.raises(ValueError, match="cannot be packed while scenes rotate"):
            step.pack(state)
        make(library=env.library, scenes=None)
        with pytest.raises(ValueError, match="without library="):
            step(state, np.full(N, LEFT))

    def test_without_torch_the_extra_is_named(self, make, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "torch", None)
        with pytest.raises(
            MissingExtraError, match=r"arrays='torch', unlike arrays='numpy', needs the extra \[train\]"
        ):
            make().functional()


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


class TestTorch:
    @pytest.mark.parametrize("mode", ["next_step", "same_step"])
    def test_results_are_those_of_numpy_as_tensors(self, make, torch, mode):
        step = make(autoreset_mode=mode).functional()
        other = make(autoreset_mode=mode).functional("numpy")
        state, other_state = step.reset(seed=0)[0], other.reset(seed=0)[0]
        for one in actions_of(5, 15):
            state, *results = step(state, torch.from_numpy(one))
            other_state, *expected = other(other_state, one)
            tensors = [tensor for value in results for tensor in leaves(value)]
            assert all(isinstance(tensor, torch.Tensor) for tensor in tensors)
            assert_same([copied(dict(enumerate(results)))], [copied(dict(enumerate(expected)))])

    def test_actions_that_cannot_be_read_are_named(self, make, torch):
        step = make(actions="velocity").functional()
        state = step.reset(seed=0)[0]
        for wrong in (torch.zeros((N, 2), requires_grad=True), torch.zeros((N, 2), dtype=torch.bfloat16)):
            with pytest.raises(ValueError, match=r"actions: this torch.Tensor cannot be read.*detach"):
                step(state, wrong)

    def test_a_mask_and_packed_states_may_be_tensors(self, make, torch):
        step = make().functional()
        state = step.reset(seed=0)[0]
        packed = step.pack(state)
        assert packed.dtype == torch.uint8
        assert_equal_states(step.unpack(packed), state)
        again = step.reset(state, options={"reset_mask": torch.tensor([True, False, False, True])})[0]
        np.testing.assert_array_equal(again.episodes.count - state.episodes.count, [1, 0, 0, 1])

    @pytest.mark.gpu
    def test_on_a_device_everything_but_infos_is_there_and_a_graph_reads_it(self, make, torch):
        env = make(obs_device="cuda", camera=Camera(32, 32))
        step = env.functional()
        state, observation, _ = step.reset(seed=0)
        static = torch.empty_like(observation["depth"])
        chosen = torch.empty(N, dtype=torch.int64, device="cuda")
        static.copy_(observation["depth"])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chosen.copy_(static.mean(dim=(1, 2, 3)).gt(0.2).long() + 1)  # ahead in the open, left before a wall
        for _ in range(10):
            static.copy_(observation["depth"])
            graph.replay()
            before = state
            state, observation, reward, terminated, truncated, info = step(before, chosen)
            assert all(one.is_cuda for one in (*observation.values(), reward, terminated, truncated))
            assert not info["distance_to_goal"].is_cuda
            expected = observation["depth"].clone()
            assert torch.equal(step(before, chosen)[1]["depth"], expected)
        with pytest.raises(ValueError, match="arrays='numpy'"):
            env.functional("numpy")


def leaves(value):
    return [one for part in value.values() for one in leaves(part)] if isinstance(value, dict) else [value]

    def test_tensors_are_the_arrays_of_the_step(self, make, torch, monkeypatch):
        env = make(sensors=("depth", "rgb", "semantic"))
        step = env.functional()
        state = step.reset(seed=0)[0]
        given = {}
        recv = env.recv
        monkeypatch.setattr(env, "recv", lambda: given.setdefault("results", recv()))
        _, observation, reward, terminated, truncated, info = step(state, torch.full((N,), LEFT))
        arrays = given["results"]
        for tensors, found in ((observation, arrays[0]), (info, arrays[4])):
            for name, tensor in tensors.items():
                assert tensor.data_ptr() == found[name].__array_interface__["data"][0], name
        for tensor, array in zip((reward, terminated, truncated), arrays[1:4], strict=True):
            assert tensor.data_ptr() == array.__array_interface__["data"][0]

    def test_actions_are_read_in_place(self, torch):
        from gym_batchnav.env.functional import host_array

        actions = torch.ones(N, dtype=torch.int32)
        array = host_array("actions", actions)
        assert array.__array_interface__["data"][0] == actions.data_ptr()
