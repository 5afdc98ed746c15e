"""The commands that need no other module of their own, and what all commands share."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from commands import refusal, run
from furnished import furnished
from PIL import Image
from rooms import box, box_room, scene_of
from typer.main import get_command
from typer.testing import CliRunner

import gym_batchnav
from gym_batchnav.cli import app, main
from gym_batchnav.episodes.habitat import read_episodes
from gym_batchnav.episodes.samplers import ObjectEpisodes
from gym_batchnav.scene.save import save_glb


def commands_of(command, path=()):
    """Yield all commands that do something, each with the words that call it."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    for name, one in command.commands.items():
        yield from commands_of(one, (*path, name))


def test_each_command_shows_its_help():
    found = dict(commands_of(get_command(app)))
    assert {("demo",), ("bench",), ("episodes",), ("scene", "info")} <= set(found)
    for path, command in found.items():
        shown = " ".join(CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "400"}).output.split())
        for paragraph in command.help.split("\n\n"):
            assert " ".join(paragraph.split()) in shown, path  # Markdown has changed nothing
    assert "--install-completion" in {name for one in get_command(app).params for name in one.opts}
    parameters = [one for command in found.values() for one in command.params if one.name != "help"]
    assert len(found) <= 16 and len(parameters) <= 110  # what only a few need is in the Python API, or in --set


@pytest.mark.slow
def test_the_demo_reports_figures_draws_pictures_of_a_users_own_files_and_ends_with_commands_to_try_next(tmp_path):
    save_glb(furnished(), tmp_path / "whole.glb")
    (tmp_path / "broken.glb").write_bytes(b"glTF but no more")
    out = tmp_path / "out"
    options = ("--scenes", tmp_path / "*.glb", "--num-envs", 24, "--seconds", 0.5, "--json")
    with pytest.warns(UserWarning, match="broken"):
        done = run("demo", "--out", out, *options)
    assert "agents in whole" in done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["fps"] > 0 and figures["episodes"] > 0
    assert figures["success"] > 0.95 and figures["spl"] > 0.9
    assert {"move", "measure", "render", "policy"} <= set(figures["parts"])
    sizes = {"clip.gif": (400, 300), "map.png": (500, 500), "mosaic.png": (600, 600)}
    assert sorted(path.name for path in out.iterdir()) == list(sizes)
    for name, least in sizes.items():
        with Image.open(out / name) as image:
            assert image.size >= least and (name != "clip.gif" or image.n_frames > 10)
            assert np.asarray(image.convert("RGB")).std() > 20, f"{name} is blank"
    lines = done.stderr.rpartition("What to try next:\n")[2].splitlines()
    assert len(lines) == 3
    for line in lines:
        program, *words = line.split("  ")[1].split()
        assert program == "gym-batchnav"
        command = get_command(app)
        for word in words:
            if word.startswith("--"):
                assert any(word in parameter.opts for parameter in command.params), word
            elif hasattr(command, "commands"):
                command = command.commands[word]


