import pytest
from typer.testing import CliRunner

from gym_batchnav.cli import app

SMALL = ["--scenes", "apartment_1", "--policy", "random", "--episodes-per-scene", "17", "--renderer", "embree"]


@pytest.fixture
def run():
    def run(*arguments):
        return CliRunner().invoke(app, ["collect", *map(str, arguments)])

    return run


def test_parts_are_collected_checked_and_merged(run, tmp_path):
    keywords = [*SMALL, "--sensors", " depth, ", "--size", 20]
    for part in (1, 2):
        result = run("run", *keywords, "--shard", f"{part}/2", "--out", tmp_path / f"{part}")
        assert result.exit_code == 0 and f"{(16, 1)[part - 1]} in 1 shards" in result.stdout, result.output
    incomplete = run("check", tmp_path / "1")
    assert incomplete.exit_code == 1 and "1 shard missing" in incomplete.stdout
    assert not (tmp_path / "1" / "zarr.json").exists()
    assert run("check", tmp_path / "1", "--merge", tmp_path / "half").exit_code == 0
    assert (tmp_path / "half" / "zarr.json").is_file()
    assert run("check", tmp_path / "1", tmp_path / "2", "--merge", tmp_path / "all").exit_code == 0
    found = run("check", tmp_path / "all")
    assert found.exit_code == 0 and "random" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "minari"], "to='minari': choose one of zarr, webdataset; collect export converts"),
        (["--policy", "nobody"], "policy='nobody' is neither a known name nor a file"),
        (["--sample"], "sample=True: only the actions of a policy file can be sampled"),
        (["--shard", "0/2"], "shard=0/2: pass i/n"),
    ],
)
def test_errors_name_the_settings(run, tmp_path, arguments, message):
    result = run("run", *SMALL, *arguments, "--out", tmp_path / "data")
    assert isinstance(result.exception, ValueError) and message in str(result.exception)


def test_options_that_have_no_effect_are_refused(run, tmp_path):
    assert run("--renderer", "embree", "check", tmp_path).exit_code == 2
    assert run("run", *SMALL).exit_code == 2  # without --out
    assert "name one, or join them with --merge" in str(run("check", tmp_path, tmp_path).exception)
    assert "has no collection.json" in str(run("export", tmp_path, "--to", "rrd", "--out", tmp_path / "x").exception)


def test_a_policy_file_has_its_own_settings_instead_of_a_protocol(run, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    words = [*SMALL, "--policy", "pointnav_depth", "--protocol", "pointnav-2021", "--out", tmp_path / "data"]
    with pytest.raises(ValueError, match="protocol='pointnav-2021': a policy file has the settings of its training"):
        raise run("run", *words).exception
