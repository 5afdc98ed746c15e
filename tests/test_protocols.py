"""Protocols by name: their values against the table of their sources, overrides, and cards."""

import copy
import json
import pickle
import runpy
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from rooms import box_room

from gym_batchnav import (
    BatchNavEnv,
    Camera,
    DiscreteActions,
    GaussianNoise,
    LoCoBotNoise,
    ObjectNav,
    PointNav,
    RedwoodNoise,
    SensorTiming,
)
from gym_batchnav.env.config import Episodes, Scenes, with_defaults
from gym_batchnav.env.flat import SCAN_CAMERA
from gym_batchnav.env.single import SingleEnv
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.protocols import PROTOCOLS, NavigationProtocol, protocol_of
from gym_batchnav.task.measures import OracleSuccess
from gym_batchnav.task.meeting import Tag
from gym_batchnav.task.socialnav import SocialNav
from gym_batchnav.worlds.api import Team
from gym_batchnav.worlds.people import People

# From the files and papers that `source` names: width, height, hfov, height of the camera, pitch, nearest and farthest
# depth; height and radius of the body; metres and degrees of a move and a turn, degrees of a look; sliding; success
# distance; steps.
VALUES = {
    "pointnav-gibson-2019": (256, 256, 90, 1.25, 0, 0, 10, 1.5, 0.1, 0.25, 10, None, True, 0.2, 500),
    "pointnav-2021": (640, 360, 70, 0.88, -20, 0.1, 10, 0.88, 0.18, 0.25, 30, None, False, 0.36, 500),
    "objectnav-hm3d-2022": (640, 480, 79, 0.88, 0, 0.5, 5, 0.88, 0.18, 0.25, 30, 30, False, 0.1, 500),
    "objectnav-2023": (480, 640, 42, 1.31, 0, 0.5, 5, 1.41, 0.17, 0.25, 10, 10, False, 0.1, 500),
    "instanceimagenav-2023": (480, 640, 42, 1.31, 0, 0.5, 5, 1.41, 0.17, 0.25, 10, 10, False, 0.1, 1000),
    "imagenav": (256, 256, 90, 1.25, 0, 0, 10, 1.5, 0.1, 0.25, 10, None, True, 1.0, 1000),
    "bps-2021": (64, 64, 90, 1.25, 0, 0, 10, 1.5, 0.1, 0.25, 10, None, True, 0.2, 500),
}
OBSERVED = {  # besides images
    "pointnav-gibson-2019": {"pointgoal_with_gps_compass"},
    "pointnav-2021": {"pointgoal"},
    "objectnav-hm3d-2022": {"objectgoal", "gps", "compass"},
    "objectnav-2023": {"objectgoal", "gps", "compass"},
    "instanceimagenav-2023": {"instance_imagegoal", "gps", "compass"},
    "imagenav": {"imagegoal"},
    "bps-2021": {"pointgoal_with_gps_compass"},
}
SCENES = {"scenes": ["apartment_4"], "episodes": 12}


@pytest.fixture
def make(opened):
    def make(num_envs=2, **keywords):
        return opened(BatchNavEnv(num_envs, **{**SCENES, "renderer": "embree", **keywords}))

    return make


def values_of(protocol: NavigationProtocol):
    camera = protocol.camera
    body = protocol.navmesh_settings
    actions = protocol.actions
    if hasattr(actions, "forward_step"):
        motion = (actions.forward_step, actions.turn_angle_deg, actions.look_angle_deg)
    else:  # in a second
        motion = (actions.linear_range[1], actions.angular_range_deg[1], actions.look_range_deg[1])
        assert actions.time_step == 1 and actions.stop_component
    return (
        camera.width, camera.height, camera.hfov_deg, camera.eye_height, camera.pitch_deg,
        camera.min_depth, camera.max_depth, body.agent_height, body.agent_radius, *motion,
        protocol.sliding, protocol.task.success_distance, protocol.max_episode_steps,
    )  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_values_are_those_of_the_source_also_in_copies(name):
    """Gymnasium copies and pickles the keywords in an environment's spec."""
    protocol = PROTOCOLS[name]
    assert values_of(protocol) == VALUES[name]
    assert protocol.name == name and len(protocol.source) > 20
    assert copy.deepcopy(protocol) == pickle.loads(pickle.dumps(protocol)) == protocol


