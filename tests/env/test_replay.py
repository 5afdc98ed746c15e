"""Episodes that are recorded, and repeated to the bit."""

import gymnasium
import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.replay import RecordWorlds, replay
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.worlds.log import WorldLog
from gym_batchnav.worlds.people import People

M = 4
CROWD = {"agents_per_world": M, "bodies": (People(4), People(2, shape="dog", radius=0.15))}


@pytest.fixture(scope="module")
def make():
    """Make batches in two large rooms, with noise in motion and images."""
    rooms = SceneLibrary.from_scenes([box_room("first", 12, 10), box_room("second", 14, 9)])
    made = []

    def make(num_envs, **keywords):
        given = {"library": rooms, "sensors": ("depth",), "camera": Camera(width=8, height=8), "renderer": "embree"}
        given |= {"actuation_noise": "locobot", "episodes": 60, "max_episode_steps": 30, **CROWD}
        made.append(BatchNavEnv(num_envs, **{**given, **keywords}))
        return made[-1]

    yield make
    for env in made:
        env.close()


def play(envs, num_steps, seed=0):
    """Random actions; observations, rewards, ends and poses of every step."""
    envs.reset(seed=seed)
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(num_steps):
        if isinstance(envs.single_action_space, gymnasium.spaces.Box):
            actions = rng.uniform(-1, 1, envs.action_space.shape).astype(np.float32)
        else:
            actions = rng.choice(4, size=envs.num_envs, p=[0.02, 0.58, 0.2, 0.2])
        observation, reward, terminated, truncated, _ = envs.step(actions)
        steps.append((observation, reward, terminated, truncated))
    return steps


def logs_in(folder):
    """All logs of a folder by number, with the world of each."""
    paths = sorted(folder.glob("*.npz"))
    return [(int(path.stem.split("_")[-1]), WorldLog.load(path)) for path in paths]


def check_replay(envs, log, steps, rows):
    """A replay equals the steps [T] of rows of the recorded batch, except in what follows the end of the episode."""
    worlds = envs.unwrapped.worlds
    agents = envs.unwrapped.agents
    for step, (found, recorded) in enumerate(zip(replay(envs, log), steps, strict=True)):
        for value, wanted in zip(found[1:4], recorded[1:], strict=True):
            np.testing.assert_array_equal(value, wanted[rows])
        if step + 1 == log.num_steps:
            assert (found[2] | found[3]).all()
            break
        for name, image in found[0].items():
            np.testing.assert_array_equal(image, recorded[0][name][rows])
        if worlds is None:
            np.testing.assert_array_equal(agents.position, log.position[step + 1])
            np.testing.assert_array_equal(agents.heading, log.heading[step + 1])
        else:
            np.testing.assert_array_equal(worlds.state.position[0], log.position[step + 1])
            np.testing.assert_array_equal(worlds.state.heading[0], log.heading[step + 1])
            np.testing.assert_array_equal(worlds.state.present[0], log.present[step + 1])


def test_four_agents_and_six_others_are_repeated_to_the_bit(make, tmp_path):
    steps = play(RecordWorlds(make(3 * M, autoreset_mode="same_step"), tmp_path / "logs"), 70)
    logs = logs_in(tmp_path / "logs")
    assert len(logs) == 6 and {log.scene for _, log in logs} == {"first", "second"}
    again = make(M, autoreset_mode="next_step")
    begins = dict.fromkeys(range(3), 0)
    moved = 0
    for world, log in logs:
        assert log.num_agents == M and log.num_bodies == 10 and log.shapes[3:5] == ("robot", "person")
        begin = begins[world]
        begins[world] = begin + log.num_steps
        rows = slice(world * M, (world + 1) * M)
        check_replay(again, log, steps[begin : begin + log.num_steps], rows)
        moved += np.abs(np.diff(log.position[:, M:], axis=0)).max(axis=(0, 2)).min() > 0.1
    assert moved == len(logs)


