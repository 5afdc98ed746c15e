"""A stream shows exactly the frames of its batch, stops when it should, and hands its errors over."""

import gc
import threading
import time

import numpy as np
import pytest
from gymnasium.spaces import Box
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.evaluation.agents import RandomAgent, ShortestPathAgent
from gym_batchnav.geometry import Camera
from gym_batchnav.state import Action
from gym_batchnav.stream.stream import BatchStream, StreamSettings
from gym_batchnav.task.api import Sensor

ENVS = 6
LIMIT = 7


@pytest.fixture
def keywords():
    """Keywords of a small batch whose episodes are short."""
    return dict(num_envs=ENVS, scenes=[box_room()], episodes=20, camera=Camera(8, 8), max_episode_steps=LIMIT)


def settings_of(**given):
    return StreamSettings(
        **{"batch_size": 8, "capacity": 64, "min_samples": 12, "deterministic": True, "threads": 1, **given}
    )


def frames_of(keywords, agent, seed, num_steps):
    """Step a batch in this thread; return the columns [num_steps, N, ...] that a stream should have."""
    env = BatchNavEnv(**keywords)
    observation, info = env.reset(seed=seed)
    agent.reset(env)
    begun = np.ones(env.num_envs, bool)
    ended = np.zeros(env.num_envs, bool)
    rows = []
    for step in range(num_steps):
        actions = agent.act(env, observation, begun)
        row = {**observation, "action": actions, "begun": begun, "acted": ~ended, "scene": info["scene_index"]}
        observation, reward, terminated, truncated, info = env.step(actions)
        row |= {"reward": reward, "terminated": terminated}
        rows.append(row | {"frame": step * env.num_envs + np.arange(env.num_envs)})
        begun, ended = ended, terminated | truncated
    env.close()
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize(
    ("given", "worker", "num_workers", "first_seed"),
    [({}, 0, 1, 0), ({"sequence_length": 3, "seed": 2}, 0, 1, 2 * ENVS), ({"memory": "reservoir"}, 1, 3, ENVS)],
)
def test_minibatches_show_the_frames_of_the_batch(keywords, given, worker, num_workers, first_seed):
    agent = RandomAgent(seed=4)
    settings = settings_of(samples_per_frame=2.0, **given)
    with BatchStream(keywords, settings, agent, worker=worker, num_workers=num_workers) as stream:
        batches = [next(stream) for _ in range(30)]
    length = settings.sequence_length
    wanted = frames_of(keywords, agent, first_seed, 1 + max(batch["frame"].max() for batch in batches) // ENVS)
    for batch in batches:
        step, env = np.divmod(batch["frame"], ENVS)
        assert batch["frame"].shape == ((8,) if length == 1 else (8, length))
        assert set(batch) == set(wanted)
        for name, values in batch.items():
            np.testing.assert_array_equal(values, wanted[name][step, env].astype(values.dtype))
        if length > 1:
            assert (np.diff(batch["frame"], axis=1) == ENVS).all()
            assert (~batch["acted"][:, :-1] == batch["begun"][:, 1:]).all()
    seen = np.concatenate([batch["frame"].ravel() for batch in batches])
    assert set(seen % ENVS) == set(range(ENVS))
    assert not np.concatenate([batch["acted"].ravel() for batch in batches]).all()


def test_the_same_seed_gives_the_same_minibatches_whatever_the_speed_of_the_consumer(keywords):
    def minibatches(seed, pause):
        with BatchStream(keywords, settings_of(seed=seed)) as stream:
            for _ in range(10):
                time.sleep(pause)
                yield next(stream)

    first = list(minibatches(1, 0))
    for one, other in zip(first, minibatches(1, 0.02), strict=True):
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name])
    assert any((one["depth"] != other["depth"]).any() for one, other in zip(first, minibatches(2, 0), strict=True))