def test_noise_sliding_and_the_stretch_body_are_those_of_the_source():
    noisy = PROTOCOLS["pointnav-2021"]
    assert noisy.sensor_noise == {"rgb": GaussianNoise(intensity=0.1), "depth": RedwoodNoise(multiplier=1.0)}
    assert noisy.actuation_noise == LoCoBotNoise(multiplier=0.5)
    assert all(one.sensor_noise is None and one.actuation_noise is None for one in PROTOCOLS.values() if one != noisy)
    for name in ("objectnav-2023", "instanceimagenav-2023"):
        body = PROTOCOLS[name].navmesh_settings
        assert (body.agent_max_climb, body.cell_height) == (0.1, 0.05)
    assert {one.geodesic for name, one in PROTOCOLS.items() if name != "bps-2021"} == {"detour"}
    assert PROTOCOLS["bps-2021"].geodesic == "exact" and PROTOCOLS["bps-2021"].task == PointNav.bps_paper()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_runs(make, name):
    env = make(protocol=name)
    observation, _ = env.reset(seed=0)
    camera = PROTOCOLS[name].camera
    images = {sensor for sensor in PROTOCOLS[name].sensors if isinstance(sensor, str)}
    assert set(observation) == images | OBSERVED[name]
    assert observation["depth"].shape == (2, camera.height, camera.width, 1)
    assert env.config.navmesh_settings == env.navmesh_of(0).settings == PROTOCOLS[name].navmesh_settings
    observation = env.step(env.shortest_path_actions())[0]
    assert env.observation_space.contains(observation)
    card = env.protocol_card()
    assert card.protocol == name and card.changed == {}


def test_keywords_override_those_of_a_protocol_and_noise_stays_with_the_sensors_that_are_left(make):
    env = make(protocol="pointnav-2021", camera=Camera(8, 6), sensors=("rgb",), sensor_noise=None, sliding=True)
    assert env.observation_space["rgb"].shape == (2, 6, 8, 3)
    assert env.max_episode_steps == 500 and env.simulator.sliding and env.simulator.actuation_noise is not None
    card = env.protocol_card()
    assert set(card.changed) == {"camera", "sensors", "sensor_noise", "sliding"}
    assert card.changed["sliding"] == ("False", "True")
    assert repr(card.settings["max_episode_steps"]) == "500"
    default = make(protocol="objectnav-hm3d-2022", max_episode_steps=500, sliding=False, sensors=("depth",))
    assert set(default.protocol_card().changed) == {"sensors"}, "an equal value is not a change"
    for sensors, noise in ((("depth",), {"depth": RedwoodNoise()}), ((), None)):
        assert make(protocol="pointnav-2021", sensors=sensors).config.sensor_noise == noise


def test_sensors_that_are_not_a_tuple_are_named(make):
    with pytest.raises(ValueError, match="sensors=None: pass a tuple"):
        make(protocol="pointnav-2021", sensors=None)


def test_the_users_keywords_override_a_protocols_which_override_an_ids():
    protocol = PROTOCOLS["pointnav-2021"]
    defaults = {"camera": Camera(9, 9), "sliding": True, "bodies": (People(4),)}
    found = with_defaults({"protocol": protocol.name, "camera": None, "buffers": 3}, defaults)
    ours = {"protocol": protocol.name, "camera": None, "buffers": 3, "bodies": defaults["bodies"]}
    assert found == {**protocol.keywords(), **ours} and found["sliding"] is False
    assert with_defaults({"sliding": False}, defaults) == {**defaults, "sliding": False}


def test_a_protocol_is_a_keyword_of_the_id_of_its_task():
    for name, protocol in PROTOCOLS.items():
        keywords = {**SCENES, "protocol": name, "sensors": ()}
        env_id = f"BatchNav/{type(protocol.task).__name__}-v0"
        envs = gymnasium.make_vec(env_id, 2, **keywords)
        assert set(envs.single_observation_space) >= OBSERVED[name] - {"gps", "compass"}
        assert envs.unwrapped.max_episode_steps == protocol.max_episode_steps
        assert set(envs.unwrapped.protocol_card().changed) <= {"sensors", "sensor_noise"}
        envs.close()
        single = gymnasium.make(env_id, **keywords)
        card = single.unwrapped.protocol_card()
        assert single.spec.max_episode_steps == protocol.max_episode_steps
        assert single.unwrapped.batch.max_episode_steps == protocol.max_episode_steps  # a time-out is seen, too
        assert set(card.changed) <= {"sensors", "sensor_noise"}
        single.close()
        other = "ObjectNav" if not isinstance(protocol.task, ObjectNav) else "PointNav"
        with pytest.raises(ValueError, match=rf"protocol='{name}' is for .* make {env_id} instead"):
            gymnasium.make_vec(f"BatchNav/{other}-v0", 2, **keywords)


def test_a_protocol_of_a_task_without_an_id_names_what_takes_it():
    class OwnTask(ObjectNav):
        pass

    protocol = replace(protocol_of("objectnav-2023"), task=OwnTask())
    with pytest.raises(ValueError, match=r"is for OwnTask, not PointNav: use BatchNavEnv\(protocol=...\) instead"):
        gymnasium.make_vec("BatchNav/PointNav-v0", 2, protocol=protocol)