def test_a_step_from_an_older_state_begins_another_recording(make, tmp_path):
    envs = RecordWorlds(make(M, autoreset_mode="next_step", obs_device="cpu"), tmp_path / "logs")
    batch = envs.unwrapped
    step = batch.functional("numpy")
    first, *_ = step.reset(seed=0)
    state = first
    for _ in range(10):
        state, *_ = step(state, np.full(M, 1))
    state = first
    for _ in range(30):
        state, *_ = step(state, np.full(M, 2))
    ((_, log),) = logs_in(tmp_path / "logs")
    assert log.num_steps == 30 and (log.actions == 2).all()


@pytest.mark.parametrize("actions", ["discrete", "velocity"])
def test_agents_alone_are_repeated_too(make, tmp_path, actions):
    keywords = {"agents_per_world": 1, "bodies": (), "actions": actions}
    steps = play(RecordWorlds(make(4, **keywords), tmp_path / "logs", worlds=(1, 2)), 40)
    logs = logs_in(tmp_path / "logs")
    assert {world for world, _ in logs} == {1, 2}
    begins = {}
    again = make(1, **keywords)
    for world, log in logs:
        assert log.num_bodies == 1 and not log.has_world
        begin = begins.get(world, 0)
        begins[world] = begin + log.num_steps + 1
        check_replay(again, log, steps[begin : begin + log.num_steps], slice(world, world + 1))


def test_a_recording_begins_anew_after_a_change_of_pose_or_state(make, tmp_path):
    envs = RecordWorlds(make(M), tmp_path / "logs")
    play(envs, 10)
    state = envs.unwrapped.get_state()
    envs.unwrapped.set_state(state)
    for _ in range(20):
        envs.step(np.full(M, 2))
    ((_, log),) = logs_in(tmp_path / "logs")
    assert log.num_steps == 20
    np.testing.assert_array_equal(log.position[0], state["worlds"]["position"][0])
    *_, last = replay(make(M), log)
    assert (last[2] | last[3]).all()


def test_episodes_that_are_reset_are_not_written(make, tmp_path):
    envs = RecordWorlds(make(2 * M), tmp_path / "logs")
    play(envs, 10)
    envs.reset(options={"reset_mask": np.arange(2 * M) < M})
    for _ in range(20):
        envs.step(np.full(2 * M, 2))
    assert [world for world, _ in logs_in(tmp_path / "logs")] == [1]
    envs.close()
    assert not envs.unwrapped.stepper.listeners


@pytest.fixture(scope="module")
def log(make, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log") / "logs"
    play(RecordWorlds(make(M), folder), 30)
    return logs_in(folder)[0][1]


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"num_envs": 2 * M}, "has 8 environments and the log 4 agents"),
        ({"bodies": (People(6),)}, "has other bodies"),
        ({"navmesh_settings": NavMeshSettings(agent_radius=0.3)}, "has episodes that this batch does not have"),
        ({"library": SceneLibrary.from_scenes([box_room("third")])}, "'first' .* pass the scenes= of the"),
    ],
)
def test_other_batches_are_refused(make, log, keywords, message):
    with pytest.raises(ValueError, match=message):
        replay(make(**{"num_envs": M, **keywords}), log)


def test_wrong_recorders_are_refused(make, tmp_path):
    with pytest.raises(TypeError, match="is not a batch of gym_batchnav"):
        RecordWorlds(gymnasium.make_vec("CartPole-v1", num_envs=2), tmp_path)
    with pytest.raises(ValueError, match=r"worlds=\(5,\): there are worlds 0 to 0"):
        RecordWorlds(make(M), tmp_path, worlds=(5,))
    RecordWorlds(make(3 * M), tmp_path, worlds=np.array([0, 2])).close()
    (tmp_path / "old.npz").touch()
    with pytest.raises(ValueError, match=r"has .npz files already"):
        RecordWorlds(make(M), tmp_path)
