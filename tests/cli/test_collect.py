import pytest
from commands import refusal, run

pytest.importorskip("zarr", reason="zarr needs Python 3.11")

SMALL = ["--scenes", "apartment_1", "--policy", "random", "--episodes-per-scene", "17", "--renderer", "embree"]
COLLECT = ["collect", "run", *SMALL]


def test_parts_are_collected_checked_and_merged(tmp_path):
    for part in (1, 2):
        options = ("--sensors", " depth, ", "--size", 20, "--shard", f"{part}/2", "--out", tmp_path / f"{part}")
        assert f"{(16, 1)[part - 1]} in 1 shard" in run(*COLLECT, *options).stdout
    assert "1 shard missing" in run("collect", "check", tmp_path / "1", expect=1).stdout
    assert not (tmp_path / "1" / "zarr.json").exists()
    run("collect", "check", tmp_path / "1", "--merge", tmp_path / "half")
    assert (tmp_path / "half" / "zarr.json").is_file()
    run("collect", "check", tmp_path / "1", tmp_path / "2", "--merge", tmp_path / "all")
    assert "random" in run("collect", "check", tmp_path / "all").stdout


def test_errors_name_the_settings(tmp_path):
    run("collect", "--renderer", "embree", "check", tmp_path, expect=2)
    run(*COLLECT, expect=2)  # without --out
    assert "to='minari': choose one of" in refusal(*COLLECT, "--to", "minari", "--out", tmp_path / "data")
    assert "sample=True: only" in refusal(*COLLECT, "--sample", "--out", tmp_path / "data")
    assert "name one, or join them with --merge" in refusal("collect", "check", tmp_path, tmp_path)
    out = ("--to", "rrd", "--out", tmp_path / "x")
    assert "has no collection.json" in refusal("collect", "export", tmp_path, *out)


def test_a_policy_file_has_its_own_settings_instead_of_a_protocol(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    words = ["--policy", "pointnav_depth", "--protocol", "pointnav-2021", "--out", tmp_path / "data"]
    expected = "protocol='pointnav-2021': a policy file has the settings of its training"
    assert expected in refusal(*COLLECT, *words)