@pytest.mark.parametrize(
    "what", ["step", *(pytest.param(one, marks=pytest.mark.slow) for one in ("render", "navigation"))]
)
def test_bench_prints_figures(what, monkeypatch):
    if what == "step":  # it takes longer than the rest
        monkeypatch.setattr("gym_batchnav.bench._warm_up", lambda work: work())
    sensors = () if what == "navigation" else ("--sensors", "rgb,depth")
    spec = ("--scenes", "apartment_4", "--num-envs", "8", "--seconds", "0.2", *sensors)
    (line,) = run("bench", "--what", what, *spec, "--json").stdout.splitlines()
    figures = json.loads(line)
    assert figures["fps"] > 0 and len(figures["fps_slices"]) == 10
    assert figures["machine"] and figures["triangles_per_scene"] > 10_000
    assert sum(figures["parts"].values()) > 0
    assert figures["bench"] == what and figures["calibration_mops"] > 1
    if what == "step":
        shown = run("bench", *spec).stdout
        assert "rgb, depth" in shown and "64 x 64" in shown and "[" not in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("demo", "--scenes", "[/red].glb"), "[/red].glb"),
        (("demo", "--scenes", ":boom:.glb"), ":boom:.glb"),
        (("demo", "--scenes", "apartment_0", "--renderer", "vulkan"), "renderer='vulkan': choose one of"),
        (("view", "apartment_0", "--no-browser", "--renderer", "vulkan"), "renderer='vulkan': choose one of"),
        (("episodes", "x.json.gz", "y.glb"), "'x.json.gz' is a file of episodes: name it alone to describe it"),
        (("episodes", "no.scene_dataset_config.json"), "scene file 'no.scene_dataset_config.json' does not"),
        (("bench", "--resolution", "64x"), "resolution='64x': write 64 or 128x72"),
        (
            ("episodes", "apartment_0", "--num-episodes", "5", "--out", "x.csv"),
            "x.csv: the name of a file of episodes must end in .json",
        ),
        (("episodes", "x.json", "--seed", "3"), "--seed has no effect when a file of episodes is described"),
        (("episodes", "apartment_0", "--categories", "bed"), "--categories has no effect on episodes of PointNav"),
        (("data", "hm3d", "--out", "x", "--json"), "--json has no effect when a dataset is downloaded"),
        (("bench", "--scenes", "apartment_4", "--what", "render", "--renderer", "vulkan"), "vulkan"),
        (("bench", "--sensors", "lidar"), "lidar"),
        (("bench", "--what", "navigation", "--sensors", "rgb"), "--sensors has no effect with --what navigation"),
        (("evaluate", "--policy", "follower", "--agents", "random", "--sample"), "sample=True: only the actions"),
        (("warmup", "--renderer", "vulkan"), "renderer='vulkan': choose one of"),
    ],
)
def test_an_error_that_the_user_can_fix_is_one_line(arguments, said, tmp_path, monkeypatch, capfd, recwarn):
    where = ("--out", str(tmp_path / "out")) if arguments[0] == "demo" else ()
    monkeypatch.setattr(sys, "argv", ["gym-batchnav", *arguments, *where])
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # which main() replaces
    with pytest.raises(SystemExit, match="1"):
        main()
    error = capfd.readouterr().err
    assert not any("could not be compiled" in str(one.message) for one in recwarn)
    assert not list(tmp_path.iterdir())
    assert error.splitlines()[-1].startswith("error: ") and said in error and "Traceback" not in error


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "gym_batchnav", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == gym_batchnav.__version__


def test_episodes_are_sampled_and_described(tmp_path):
    folder = tmp_path / "a_folder_with_a_rather_long_name_that_fills_a_line_of_eighty_characters_and_more"
    folder.mkdir()
    out = folder / "episodes.json.gz"
    said = run("episodes", "apartment_0", "apartment_1", "--num-episodes", "50", "--out", out).stderr
    assert f"{out}: 100 episodes in 2 scenes" in said  # piped output does not break paths
    found = read_episodes(out)
    assert {name: len(one) for name, one in found.items()} == {"apartment_0": 50, "apartment_1": 50}
    shown = run("episodes", out).stdout
    for name, one in found.items():
        line = next(line for line in shown.splitlines() if name in line)
        assert f"{one.distance.min():.2f}" in line and f"{one.distance.max():.2f}" in line


def test_episodes_are_written_in_habitats_layout_and_do_not_depend_on_other_scenes(tmp_path):
    for name in ("attic", "room"):
        save_glb(box_room(), tmp_path / f"{name}.glb")
    train = tmp_path / "v1" / "train"
    (tmp_path / "folder").mkdir()
    said = run("episodes", tmp_path / "*.glb", "--num-episodes", "5", "--out", train).stderr
    assert f"{train / 'train.json.gz'}: 10 episodes in 2 scenes" in said
    assert list(read_episodes(train / "content" / "room.json.gz")) == ["room"]
    run("episodes", tmp_path / "room.glb", "--num-episodes", "5", "--out", tmp_path / "room.json")
    starts = {name: one.start.tolist() for name, one in read_episodes(train / "train.json.gz").items()}
    assert starts["attic"] != starts["room"] == read_episodes(tmp_path / "room.json")["room"].start.tolist()


