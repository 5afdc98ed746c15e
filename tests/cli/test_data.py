"""``gym-batchnav data``: what users read and the exit status that scripts check."""

import json
import struct

from typer.testing import CliRunner

from gym_batchnav.cli import app


def run(*arguments, expect=0):
    """Run a command; an error that would become one line on standard error is its result's exception."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == expect, done.output
    return done


def test_datasets_are_listed_and_described():
    names = [one["name"] for one in json.loads(run("data", "list", "--json").stdout)]
    assert {"hm3d", "mp3d", "gibson", "hssd", "replica-cad", "molmospaces"} <= set(names)
    assert "hm3d" in run("data", "list").stdout
    text = run("data", "where", "hm3d").stdout
    assert "https://matterport.com/habitat-matterport-3d-research-dataset" in text
    assert "{scene}.semantic.txt" in text
    assert "choose one of hm3d" in str(run("data", "where", "nothing", expect=1).exception)


def test_a_copy_is_checked(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.glb").write_bytes(b"glTF" + struct.pack("<II", 2, 12))
    (tmp_path / "a.navmesh").write_bytes(b"x")
    text = run("data", "check", str(tmp_path)).stdout
    assert "has the layout of gibson and 2 scenes" in text
    assert f'scenes="{tmp_path}/*.glb"' in text.replace("\n", "")
    (tmp_path / "b.glb").write_bytes(b"glTF" + struct.pack("<II", 2, 99))
    report = json.loads(run("data", "check", str(tmp_path), "--json", expect=1).stdout)
    assert report["damaged"] == {"b.glb": "has 12 of 99 bytes"}
    assert not report["is_usable"]
    sums = tmp_path.with_suffix(".sha256")
    run("data", "check", str(tmp_path), "--write-checksums", str(sums), expect=1)
    (tmp_path / "a.navmesh").write_bytes(b"y")
    differs = run("data", "check", str(tmp_path), "--checksums", str(sums), expect=1).stdout
    assert "'a.navmesh' differs" in differs


def test_folders_of_no_known_dataset_are_refused(tmp_path):
    unknown = run("data", "check", str(tmp_path), expect=1)
    assert "no known dataset: pass --dataset" in str(unknown.exception)
    refused = run("data", "download", "gibson", "--out", str(tmp_path / "out"), expect=1)
    assert "cannot be downloaded without a form" in str(refused.exception)