def test_a_task_does_not_lose_the_values_of_a_protocol():
    protocol = protocol_of("objectnav-2023")
    with pytest.raises(ValueError, match=r"task=ObjectNav.* would reset eye_height=1.31 of protocol='objectnav-2023'"):
        with_defaults({"protocol": "objectnav-2023", "task": ObjectNav(("bed",))})
    ours = replace(protocol.task, categories=("bed",))
    assert with_defaults({"protocol": "objectnav-2023", "task": ours})["task"] == ours
    ours = ObjectNav(("bed",), eye_height=1)
    assert with_defaults({"protocol": "objectnav-2023", "task": ours})["task"] == ours
    other = replace(protocol, task=ObjectNav(("bed",)))
    assert with_defaults({"protocol": other, "task": other.task})["task"].eye_height == 1.25
    with pytest.raises(ValueError, match=r"success_distance=0.36, goal_sensor=StaticPointGoal"):
        with_defaults({"protocol": "pointnav-2021", "task": PointNav(success_reward=5)})
    assert isinstance(with_defaults({"protocol": "pointnav-2021", "task": ObjectNav()})["task"], ObjectNav)


def limited(task, steps=7, camera=None, **fields):
    camera = Camera(8, 8) if camera is None else camera
    return NavigationProtocol(name="mine", source="here", task=task, camera=camera, max_episode_steps=steps, **fields)


@pytest.mark.parametrize(
    ("name", "given", "limit"),
    [
        ("PointNav", {"max_episode_steps": 500}, 7),
        ("PointNavScan", {"max_episode_steps": 9}, 9),
        ("PointNavImage", {}, 7),
    ],
)
def test_the_limit_of_a_protocol_is_that_of_batches_made_by_id(name, given, limit):
    camera = SCAN_CAMERA if name == "PointNavScan" else None
    protocol = limited(PointNav(), camera=camera, sensors=("depth",))
    keywords = {**SCENES, "renderer": "embree", "protocol": protocol, **given}
    with closing(gymnasium.make_vec(f"BatchNav/{name}-v0", 2, **keywords)) as envs:
        assert envs.unwrapped.max_episode_steps == limit
        assert ("max_episode_steps" in envs.unwrapped.protocol_card().changed) == (limit == 9)


def test_gymnasiums_make_refuses_a_protocol_whose_limit_it_would_replace():
    keywords = {**SCENES, "sensors": (), "protocol": limited(PointNav())}
    with pytest.raises(ValueError, match=r"protocol='mine' ends episodes after 7 steps.*after 500: use .*make_vec"):
        gymnasium.make("BatchNav/PointNav-v0", **keywords)
    with closing(SingleEnv(**keywords)) as env:
        assert env.batch.max_episode_steps == 7
        card = env.protocol_card()
        assert card.changed.keys() == {"sensors"} and card.notes == "" and "mine (here)" in str(card)


def test_keywords_that_a_protocol_does_not_set_are_those_of_the_id():
    keywords = {**SCENES, "sensors": ()}
    with closing(gymnasium.make_vec("BatchNav/SocialNav-v0", 2, protocol=limited(SocialNav()), **keywords)) as envs:
        assert envs.unwrapped.config.bodies == (People(4),)
    with closing(gymnasium.make_vec("BatchNav/Tag-v0", 3, protocol=limited(Tag(3)), **keywords)) as envs:
        assert envs.unwrapped.config.agents_per_world == 3 and envs.unwrapped.max_episode_steps == 7


@pytest.mark.parametrize("team", [3, (2, 3), Team(3, "person")])
@pytest.mark.parametrize("name", ["Tag", "Rendezvous"])
def test_a_task_for_a_team_has_the_agents_of_a_world(name, team):
    with closing(gymnasium.make_vec(f"BatchNav/{name}-v0", 6, agents_per_world=team, sensors=(), **SCENES)) as envs:
        envs.reset(seed=0)
        assert envs.unwrapped.task.num_agents == 3


@pytest.mark.parametrize("name", ["Tag", "Rendezvous"])
def test_a_world_with_too_few_agents_for_its_task_is_refused(name):
    with (
        closing(gymnasium.make_vec(f"BatchNav/{name}-v0", 3, agents_per_world=(1, 3), sensors=(), **SCENES)) as envs,
        pytest.raises(ValueError, match=r"fewer than 2 agents: pass agents_per_world=\(2, 3\)"),
    ):
        envs.reset(seed=0)


def test_a_protocol_overrides_the_sensors_of_a_wrapper():
    with closing(gymnasium.make_vec("BatchNav/PointNavImage-v0", 2, protocol="bps-2021", **SCENES)) as envs:
        assert envs.unwrapped.config.sensors == ("depth",)
    with closing(gymnasium.make_vec("BatchNav/PointNavScan-v0", 2, protocol="bps-2021", **SCENES)) as envs:
        assert envs.unwrapped.cameras.rig.first.height == 1