def test_episodes_that_lead_to_objects_are_sampled_described_and_missing_categories_told(tmp_path):
    save_glb(furnished(bed=((20, 0, 0), (20.3, 0.3, 0.3))), tmp_path / "home.glb")
    save_glb(box_room(), tmp_path / "empty.glb")
    wanted = ("episodes", tmp_path / "home.glb", tmp_path / "empty.glb", "--task", "objectnav", "--num-episodes", 5)
    said = run(*wanted, "--categories", "table,bed,chair", "--out", tmp_path / "val.json.gz").stderr
    assert "5 episodes in 1 scene" in said and "left out: scene 'empty': no object of the categories table" in said
    assert "note: scene 'home': no episodes lead to bed: no view points where agents can go (" in said
    assert "note: no scene has objects of the categories chair" in said
    shown = run("episodes", tmp_path / "val.json.gz").stdout
    assert "straight" not in shown  # the file does not say which view point is nearest
    assert "Categories: table 5" in shown
    assert "home" in shown and "5 episodes in 1 scene" in shown and "view points" in shown
    failed = refusal(*wanted, "--categories", "table,unicorn,sofaa,crat=chair", "--out", tmp_path / "other")
    assert "no scene has objects of the categories 'unicorn', 'sofaa', 'crat': leave" in failed
    assert not (tmp_path / "other").exists()


def test_objects_with_other_names_are_goals_by_their_aliases(tmp_path):
    save_glb(furnished(), tmp_path / "home.glb")
    wanted = (tmp_path / "home.glb", "--task", "objectnav", "--num-episodes", 5, "--out", tmp_path / "out.json")
    failed = refusal("episodes", *wanted)
    assert "scene 'home'" in failed and "'crate'" in failed
    assert "5 episodes in 1 scene" in run("episodes", *wanted, "--categories", "bed, Crate=chair").stderr
    for wrong in ("crate=", ""):
        assert "pass names or pairs" in refusal("episodes", *wanted, "--categories", wrong)


def test_scenes_that_cannot_have_episodes_are_left_out(tmp_path):
    save_glb(scene_of("pole", box((0, 0, 0), (0.05, 1, 0.05))), tmp_path / "pole.glb")
    (tmp_path / "cut.glb").write_bytes(b"glTF but no more")
    save_glb(box_room(), tmp_path / "room.glb")
    out = tmp_path / "episodes.json"
    said = run("episodes", tmp_path / "*.glb", "--num-episodes", "5", "--out", out).stderr
    assert "5 episodes in 1 scene" in said and list(read_episodes(out)) == ["room"]
    assert "left out: scene 'pole': the scene has no walkable area" in said and "cut.glb': it is cut short" in said


def test_episodes_are_sampled_for_the_agent_and_the_task_of_a_protocol(tmp_path, monkeypatch):
    save_glb(box_room(), tmp_path / "room.glb")
    wanted = ("episodes", tmp_path / "room.glb", "--out", tmp_path / "room.json", "--num-episodes", "100")
    run(*wanted, "--protocol", "pointnav-2021")
    starts = read_episodes(tmp_path / "room.json")["room"].start
    run(*wanted)
    own = read_episodes(tmp_path / "room.json")["room"].start
    assert np.ptp(starts, axis=0)[0] < np.ptp(own, axis=0)[0]  # the wider agent keeps away from walls
    samplers = []
    monkeypatch.setattr(ObjectEpisodes, "instances", lambda self, *_: samplers.append(self) or [])
    refusal(*wanted, "--protocol", "objectnav-hm3d-2022", "--categories", "bed")
    assert samplers == [ObjectEpisodes(("bed",), eye_height=0.88)]
    own_goals, other_task = ("instanceimagenav-2023",), ("objectnav-2023", "--task", "pointnav")
    for options, remedy in ((own_goals, "InstanceImageNav: choose one for PointNav"), (other_task, "leave --task out")):
        assert remedy in refusal(*wanted, "--protocol", *options)


@pytest.mark.slow
def test_warmup_lists_the_kernels_of_commands():
    kernels = json.loads(run("warmup", "--renderer", "embree", "--list", "--json").stdout)["kernels"]
    assert sum(kernels["scene info"].values()) < sum(kernels["scene info --out"].values())
    assert 20 < sum(kernels["demo, bench"].values()) < 80
    assert kernels["demo, bench"]["drawing colours"] > 0
