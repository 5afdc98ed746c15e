"""``gym-batchnav scene generate``: files, output and errors."""

import re

import pytest
from commands import refusal, run

from gym_batchnav.cli.scene.generate import _numbers
from gym_batchnav.episodes.habitat import read_episodes
from gym_batchnav.homes import generate_apartment, undamaged_scene
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.load import load_scene

GENERATE = ("scene", "generate")
SMALL = ("--triangles", "5000", "--area", "25")


@pytest.mark.slow
def test_a_range_writes_a_home_for_each_seed_and_tells_of_it(tmp_path):
    out = tmp_path / "new" / "folder"
    lines = run(*GENERATE, "1-2", "--out", out, *SMALL).stdout.splitlines()
    assert sorted(path.name for path in out.iterdir()) == [
        f"apartment_{seed}.{ending}" for seed in (1, 2) for ending in ("glb", "json.gz", "navmesh")
    ]
    assert lines[-1] == f"2 scenes in '{out}', 100 episodes each"
    for seed, line in zip((1, 2), lines, strict=False):
        home = generate_apartment(seed, area=25, triangles=5_000)
        navmesh = NavMesh.load(out / f"apartment_{seed}.navmesh")
        figures = [float(figure.replace(",", "")) for figure in re.findall(r"(?<= )[0-9][0-9,.]*(?= )", line)]
        islands = [island.area for island in navmesh.islands]
        expected = [home.metadata["area"], sum(islands), len(islands), max(islands), 3, len(home.triangles)]
        assert figures == pytest.approx(expected, abs=0.051), line
        assert line.startswith(f"apartment_{seed}: ") and "3 rooms" in line
        assert len(load_scene(out / f"apartment_{seed}.glb").triangles) == len(home.triangles)
        assert len(read_episodes(out / f"apartment_{seed}.json.gz")[f"apartment_{seed}"]) == 100


def test_a_damaged_building_keeps_the_navmesh_of_the_whole_one_and_is_told_of_in_the_singular(tmp_path):
    options = ("--out", tmp_path, "--kind", "shop", "--area", 80, "--triangles", 5_000)
    said = run(*GENERATE, "1", *options, "--damage", 0.8).stdout
    assert "shop_1: " in said and "1 scene in" in said and "100 episodes each" in said
    navmesh = NavMesh.load(tmp_path / "shop_1.navmesh")
    whole = undamaged_scene(1, kind="shop", area=80, triangles=5_000, damage=0.8)
    expected = NavMesh.build(whole.vertices, whole.triangles)
    assert navmesh.navigable_area == pytest.approx(expected.navigable_area)
    assert len(load_scene(tmp_path / "shop_1.glb").triangles) != len(whole.triangles)


def test_seeds_are_numbers_and_ranges_each_taken_once():
    assert _numbers(["3", "0-2", "2-4", "9"]) == [3, 0, 1, 2, 4, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["9-3"], "'9-3': the last seed is smaller than the first; write 3-9"),
        (["seven"], "'seven': pass a whole number"),
        (["1-"], "'1-': pass a whole number"),
        (["0-100000"], "more than 100,000 scenes"),
        (["1", "--area", "7"], "25 to 400"),
    ],
)
def test_invalid_arguments_raise_an_error_by_name(tmp_path, arguments, message):
    assert message in refusal(*GENERATE, *arguments, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "taken").write_bytes(b"")
    for out in (tmp_path / "taken", tmp_path / "taken" / "homes"):
        expected = f"folder '{out}' cannot be created: a file is in its place: name another"
        assert expected in refusal(*GENERATE, "1", "--out", out)
