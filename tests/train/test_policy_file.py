"""Policy files: loading returns the saved policy, and untrusted files are harmless."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from safetensors import safe_open  # noqa: E402
from safetensors.numpy import save as pack_arrays  # noqa: E402

from gym_batchnav import BatchNavEnv, DiscreteActions, LoCoBotNoise  # noqa: E402
from gym_batchnav.env.observe import SensorTiming  # noqa: E402
from gym_batchnav.episodes.samplers import PointEpisodes  # noqa: E402
from gym_batchnav.evaluation.records import fields_of, record_of  # noqa: E402
from gym_batchnav.evaluation.world import PolicyAbout, check_world, policy_about  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.lenses import Cylindrical, Equirectangular  # noqa: E402
from gym_batchnav.library.sources import assets_dir  # noqa: E402
from gym_batchnav.mapping.sensors import MapPath  # noqa: E402
from gym_batchnav.navmesh.mesh import NavMeshSettings  # noqa: E402
from gym_batchnav.noise.depth import RedwoodNoise  # noqa: E402
from gym_batchnav.noise.rgb import GaussianNoise  # noqa: E402
from gym_batchnav.task.explore import Explore, Flee  # noqa: E402
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav  # noqa: E402
from gym_batchnav.task.multigoal import MultiGoalNav  # noqa: E402
from gym_batchnav.task.objectnav import ObjectNav  # noqa: E402
from gym_batchnav.task.pointnav import PointNav  # noqa: E402
from gym_batchnav.task.sensors import Compass, StaticPointGoal  # noqa: E402
from gym_batchnav.train.policy import GOAL, PREVIOUS_ACTION, make_policy  # noqa: E402
from gym_batchnav.train.policy_agent import PolicyAgent  # noqa: E402
from gym_batchnav.train.policy_file import MAX_HEADER_BYTES, load_policy, save_policy  # noqa: E402
from gym_batchnav.train.rollout import Collector  # noqa: E402


def about_of(kind="small", sensors=("depth", "rgb"), camera=None, **changes):
    about = PolicyAbout(kind, sensors, camera or Camera(24, 16, hfov_deg=80), 0.25, 10.0, 500, "cpu", 123, 4)
    return dataclasses.replace(about, **changes)


def test_the_same_policy_comes_back(tmp_path):
    about = about_of()
    policy = make_policy("small", about.observation_space())
    with torch.no_grad():
        for buffer in policy.buffers():
            buffer.add_(1)
    save_policy(tmp_path / "a.safetensors", policy, about)
    before = torch.get_rng_state()
    loaded, said = load_policy(str(tmp_path / "a.safetensors"))
    assert said == about
    assert torch.equal(torch.get_rng_state(), before), "loading drew random numbers"

    space = about.observation_space()
    space.seed(0)
    rows = [space.sample() for _ in range(3)]
    observation = {name: torch.as_tensor(np.stack([row[name] for row in rows])) for name in space.spaces}
    observation["pointgoal_with_gps_compass"] = torch.randn(3, 2)
    observation[PREVIOUS_ACTION] = torch.tensor([0, 1, 2])
    begun = torch.tensor([True, False, False])
    state = torch.randn_like(policy.initial_state(3))
    for one, other in zip(policy(observation, state, begun), loaded(observation, state, begun), strict=True):
        assert torch.equal(one, other)
    loaded(observation, state, begun)[0].sum().backward()  # it can be trained on


def changed(path, described=None, arrays=None, without=None):
    """Write a policy file again with another description, with other arrays, or without an entry."""
    with safe_open(path, framework="np") as file:
        header = file.metadata()
        found = {name: file.get_tensor(name) for name in file.keys()}
    about = {**json.loads(header["about"]), **(described or {})}
    about.pop(without, None)
    path.write_bytes(pack_arrays({**found, **(arrays or {})}, {**header, "about": json.dumps(about)}))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.safetensors"
    about = about_of("small", ("depth",), Camera(16, 16))
    save_policy(path, make_policy("small", about.observation_space()), about)
    return path


WITH_PICTURE = fields_of(ImageNav())


@pytest.mark.parametrize(
    "described",
    [
        {"kind": "large"}, {"kind": ["small"]}, {"kind": "paper"}, {"kind": "blind"}, {"sensors": "depth"},
        {"sensors": ["smell"]}, {"sensors": 3}, {"sensors": []}, {"camera": {"width": 0}}, {"camera": {"zoom": 2}},
        {"camera": 5}, {"camera": {"lens": {"class": "Eye"}}}, {"camera": {"lens": "Fisheye"}},
        {"camera": {"width": "16"}}, {"forward_step": -1}, {"turn_angle_deg": float("nan")},
        {"max_episode_steps": 1.5}, {"extra": 1},
        {"task_sensors": {f"s{i}": 1 for i in range(65)}}, {"task_sensors": {"a": 10**400}},
        {"task_sensors": {"a": 0}}, {"task_sensors": ["a"]}, {"sliding": 1},
        {"task": 3}, {"task_settings": {"a": "b"}}, {"task_settings": []},
        {"navmesh_settings": {"cells": 1}}, {"navmesh_settings": 3},
        {"actuation_noise": "locobot"}, {"actuation_noise": {"size": 1}},
        {"actuation_noise": {"class": "LoCoBotNoise", "multiplier": -1}},
        {"sensor_noise": None}, {"sensor_timing": {"depth": {"period": 2}}},
        {"actuation_noise": {"class": "LoCoBotNoise", "power": 1}},
        {"task": "ImageNav", "task_settings": {**WITH_PICTURE, "camera": {"class": "Camera", "width": 0}}},
        {"task": "ImageNav", "task_settings": {**WITH_PICTURE, "camera": {"class": "Camera", "zoom": 0}}},
        {"task": "ImageNav", "task_settings": {**WITH_PICTURE, "camera": 3}},
        {"task": "ObjectNav", "task_settings": {**fields_of(ObjectNav()), "categories": [1]}},
        {"frames": "many"}, {"preset": 7}, {"seed": None},
        {"other_sensors": ["gps"]}, {"other_sensors": {"gps": 3}}, {"other_sensors": {"gps": {"class": "Compass"}}},
        {"other_sensors": {"map_path": {"class": "MapPath", "num_cells": 1}}},
        {"other_sensors": {"camera": {"class": "Camera"}}},
        {"spaces": []}, {"spaces": {"a": {"shape": [2]}}}, {"spaces": {GOAL: [2]}}, {"spaces": {GOAL: {"shape": 2}}},
        {"spaces": {GOAL: {"shape": []}}}, {"spaces": {GOAL: {"shape": [-1, -2]}}},
        {"spaces": {GOAL: {"shape": [1, 1, 1, 2]}}}, {"spaces": {GOAL: {"shape": [2], "first": 1}}},
        {"spaces": {GOAL: {"shape": [2], "first": 3, "last": 1}}}, {"spaces": {GOAL: {"shape": [2.0]}}},
        {"spaces": {GOAL: {"shape": [2], "first": 0, "last": 10**30}}},
    ],
)  # fmt: skip
def test_descriptions_that_cannot_be_are_damage(described, path):
    changed(path, described)
    with pytest.raises(ValueError, match=r"policy file '.*a\.safetensors' is damaged"):
        load_policy(path)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ({"spaces": {GOAL: {"shape": [3]}}}, rf"spaces\['{GOAL}'\]=.*the 2 numbers of task_sensors\['{GOAL}'\]"),
        ({"actuation_noise": {"class": "Camera"}}, r" actuation_noise={'class': 'Camera'}: .* with 'num_draws'"),
        ({"sensor_noise": {"depth": 3}}, r"sensor_noise\['depth'\]=3: pass the record of an object"),
        ({"task_sensors": {"a": 2**16, "b": 1}}, "has 2 sensors with 65,537 numbers: pass at most 64 with 65,536"),
    ],
)
def test_what_is_wrong_in_a_description_is_named(described, said, path):
    changed(path, described)
    with pytest.raises(ValueError, match=said):
        load_policy(path)


def test_a_long_text_of_a_file_does_not_flood_the_message(path):
    changed(path, {"kind": "x" * 100_000})
    with pytest.raises(ValueError, match="is damaged") as caught:
        load_policy(path)
    assert len(str(caught.value)) < 1000


def test_weights_of_another_shape_kind_or_number_are_damage(path):
    for array in (np.zeros(3, np.float32), np.zeros((5, 32)), np.zeros((5, 32), np.int32)):
        changed(path, arrays={"action_embedding.weight": array})
        with pytest.raises(ValueError, match="is damaged: its weights are not those of a 'small' policy"):
            load_policy(path)


def test_a_policy_is_not_saved_with_the_description_of_another(tmp_path):
    policy = make_policy("small", about_of(sensors=("depth",)).observation_space())
    with pytest.raises(ValueError, match="does not fit about=: pass the same kind, sensors and hidden="):
        save_policy(tmp_path / "a.safetensors", policy, about_of())
    assert not list(tmp_path.iterdir())


def test_a_description_of_something_huge_takes_no_memory(path):
    changed(path, {"camera": {"width": 4096, "height": 4096}})
    resource = pytest.importorskip("resource", reason="measures memory by means that Windows lacks")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match="its weights are not those"):
        load_policy(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # kilobytes


def test_a_file_without_a_setting_of_the_world_is_damaged(path):
    good = path.read_bytes()
    for name in ("kind", "camera", "forward_step", "navmesh_settings"):
        path.write_bytes(good)
        changed(path, without=name)
        with pytest.raises(ValueError, match=f"is damaged: .*{name}"):
            load_policy(path)


def test_other_files_and_huge_headers_are_refused_at_once(path, tmp_path):
    good = path.read_bytes()
    for data in (b"", b"1234567", (2**60).to_bytes(8, "little") + bytes(100), b"[" * 5000, b"glTF" + good[4:8] + b"J"):
        (tmp_path / "b").write_bytes(data)
        with pytest.raises(ValueError, match="is not a safetensors file: pass a file that gym-batchnav train wrote"):
            load_policy(tmp_path / "b")
    (tmp_path / "b").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(ValueError, match="run git lfs pull"):
        load_policy(tmp_path / "b")
    for data in (good[:-9], good[:20], (2**60).to_bytes(8, "little") + good[8:]):
        (tmp_path / "b").write_bytes(data)
        with pytest.raises(ValueError, match="is damaged"):
            load_policy(tmp_path / "b")
    (tmp_path / "b").write_bytes(pack_arrays({"weight": np.zeros(3)}, {"format": "pt"}))
    with pytest.raises(ValueError, match="is not a policy of gym_batchnav: pass a file that train wrote"):
        load_policy(tmp_path / "b")
    many = {f"{index:06}": np.zeros(0, np.float32) for index in range(20_000)}
    data = pack_arrays(many, {"format": "gym_batchnav policy 2", "about": "{}"})
    assert int.from_bytes(data[:8], "little") > MAX_HEADER_BYTES
    (tmp_path / "b").write_bytes(data)
    with pytest.raises(ValueError, match="its header has"):
        load_policy(tmp_path / "b")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_policy(tmp_path / "none")


def test_shipped_policies_are_loaded_by_name(path, tmp_path, monkeypatch):
    (named, about), (loaded, _) = (
        load_policy("pointnav_blind"),
        load_policy(assets_dir() / "pointnav_blind.safetensors"),
    )
    assert about.sensors == ()
    torch.testing.assert_close(named.state_dict(), loaded.state_dict())
    monkeypatch.chdir(tmp_path)
    Path("pointnav_blind").write_bytes(path.read_bytes())
    assert load_policy(Path("./pointnav_blind"))[1].sensors != ()


GENEROUS = {"success_distance": 0.5, "success_reward": 2.5, "step_reward": -0.01, "spl_reward": False}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sliding": False}, "sliding is False, the policy was trained with True"),
        ({"forward_step": 0.5}, "forward_step is 0.5, the policy was trained with 0.25"),
        ({"camera": Camera(24, 16, hfov_deg=90)}, "camera.hfov_deg is 90, the policy was trained with 80"),
        ({"sensors": ("rgb",)}, "it has no sensor 'depth', which the policy needs"),
        ({"navmesh_settings": NavMeshSettings(agent_radius=0.3)}, "navmesh_settings.agent_radius is 0.3"),
        (
            {"actuation_noise": {"class": "LoCoBotNoise", "multiplier": 0.5}},
            "actuation_noise.class is 'LoCoBotNoise', the policy was trained with None",
        ),
    ],
)
def test_every_difference_of_a_world_is_named(changes, line):
    about = about_of()
    other = dataclasses.replace(about, **changes)
    assert about.differences(about) == []
    assert any(found.startswith(line) for found in about.differences(other))


def test_a_lens_comes_back_and_counts_as_a_difference(tmp_path):
    about = about_of("small", ("depth",), Camera(16, 16, lens=Cylindrical(180, 90)))
    save_policy(tmp_path / "a", make_policy("small", about.observation_space()), about)
    loaded = load_policy(tmp_path / "a")[1]
    assert loaded == about and loaded.differences(about) == []
    other = dataclasses.replace(about, camera=Camera(16, 16, lens=Equirectangular(180, 90)))
    assert any(line.startswith("camera.lens.class is 'Equirectangular'") for line in about.differences(other))


TASKS_WITH_FIELDS = [
    PointNav(goal_sensor=StaticPointGoal()),
    MultiGoalNav(num_goals=2, goal_reward=1.0),
    ObjectNav(("bed", "sofa"), eye_height=0.9),
    ImageNav(Camera(12, 8, lens=Equirectangular(90, 45))),
    InstanceImageNav(Camera(9, 9), ("bed",)),
    Explore(cell_size=2.0),
    Flee(geodesic=False),
]


@pytest.mark.parametrize("task", TASKS_WITH_FIELDS, ids=lambda task: type(task).__name__)
def test_every_task_comes_back_from_its_file_and_each_field_but_rewards_counts(path, task):
    changed(path, {"task": type(task).__name__, "task_settings": fields_of(task)})
    about = load_policy(path)[1]
    assert about.make_task() == task and about.env_keywords()["task"] == task
    plain = dataclasses.replace(about, task_settings=fields_of(type(task)()))
    assert {line.split(" ")[0].split(".")[1] for line in about.differences(plain)} == {
        one.name
        for one in dataclasses.fields(task)
        if getattr(task, one.name) != getattr(type(task)(), one.name) and not one.name.endswith("_reward")
    }


def test_files_without_the_fields_that_are_no_numbers_have_their_defaults(path):
    changed(path, {"task_settings": GENEROUS})
    about = load_policy(path)[1]
    assert about.make_task() == PointNav(success_distance=0.5)
    same = dataclasses.replace(about, task_settings=fields_of(PointNav(success_distance=0.5)))
    assert about.differences(same) == same.differences(about) == []


def test_noise_comes_back_and_a_users_noise_is_named(path):
    noise = LoCoBotNoise(0.75)
    changed(path, {"actuation_noise": record_of(noise)})
    assert load_policy(path)[1].env_keywords()["actuation_noise"] == noise

    @dataclasses.dataclass(frozen=True)
    class Drift(LoCoBotNoise):
        strength: float = 2.0

    changed(path, {"actuation_noise": record_of(Drift())})
    about = load_policy(path)[1]
    with pytest.raises(ValueError, match=r"trained with .*Drift.*: make an environment with it"):
        about.env_keywords()
    other = dataclasses.replace(about, actuation_noise=record_of(Drift(strength=3.0)))
    assert about.differences(other) == ["actuation_noise.strength is 3.0, the policy was trained with 2.0"]


def test_noise_and_timing_of_sensors_come_back(path):
    noise = {"depth": RedwoodNoise(2.0), "rgb": GaussianNoise(0.1)}
    timing = {"depth": SensorTiming(2, 1), GOAL: SensorTiming(latency=3)}
    changed(path, {"sensor_noise": record_of(noise), "sensor_timing": record_of(timing)})
    about = load_policy(path)[1]
    assert about.env_keywords()["sensor_noise"] == noise and about.env_keywords()["sensor_timing"] == timing
    plain = dataclasses.replace(about, sensor_noise={}, sensor_timing={})
    found = {line.split(" ")[0] for line in about.differences(plain)}
    assert {"sensor_noise.depth.multiplier", "sensor_timing.depth.period", f"sensor_timing.{GOAL}.latency"} <= found
    assert not any("rgb" in name for name in found)  # the policy does not read it
    assert about.differences(plain) and plain.differences(about)
    changed(path, {"sensor_noise": {"depth": {"class": "RedwoodNoise", "distortion": "/etc/passwd"}}})
    with pytest.raises(ValueError, match="make an environment with it"):
        load_policy(path)[1].env_keywords()


def test_sensors_besides_images_come_back_with_their_settings(opened, tmp_path):
    mapped = MapPath(cell_size=0.2, num_cells=64)
    sensors = ("depth", mapped, Compass())
    env = opened(BatchNavEnv(1, scenes="apartment_4", sensors=sensors, camera=Camera(16, 16)))
    about = policy_about(env, "small", "cpu", 1, 2)
    save_policy(tmp_path / "a.safetensors", make_policy("small", env.single_observation_space), about)
    policy, about = load_policy(tmp_path / "a.safetensors")
    assert set(policy.vectors) == {"map_path", "compass"}
    assert about.env_keywords()["sensors"] == sensors
    check_world(about, env)
    finer = dataclasses.replace(about, other_sensors=record_of({"map_path": MapPath(0.1, 64), "compass": Compass()}))
    assert about.differences(finer) == ["other_sensors.map_path.cell_size is 0.1, the policy was trained with 0.2"]
    more = dataclasses.replace(about_of(), other_sensors=record_of({"compass": Compass()}))
    assert about_of().differences(more) == []  # sensors that a policy does not read do not count


def test_an_environment_with_another_noise_is_refused(opened):
    def make(**keywords):
        return opened(BatchNavEnv(1, scenes="apartment_1", sensors=(), episodes=2, **keywords))

    about = policy_about(make(actuation_noise="locobot"), "blind", "cpu", 1, 2)
    check_world(about, make(actuation_noise=LoCoBotNoise(0.5)))
    for other in (make(), make(actuation_noise=LoCoBotNoise(1.0))):
        with pytest.raises(ValueError, match=r"actuation_noise.*allow_mismatch=True"):
            check_world(about, other)


def test_a_policy_of_near_goals_runs_in_all_episodes(opened):
    task = PointNav(sampler=PointEpisodes(max_distance=2))
    env = opened(BatchNavEnv(1, scenes="apartment_1", sensors=(), episodes=2, task=task))
    about = policy_about(env, "blind", "cpu", 1, 2)
    assert about.make_task() == PointNav()
    check_world(about, env)


def test_a_users_goal_sensor_is_recorded_but_cannot_be_made():
    @dataclasses.dataclass(frozen=True)
    class Coarse(StaticPointGoal):
        step: float = 0.5

    about = about_of(task_settings=fields_of(PointNav(goal_sensor=Coarse())))
    other = about_of(task_settings=fields_of(PointNav(goal_sensor=Coarse(step=1.0))))
    assert about.differences(other) == ["task_settings.goal_sensor.step is 1.0, the policy was trained with 0.5"]
    with pytest.raises(ValueError, match="Coarse' is not allowed in a file"):
        about.make_task()


def test_a_blind_policy_asks_for_no_camera():
    blind = about_of("blind", ())
    assert blind.differences(about_of(camera=Camera(99, 99))) == []
    assert about_of().differences(about_of("small", ("depth", "rgb"))) == []


def test_a_users_task_is_named():
    with pytest.raises(ValueError, match="trained in the task 'mine:Task': make an environment with that task"):
        about_of(task="mine:Task", task_settings={}).env_keywords()


@pytest.mark.parametrize("actions", ["velocity", DiscreteActions(look_angle_deg=30)], ids=str)
def test_training_with_other_actions_is_refused(opened, actions):
    env = opened(BatchNavEnv(2, scenes="apartment_4", sensors=(), actions=actions, autoreset_mode="same_step"))
    policy = make_policy("blind", env.single_observation_space)
    for use in (lambda: Collector(env, policy, 4), lambda: PolicyAgent(policy).reset(env)):
        with pytest.raises(ValueError, match=r"leave out actions= or the|discrete actions, not VelocityActions"):
            use()


def test_half_of_the_size_keeps_the_policy(path, tmp_path):
    small = tmp_path / "small.safetensors"
    save_policy(small, *load_policy(path), half=True)
    assert small.stat().st_size < 0.6 * path.stat().st_size
    (before, about), (after, same) = load_policy(path), load_policy(small)
    assert same == about
    kept = after.state_dict()
    for name, weights in before.state_dict().items():
        assert kept[name].dtype == weights.dtype
        torch.testing.assert_close(kept[name], weights, rtol=2**-11, atol=1e-7)
