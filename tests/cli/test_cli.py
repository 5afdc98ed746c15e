"""The commands, run as a user types them."""

import json
import shutil
import subprocess
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command

import gym_batchnav
from gym_batchnav.cli import app, main
from gym_batchnav.library.sources import assets_dir


def run(*arguments, expect=0, timeout=280):
    """Run a command and return its output; fail with the output unless its exit status is as expected."""
    program = "import sys; from gym_batchnav.cli import main; sys.argv[0] = 'gym-batchnav'; main()"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == expect, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    return out, run("demo", "--out", str(out), "--num-envs", "64", "--seconds", "6", "--json")


def test_the_demo_reports_its_figures_in_the_last_line(demo):
    figures = json.loads(demo[1].stdout.splitlines()[-1])
    assert figures["fps"] > 0 and figures["episodes"] > 0
    assert figures["success"] > 0.95 and figures["spl"] > 0.9
    assert {"move", "measure", "render", "policy"} <= set(figures["parts"])


def test_the_demo_draws_mosaic_map_and_clip(demo):
    for name, least in (("mosaic.png", (700, 700)), ("map.png", (500, 500)), ("clip.gif", (400, 300))):
        with Image.open(demo[0] / name) as image:
            assert image.size >= least
            assert np.asarray(image.convert("RGB")).std() > 20, f"{name} is blank"
    with Image.open(demo[0] / "clip.gif") as clip:
        assert clip.n_frames > 10
    assert sorted(path.name for path in demo[0].iterdir()) == ["clip.gif", "map.png", "mosaic.png"]


def test_the_demo_ends_with_commands_to_try_next(demo):
    lines = demo[1].stderr.rpartition("What to try next:\n")[2].splitlines()
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


@pytest.mark.data
@pytest.mark.slow
def test_the_demo_takes_a_users_own_file(data_dir, tmp_path):
    scene = data_dir / "scenes/godot/room.glb"
    said = run("demo", "--scenes", str(scene), "--num-envs", "16", "--seconds", "2", "--out", str(tmp_path), "--json")
    assert json.loads(said.stdout.splitlines()[-1])["num_envs"] == 16


@pytest.mark.parametrize(
    "what", ["step", *(pytest.param(one, marks=pytest.mark.slow) for one in ("render", "navigation"))]
)
def test_bench_prints_one_line_of_figures(what):
    scene = ("--scenes", "apartment_0", "--num-envs", "32", "--seconds", "0.5", "--json")
    (line,) = run("bench", what, *scene).stdout.splitlines()
    figures = json.loads(line)
    assert figures["fps"] > 0 and len(figures["fps_slices"]) == 10
    assert figures["machine"] and figures["triangles_per_scene"] > 10_000
    assert sum(figures["parts"].values()) > 0
    assert figures["bench"] == what and figures["calibration_mops"] > 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("demo", "--scenes", "castle"), "castle"),
        (("demo", "--scenes", "missing.glb"), "missing.glb"),
        (("demo", "--scenes", "[/red].glb"), "[/red].glb"),
        (("bench", "step", "--resolution", "big"), "--resolution"),
        (("bench", "step", "--resolution", "64x"), "--resolution '64x': write 64 or 128x72"),
        (("scene", "navmesh", "apartment_0", "--save", "out.xyz"), "end in .navmesh"),
        (("scene", "view", "apartment_0", "--out", "picture"), "use .png"),
        (("episodes", "generate", "apartment_0", "--num-episodes", "5", "--out", "x.csv"), "x.csv"),
        (("episodes", "info", "."), "'.' is a folder: pass a file"),
        (("episodes", "generate", "apartment_0", "--min-distance", "9", "--max-distance", "3"), "min_distance"),
        (("bench", "render", "--renderer", "vulkan"), "vulkan"),
        (("bench", "step", "--sensors", "lidar"), "lidar"),
    ],
)
def test_an_error_that_the_user_can_fix_is_one_line(arguments, said, tmp_path, monkeypatch, capfd):
    where = ("--out", str(tmp_path)) if arguments[0] == "demo" else ()
    monkeypatch.setattr(sys, "argv", ["gym-batchnav", *arguments, *where])
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # which main() replaces
    with pytest.raises(SystemExit, match="1"):
        main()
    said_so = capfd.readouterr().err
    assert said in said_so and "Traceback" not in said_so


def test_an_error_ends_the_program_with_one_line():
    done = run("demo", "--scenes", "castle", expect=1)
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")


@pytest.mark.slow
def test_the_doctor_says_which_renderer_runs_here_and_why():
    figures = json.loads(run("doctor", "--json").stdout)
    assert figures["renderer"] in ("opengl", "embree") and figures["reason"]
    shown = run("doctor").stdout
    assert 'renderer="auto"' in shown and "threads" in shown
    assert len(shown.splitlines()) <= 40


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "gym_batchnav", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == gym_batchnav.__version__


