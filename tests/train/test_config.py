"""Settings of a run: durations, assignments, run files, presets, and what a preset gives way to."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from gym_batchnav.evaluation.comparison import held_out_scenes  # noqa: E402
from gym_batchnav.geometry import Camera, CameraJitter  # noqa: E402
from gym_batchnav.lenses import Fisheye  # noqa: E402
from gym_batchnav.library.sources import scene_sources  # noqa: E402
from gym_batchnav.task.explore import Explore  # noqa: E402
from gym_batchnav.task.objectnav import ObjectNav  # noqa: E402
from gym_batchnav.task.pointnav import PointNav  # noqa: E402
from gym_batchnav.train.config import (  # noqa: E402
    FOLDER,
    RunConfig,
    make_config,
    parse_assignment,
    read_config,
    seconds_of,
    updated,
    with_changes,
)
from gym_batchnav.train.ppo import PPOConfig  # noqa: E402
from gym_batchnav.train.run import _read_run_file, check_same_run, described, write_run_file  # noqa: E402

PRESETS = {path.stem: make_config({"preset": path.stem}) for path in sorted(FOLDER.glob("*.toml"))}


def test_durations():
    texts = ("90s", "60m", "2h", "1.5h", " 5M ")
    assert [seconds_of("time_limit", text) for text in texts] == [90, 3600, 7200, 5400, 300]
    for text in ("", "60", "m", "-5m", "0s", "1h30m", "1e3s", "nan s"):
        with pytest.raises(ValueError, match=r"time_limit=.*: write a positive duration such as 90s, 60m or 2h"):
            make_config({"time_limit": text})


def test_assignments():
    for text, name, value in (
        ("ppo.gamma=0.995", "ppo.gamma", 0.995),
        ("device = cuda", "device", "cuda"),
        ('scenes=["a", "b"]', "scenes", ["a", "b"]),
        ("ppo.autocast=true", "ppo.autocast", True),
        ("scenes=procedural:0-9?area=30", "scenes", "procedural:0-9?area=30"),
        ("a=", "a", ""),
    ):
        assert parse_assignment(text) == (name, value)
    for text in ("gamma", "=3"):
        with pytest.raises(ValueError, match="write name=value"):
            parse_assignment(text)


class TestChanges:
    def test_they_reach_nested_fields_and_keep_the_others(self):
        changes = {"ppo.gamma": 0.5, "ppo.learning_rate": 1, "camera.width": 48, "threads": "none", "sensors": ["rgb"]}
        config = with_changes(RunConfig(threads=3, init="a.safetensors"), {**changes, "init": "none"})
        assert config == RunConfig(
            ppo=PPOConfig(gamma=0.5, learning_rate=1.0), camera=Camera(48), threads=None, sensors=("rgb",)
        )
        assert isinstance(config.ppo.learning_rate, float)

    def test_a_seed_is_a_whole_number(self):
        with pytest.raises(ValueError, match=r"seed=1\.5: pass a whole number from 0"):
            RunConfig(seed=1.5)

    def test_a_class_makes_another_object(self):
        assert make_config({"task.class": "Explore", "task.cell_size": 2.0}).task == Explore(cell_size=2.0)
        lens = make_config({"camera.lens.class": "Fisheye", "camera.lens.fov_deg": 180.0}).camera.lens
        assert lens == Fisheye(fov_deg=180.0)

    def test_pairs_of_names_may_be_a_table(self):
        task = make_config({"task.class": "ObjectNav", "task.aliases": {"armchair_b": "chair"}}).task
        assert task == ObjectNav(aliases={"armchair_b": "chair"})
        stored = {"task.class": "ObjectNav", "task.aliases.armchair_b": "chair"}  # as run.json has it
        assert make_config(stored).task == task

    def test_the_later_of_a_setting_and_its_parts_counts(self):
        parts = {"color_jitter.exposure": 0.5, "color_jitter.gamma": 0.25}
        assert make_config({**parts, "color_jitter": "none"}).color_jitter is None
        assert make_config({"color_jitter": "none", **parts}).color_jitter.exposure == 0.5
        stored = {"color_jitter": "none", **parts}
        assert make_config(updated(stored, {"color_jitter": "none", "seed": None})).color_jitter is None
        aliases = {"task.class": "ObjectNav", "task.aliases": {"a": "chair"}, "task.aliases.b": "bed"}
        assert make_config(aliases).task.aliases == (("a", "chair"), ("b", "bed"))

    def test_frames_in_a_file_are_those_of_the_schedule(self, tmp_path):
        (tmp_path / "run.json").write_text('{"given": {"frames": 1000}}')
        stored = read_config(tmp_path / "run.json")
        assert make_config({**stored, "ppo.total_frames": 2000}).ppo.total_frames == 2000
        (tmp_path / "run.json").write_text('{"given": {"ppo.total_frames": 2000, "frames": 3000}}')
        stored = read_config(tmp_path / "run.json")
        assert make_config(stored).ppo.total_frames == 3000
        assert make_config(updated({"ppo.gamma": 0.5, **stored}, {"frames": 9})).ppo.total_frames == 9

    def test_the_device_of_the_preset_changes_nothing(self):
        assert make_config({"preset": "pointnav_depth", "device": "cpu"}) == make_config({"preset": "pointnav_depth"})

    def test_a_camera_without_jitter_gets_some(self):
        jitter = make_config({"camera.jitter.eye_height": [0.9, 1.5]}).camera.jitter
        assert jitter == CameraJitter(eye_height=(0.9, 1.5))
        with pytest.raises(ValueError, match=r"camera\.jitter\.height"):
            make_config({"camera.jitter.height": [0.9, 1.5]})

    @pytest.mark.parametrize(
        ("name", "value", "says"),
        [
            ("ppo.gama", 1, "unknown setting ppo.gama: did you mean ppo.gamma?"),
            ("zzz", 1, "unknown setting zzz: choose one of preset, "),
            ("camera.width", "wide", "camera.width='wide': expected int"),
            ("camera.width", True, "camera.width=True: expected int"),
            ("scenes", "apartments", r"scenes='apartments': expected list, such as \["),
            ("scenes", [1], "scenes=.1.: expected list"),
            ("sensors", ["gsp"], "sensors='gsp': choose one of 'depth', .* 'map_path'"),
            ("resident_scenes", 0, "resident_scenes=0"),
            ("num_episodes", 0, "num_episodes=0"),
            ("time_limit", [1], "time_limit=.1.: expected float"),
            pytest.param("ppo.gamma", 10**400, "ppo.gamma=10{150,200}: expected float", id="too large"),
            ("ppo.gamma", 2, "gamma=2.0: pass a number from 0 to 1"),
            ("num_envs.x", 1, "num_envs=256 has no nested settings: set num_envs itself$"),
            ("task.class", "Walk", "task.class='Walk': choose one of 'PointNav'"),
            ("task.class", ["Explore"], r"task.class=\['Explore'\]: choose one of 'PointNav'"),
            ("camera.class", "PointNav", "camera: class 'PointNav' is not allowed in a file"),
            ("camera.lens.class", "Mirror", "camera.lens: class 'Mirror' is not allowed in a file"),
            ("task", "Explore", r"task='Explore': expected Task: set its parts, such as task\.class$"),
            ("task.goal_sensor", "x", r"expected Sensor: set its parts, such as task\.goal_sensor\.class$"),
            ("camera", 64, r"camera=64: expected Camera: set its parts, such as camera\.width$"),
            ("preset", "tpu", "preset='tpu': choose one of 'cpu'"),
            ("device", "mps", "device='mps'"),
            ("num_envs", 0, "num_envs=0"),
            ("time_limit", float("nan"), "time_limit=nan"),
            ("seed", 2**32, r"seed=4294967296: pass a whole number from 0 to 2\*\*32 - 1"),
        ],
    )
    def test_errors_name_the_setting_and_the_remedy(self, name, value, says):
        with pytest.raises(ValueError, match=says):
            make_config({name: value})


class TestFiles:
    def test_a_file_describes_a_run(self, tmp_path):
        (tmp_path / "run.toml").write_text(
            'preset = "cpu"\nseed = 3\ntime_limit = "90m"\nscenes = ["a.glb"]\nnum_episodes = 7\n'
            '[camera]\nwidth = 64\n[task]\nclass = "Explore"\n'
        )
        config = make_config(read_config(tmp_path / "run.toml"))
        assert (config.seed, config.time_limit, config.scenes) == (3, 5400.0, ("a.glb",))
        assert (config.num_episodes, config.camera.width, config.camera.height) == (7, 64, 32)
        assert config.task == Explore() and config.ppo.gamma == PRESETS["cpu"].ppo.gamma

    def test_the_file_of_a_run_describes_the_same_run(self, tmp_path):
        given = {"preset": "cpu", "seed": 4, "num_envs": 3, "frames": 100, "ppo.gamma": 0.5, "sensors": ("rgb",)}
        given |= {"task.class": "Explore", "camera.lens.class": "Fisheye", "camera.jitter.yaw_deg": [-3.0, 3.0]}
        config = make_config(given)
        write_run_file(tmp_path, given, config)
        assert make_config(read_config(tmp_path / "run.json")) == _read_run_file(tmp_path)[1] == config
        assert config.ppo.total_frames == 100 and config.ppo.num_minibatches == 3

    @pytest.mark.parametrize(
        ("name", "text", "says"),
        [
            ("run.toml", "seed = ", "is not TOML"),
            ("run.json", "[]", "is not the run.json of a run"),
            ("run.json", '{"given": 3}', "is not the run.json of a run"),
            ("run.json", "{}", "is not the run.json of a run: 'given' is missing"),
            ("run.toml", "#" * 2_000_000, "a run file has at most"),
        ],
    )
    def test_damaged_and_missing_files(self, tmp_path, name, text, says):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=says):
            read_config(tmp_path / name)
        if name == "run.json":
            with pytest.raises(ValueError, match=r"run\.json' is damaged .*: pass another out="):
                _read_run_file(tmp_path)
        with pytest.raises(FileNotFoundError, match="there is no run file"):
            read_config(tmp_path / "none.toml")


class TestPresets:
    def test_the_paper_is_in_its_files(self):
        depth, rgb = PRESETS["paper-depth"], PRESETS["paper-rgb"]
        ppo = PPOConfig(bootstrap_timeouts=False, autocast="auto", channels_last=True, compile=True)
        assert depth.ppo == rgb.ppo == ppo
        assert depth.task == rgb.task == PointNav.bps_paper() and depth.device == rgb.device == "cuda"
        assert (depth.num_envs, depth.resident_scenes, depth.sensors) == (512, 16, ("depth",))
        assert (rgb.num_envs, rgb.resident_scenes, rgb.sensors) == (128, 4, ("rgb",))

    def test_a_preset_goes_on_where_its_base_ends(self):
        cpu, gpu = PRESETS["cpu"], PRESETS["gpu"]
        assert gpu.scenes == cpu.scenes and gpu.num_episodes == cpu.num_episodes
        assert (gpu.preset, gpu.policy, gpu.ppo.optimizer, gpu.camera.width) == ("gpu", "paper", "lamb", 64)

    def test_each_is_a_run_file_resumes_with_a_longer_limit_and_trains_in_other_scenes_than_it_is_judged_in(self):
        for name, preset in PRESETS.items():
            assert make_config({**read_config(FOLDER / f"{name}.toml"), "preset": name}) == preset
            longer = make_config({"preset": name, "frames": 5, "time_limit": "2h", "threads": 3})
            check_same_run(described({}, preset), longer, "path")
            trained, held_out = (
                {source.name for source in scene_sources(specs)} for specs in (preset.scenes, held_out_scenes(name))
            )
            assert len(held_out) == 20 and not trained & held_out


class TestWhatGivesWay:
    @pytest.mark.parametrize(
        ("policy", "asked", "sensors"),
        [
            ("blind", None, ()),
            ("scan", None, ("walk_scan",)),
            ("scan", ["rgb", "walk_scan", "heading"], ("walk_scan", "heading")),
            ("small", ["rgb"], ("rgb",)),
            ("blind", ["rgb", "depth", "map_path"], ("depth", "map_path")),
        ],
    )
    def test_policies_without_images_keep_the_other_sensors_that_are_asked_for(self, policy, asked, sensors):
        for preset in ("cpu", "pointnav_map"):
            assert make_config({"preset": preset, "policy": policy, "sensors": asked}).sensors == sensors

    def test_mini_batches_that_are_asked_for_are_not_lowered(self):
        assert make_config({"num_envs": 2}).ppo.num_minibatches == 2
        assert make_config({"num_envs": 2, "ppo.num_minibatches": 8}).ppo.num_minibatches == 8

    def test_the_mapper_gives_way_to_the_follower_where_there_is_no_map(self):
        def teacher(**names):
            return make_config({"preset": "pointnav_map", **names}).ppo.teacher

        assert teacher() == "mapper" and teacher(sensors=["rgb", "depth", "map_path"]) == "mapper"
        assert teacher(policy="scan") == teacher(sensors=["depth"]) == "follower"
        assert teacher(policy="scan", **{"ppo.teacher": "mapper"}) == "mapper"  # which is refused by its name
        assert teacher(sensors=["depth"], teacher_sensors=["map_path"]) == "mapper"

    def test_a_policy_reads_the_sensors_that_are_asked_for_even_if_they_were_only_the_teachers(self):
        config = make_config({"preset": "pointnav_depth", "sensors": ["depth", "map_path"]})
        assert config.teacher_sensors == ("walk_scan",)

    def test_policies_without_images_lose_the_teachers_map_that_needs_them(self):
        for policy, sensors in (("scan", ("walk_scan",)), ("blind", ())):
            config = make_config({"preset": "pointnav_depth", "policy": policy})
            assert config.sensors == sensors and "map_path" not in config.teacher_sensors
            assert config.ppo.teacher == "follower"
        colors = make_config({"preset": "pointnav_rgb", "policy": "scan"})
        assert colors.teacher_sensors == ("depth",) and colors.ppo.teacher == "pointnav_depth"

    def test_a_policy_that_has_learned_already_does_not_imitate_again(self):
        continued = {"preset": "pointnav_depth", "init": "pointnav_depth"}
        assert make_config({"preset": "pointnav_depth"}).ppo.imitation_share > 0
        assert make_config(continued).ppo.imitation_share == 0
        assert make_config({**continued, "ppo.imitation_share": 0.5}).ppo.imitation_share == 0.5

    def test_a_gpu_brings_its_switches_unless_they_are_given(self):
        there = make_config({"device": "cuda", "ppo.compile": False}).ppo
        assert there.channels_last and not there.compile
        assert not make_config({"preset": "gpu", "device": "cpu"}).ppo.channels_last

    def test_images_that_noise_or_a_map_reads_are_in_main_memory(self, monkeypatch):
        monkeypatch.setattr("gym_batchnav.train.config.BatchNavEnv", lambda **keywords: keywords["obs_device"])
        devices = {name: make_config({"preset": name, "device": "cuda"}).make_env() for name in PRESETS}
        assert {name for name, device in devices.items() if device == "cpu"} == {
            "pointnav_depth", "pointnav_map", "pointnav_rgb"
        }  # fmt: skip