@pytest.mark.parametrize("wrong", ["pointnav", 3, PointNav])
def test_an_unknown_protocol_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=r"protocol=.*'pointnav-2021'.*NavigationProtocol"):
        BatchNavEnv(2, protocol=wrong)


def test_protocols_are_checked():
    right = {"name": "mine", "source": "here", "task": PointNav(), "camera": Camera()}
    for name, wrong in (("name", 3), ("source", None), ("task", None), ("task", PointNav)):
        with pytest.raises(ValueError, match=name):
            NavigationProtocol(**{**right, name: wrong})


ROOM = {"scenes": [box_room()], "episodes": 12, "camera": Camera(8, 8), "sensors": ("depth",)}
OTHERS = {  # keywords on which results depend, and values other than the defaults
    "sensor_timing": {"depth": SensorTiming(3, 2)},
    "sensor_noise": {"depth": RedwoodNoise()},
    "actuation_noise": "locobot",
    "autoreset_mode": "same_step",
    "scenes": Scenes(ROOM["scenes"], rotate_every=3),
    "geodesic": "detour",
    "sliding": False,
    "task": PointNav(success_distance=0.3),
    "camera": Camera(8, 8, hfov_deg=91),
    "actions": DiscreteActions(turn_angle_deg=15),
    "measures": (OracleSuccess(),),
    "agents_per_world": 2,
    "bodies": (People(1),),
}


class TestCard:
    def test_every_setting_on_which_results_depend_changes_the_checksum(self, make):
        cards = []
        for keywords in ({}, *({name: value} for name, value in OTHERS.items())):
            env = make(**{**ROOM, **keywords})
            env.reset(seed=1)
            cards.append(env.protocol_card())
        assert len({card.checksum for card in cards}) == 1 + len(OTHERS)
        assert len({card.scenes[0].episodes for card in cards}) == 1

    def test_equal_settings_have_equal_checksums(self, make):
        class Own(SensorNoise):
            sensor = "depth"

            def apply(self, images, keys):
                images *= 2

        checksums = set()
        for hfov, turn in ((90, 10), (90.0, 10.0)):
            changes = {"camera": Camera(8, 8, hfov_deg=hfov), "actions": DiscreteActions(turn_angle_deg=turn)}
            env = make(**{**ROOM, **changes, "sensor_noise": {"depth": Own()}})
            env.reset(seed=1)
            checksums.add(env.protocol_card().checksum)
        assert len(checksums) == 1

    def test_it_states_what_a_result_depends_on(self, make):
        env = make(num_envs=3, sensors=("depth",), camera=Camera(8, 8), episodes=Episodes(order="once", count=12))
        env.reset(seed=5)
        card = env.protocol_card()
        assert card.protocol == "" and card.seeds == "5 to 7" and card.episode_order == "once"
        assert card.renderer.startswith("embree") and {"python", "numpy", "gymnasium"} <= set(card.versions)
        (scene,) = card.scenes
        assert scene.name == "apartment_4" and scene.num_episodes == len(env.simulator.episode_set(0))
        text = str(card)
        for part in ("apartment_4", scene.scene, scene.episodes, "5 to 7", "once", "exact", card.checksum):
            assert part in text
        assert json.loads(card.to_json())["scenes"][0]["navmesh"] == scene.navmesh

    def test_checksums_tell_what_differs(self, make):
        other_room = [box_room("room", width=9)]
        cards = []
        for seed, changes in (
            (1, {}),
            (1, {}),
            (2, {}),
            (1, {"scenes": other_room, "episodes": 11}),
            (1, {"scenes": other_room}),
        ):
            env = make(**{**ROOM, **changes})
            env.reset(seed=seed)
            cards.append(env.protocol_card())
        assert cards[0] == cards.pop(1)
        assert len({card.checksum for card in cards}) == 4
        assert cards[2].scenes[0].scene == cards[3].scenes[0].scene
        assert cards[2].scenes[0].episodes != cards[3].scenes[0].episodes
        assert cards[0].scenes[0].scene != cards[2].scenes[0].scene


@pytest.mark.slow
@pytest.mark.parametrize("name", PROTOCOLS)
def test_oracles_succeed(name):
    run = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "oracles.py"))["run"]
    episodes = run(name, "procedural:0-1?area=60", 50)
    assert len(episodes) == 100
    # Motors with noise move the agent by more than the success distance now and then.
    assert np.mean(episodes.success) >= (0.9 if PROTOCOLS[name].actuation_noise else 0.99)
    assert np.mean(episodes.spl) >= 0.8