@pytest.mark.parametrize("command", [("demo",), ("evaluate",), ("scene", "view"), ("episodes", "generate")])
def test_paragraphs_of_help_fill_the_lines_of_a_narrow_terminal(command, monkeypatch):
    """A line ends only where its paragraph does, or where the next word would not fit."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    lines = [line[1:].rstrip() for line in run(*command, "--help").stdout.splitlines()]
    options = next(index for index, line in enumerate(lines) if "Options" in line or "Arguments" in line)
    pairs = [pair for pair in pairwise(lines[3:options]) if all(pair)]
    assert len(pairs) >= 2 or command[0] == "episodes"
    for line, following in pairs:
        assert len(line) + 1 + len(following.split()[0]) > 58, line


@pytest.mark.slow
def test_bench_prints_lists_as_words():
    shown = run(
        "bench", "step", "--scenes", "apartment_4", "--num-envs", "2", "--seconds", "0.2", "--sensors", "rgb,depth"
    )
    assert "rgb, depth" in shown.stdout and "64 x 64" in shown.stdout and "[" not in shown.stdout


def test_help_teaches():
    assert run("--version").stdout.strip()
    assert "shortest path" in run("demo", "--help").stdout
    assert {"step", "render", "navigation"} <= set(run("bench", "--help").stdout.split())


@pytest.mark.data
@pytest.mark.slow
def test_scene_navmesh_describes_and_draws_a_file(data_dir, tmp_path):
    scene = data_dir / "scenes/godot/room.glb"
    out = tmp_path / "map.png"
    saved = tmp_path / "room.navmesh"
    said = run("scene", "navmesh", str(scene), "--out", str(out), "--save", str(saved), "--json").stdout
    figures = json.loads(said)
    assert figures["area"] == pytest.approx(182.12, rel=0.02) and len(figures["islands"]) == 2
    with Image.open(out) as image:
        assert len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) > 3
    described = run("scene", "navmesh", str(saved), "--out", str(out)).stdout
    assert f"{figures['area']:.2f} m2" in described


def test_episodes_are_generated_and_described(tmp_path):
    out = tmp_path / "episodes.json.gz"
    run("episodes", "generate", "apartment_0", "apartment_1", "--num-episodes", "50", "--out", str(out))
    rows = json.loads(run("episodes", "info", str(out), "--json").stdout)["scenes"]
    assert {name: row["episodes"] for name, row in rows.items()} == {"apartment_0": 50, "apartment_1": 50}
    assert all(1 <= row["distance_min"] <= row["distance_max"] <= 30 for row in rows.values())
    assert "apartment_1" in run("episodes", "info", str(out)).stdout


@pytest.mark.slow
def test_scene_generate_writes_scene_navmesh_and_episodes(tmp_path):
    run("scene", "generate", "3", "--out", str(tmp_path), "--name", "home_{seed}", "--triangles", "8000")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home_3.glb", "home_3.json.gz", "home_3.navmesh"]


@pytest.mark.slow
def test_warmup_compiles_everything_once():
    first, second = (json.loads(run("warmup", "--json", timeout=900).stdout) for _ in range(2))
    assert second["compiled"] == 0 and second["directory"] == first["directory"]


@pytest.mark.slow
def test_warmup_compiles_for_the_named_renderer():
    figures = json.loads(run("warmup", "--renderer", "embree", "--json", timeout=900).stdout)
    assert figures["renderer"] == "embree"
    assert "renderer='embree'" in run("warmup", "--renderer", "embree").stdout
    assert "renderer='vulkan': choose one of" in run("warmup", "--renderer", "vulkan", expect=1).stderr


@pytest.mark.slow
def test_the_demo_names_the_scene_that_it_draws(tmp_path):
    shutil.copy(assets_dir() / "apartment_4.glb", tmp_path / "whole.glb")
    (tmp_path / "broken.glb").write_bytes(b"glTF but no more")
    spec = ("--scenes", str(tmp_path / "*.glb"), "--num-envs", "4", "--seconds", "0.5")
    said = run("demo", *spec, "--out", str(tmp_path / "out")).stdout
    assert "agents in whole" in said


def test_piped_output_does_not_break_paths(tmp_path):
    folder = tmp_path / "a_folder_with_a_rather_long_name_that_fills_a_line_of_eighty_characters_and_more"
    folder.mkdir()
    out = folder / "episodes.json.gz"
    said = run("episodes", "generate", "apartment_4", "--num-episodes", "5", "--out", str(out))
    assert str(out) in said.stderr


@pytest.mark.slow
def test_object_episodes_are_generated_and_described(tmp_path):
    out = tmp_path / "objects.json.gz"
    wanted = ("--task", "objectnav", "--categories", "chair, sofa", "--num-episodes", "20", "--out", str(out))
    assert "20 episodes in 1 scene" in run("episodes", "generate", "apartment_4", *wanted).stderr
    rows = json.loads(run("episodes", "info", str(out), "--task", "objectnav", "--json").stdout)["scenes"]
    assert all("detour_mean" not in row for row in rows.values())  # the file does not say which view point is nearest
    assert "straight" not in run("episodes", "info", str(out), "--task", "objectnav").stdout
    assert rows["apartment_4"]["episodes"] == 20 and rows["apartment_4"]["goals"] > 20
    assert "pass task=ObjectNav" in run("episodes", "info", str(out), expect=1).stderr