@pytest.mark.parametrize(("samples_per_frame", "length"), [(0.5, 1), (3.0, 2)])
def test_a_frame_is_drawn_as_often_as_asked_and_a_slow_consumer_makes_the_simulation_wait(
    keywords, samples_per_frame, length
):
    settings = settings_of(samples_per_frame=samples_per_frame, sequence_length=length, prefetch=2)
    with BatchStream(keywords, settings) as stream:
        drawn = 20
        for _ in range(drawn):
            next(stream)
        time.sleep(0.2)  # a simulation that did not wait would run on
        frames = stream.stats()["frames"]
    before = -(-12 // ENVS) * ENVS  # samples before the first draw; those of its block count
    samples = frames / length - (before - ENVS)
    # Up to prefetch + 1 minibatches are ahead of the consumer, and a block of N samples is under way.
    assert drawn * 8 <= samples * samples_per_frame <= (drawn + 3) * 8 + 2 * ENVS * samples_per_frame


def test_the_error_of_the_simulation_reaches_the_consumer_after_the_minibatches_before_it(keywords):
    class Failing(ShortestPathAgent):
        calls = 0

        def act(self, env, observation, begun):
            self.calls += 1
            if self.calls > 10:
                raise ArithmeticError("the agent fails")
            return super().act(env, observation, begun)

    stream = BatchStream(keywords, settings_of(), Failing())
    for _ in range(6):  # 60 frames; the first six only fill the memory
        next(stream)
    for _ in range(2):
        with pytest.raises(ArithmeticError, match="the agent fails"):
            next(stream)
    stream.close()


def test_wrong_keywords_are_refused_at_once(keywords):
    with pytest.raises(ValueError, match="no_such_scene"):
        BatchStream({**keywords, "scenes": "no_such_scene"})
    with pytest.raises(TypeError, match="no_such_keyword"):
        BatchStream({**keywords, "no_such_keyword": 1})
    with pytest.raises(ValueError, match="num_envs=6 of capacity=5"):
        BatchStream(keywords, StreamSettings(capacity=5, batch_size=5))
    with pytest.raises(ValueError, match="worker=2 of num_workers=2"):
        BatchStream(keywords, worker=2, num_workers=2)
    with pytest.raises(TypeError, match="pass an object with reset and act"):
        BatchStream(keywords, agent=3)

    class Reward(Sensor):
        name = "reward"
        space = Box(0, 1, (1,), np.float32)

        def observe(self, state):
            return np.zeros((state.num_envs, 1), np.float32)

    with pytest.raises(ValueError, match=r"sensors \['reward'\]: a stream uses these names itself"):
        BatchStream({**keywords, "sensors": ("depth", Reward())})
    assert not stream_threads()


def stream_threads():
    return [thread for thread in threading.enumerate() if thread.name == "gym_batchnav stream"]


def test_closing_ends_the_thread_at_any_moment(keywords):
    for batches in (0, 5):
        stream = BatchStream(keywords, settings_of())
        for _ in range(batches):
            next(stream)
        assert stream_threads()
        stream.close()
        stream.close()
        assert stream.closed and not stream_threads()
        with pytest.raises(RuntimeError, match="after close"):
            next(stream)


def test_closing_ends_the_wait_of_another_thread(keywords):
    acting, go_on = threading.Event(), threading.Event()

    class Slow(ShortestPathAgent):
        def act(self, env, observation, begun):
            acting.set()
            go_on.wait()
            return super().act(env, observation, begun)

    stream = BatchStream(keywords, settings_of(), Slow())
    found = []

    def consume():
        try:
            next(stream)
        except RuntimeError as error:
            found.append(str(error))

    consumer = threading.Thread(target=consume, daemon=True)
    consumer.start()
    assert acting.wait(60)
    closer = threading.Thread(target=stream.close)
    closer.start()
    while not stream.closed:
        time.sleep(0.01)
    go_on.set()
    closer.join(60)
    consumer.join(60)
    assert found == ["the stream was closed by another thread during next()"]


def test_a_forgotten_stream_stops(keywords):
    stream = BatchStream(keywords, settings_of())
    next(stream)
    del stream
    gc.collect()
    assert not stream_threads()


def test_actions_of_agents_who_wait_for_their_world_are_not_carried_out(keywords):
    def first_of_a_world_stops(observation):
        return np.where(np.arange(6) % 3 == 0, Action.STOP, Action.TURN_LEFT)

    crowd = {**keywords, "agents_per_world": 3, "num_envs": 6}
    settings = settings_of(sequence_length=LIMIT + 1, batch_size=6, capacity=6, min_samples=6)
    with BatchStream(crowd, settings, first_of_a_world_stops) as stream:
        batch = next(stream)
    acts = np.arange(LIMIT + 1) < np.where(batch["frame"][:, :1] % 3 == 0, 1, LIMIT)
    np.testing.assert_array_equal(batch["acted"], acts)


@pytest.mark.parametrize(
    ("given", "keywords", "message"),
    [
        ({"batch_size": 0}, {}, "batch_size=0"),
        ({"sequence_length": 1.5}, {}, "sequence_length=1.5"),
        ({"memory": "disk"}, {}, "memory='disk': choose one of 'replay', 'reservoir'"),
        ({"samples_per_frame": 0}, {}, "samples_per_frame=0"),
        ({"samples_per_frame": float("nan")}, {}, "samples_per_frame=nan"),
        ({"samples_per_frame": "1"}, {}, "samples_per_frame='1'"),
        ({"batch_size": 100, "capacity": 99}, {}, "batch_size=100 of capacity=99"),
        ({"min_samples": 9000}, {}, "min_samples=9000 of capacity=8192"),
        ({"min_samples": 0}, {}, "min_samples=0"),
        ({"threads": -1}, {}, "threads=-1"),
        ({"seed": -1}, {}, "seed=-1"),
        ({"deterministic": 1}, {}, "deterministic=1"),
        ({}, {"autoreset_mode": "same_step"}, "autoreset_mode='same_step': leave it out"),
        ({}, {"autoreset_mode": "never"}, "autoreset_mode='never': choose one of"),
        ({}, {"episodes": Episodes(order="once")}, "episodes= in order 'once': leave the order out"),
        ({}, {"obs_device": "cuda"}, "obs_device='cuda': leave it out"),
        ({}, {"library": object()}, "library=: pass scenes="),
    ],
)
def test_wrong_settings_and_keywords_that_do_not_suit_a_stream_are_named(given, keywords, message):
    with pytest.raises(ValueError, match=message):
        StreamSettings(**{"deterministic": True, **given}).environment(keywords)


def test_the_first_minibatch_waits_for_a_quarter_of_the_memory_or_for_as_many_samples_as_asked():
    assert StreamSettings(capacity=1000, batch_size=10).first_draw == 250
    assert StreamSettings(capacity=1000, batch_size=500).first_draw == 500
    assert StreamSettings(capacity=1000, batch_size=10, min_samples=1).first_draw == 10
    assert StreamSettings(capacity=1000, batch_size=10, min_samples=700).first_draw == 700
