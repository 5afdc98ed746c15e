"""Copies of datasets: recognized by their layout, and told what they lack."""

import gzip
import hashlib
import json
import struct

import pytest

from gym_batchnav.datasets.catalogue import DATASETS, dataset_named
from gym_batchnav.datasets.copies import check_copy, compare_checksums, list_files, recognize, write_checksums

GLB = b"glTF" + struct.pack("<II", 2, 12)
LAYOUTS = {
    "hm3d": ["val/00800-aB/aB.basis.glb", "val/00800-aB/aB.basis.navmesh"],
    "gibson": ["Adrian.glb", "Adrian.navmesh"],
    "mp3d": ["17D/17D.glb", "17D/17D.navmesh", "17D/17D.house"],
    "hssd": [
        "hssd-hab.scene_dataset_config.json", "scenes/1.scene_instance.json", "stages/1.glb", "objects/a/b.glb",
    ],
    "ai2thor-hab": ["ai2thor-hab.scene_dataset_config.json", "configs/scenes/ProcTHOR/1.scene_instance.json"],
    "replica-cad": [
        "replicaCAD.scene_dataset_config.json", "configs/scenes/apt_0.scene_instance.json",
        "stages/frl.glb", "objects/chair.glb",
    ],
    "replica": ["room_0/mesh.ply", "room_0/habitat/mesh_semantic.ply"],
    "habitat-test-scenes": ["skokloster-castle.glb", "skokloster-castle.navmesh", "van-gogh-room.glb"],
    "molmospaces": ["scenes/procthor/train_0.xml", "objects/chair/chair.obj"],
    "pointnav-gibson-v1": ["val/val.json.gz", "train/content/Adrian.json.gz"],
}  # fmt: skip


def fill(folder, paths):
    for path in paths:
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        content = GLB if path.endswith(".glb") else gzip.compress(b"{}") if path.endswith(".gz") else b"x"
        place.write_bytes(content)
    return folder


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_copy_is_recognized_by_its_layout(tmp_path, name):
    found = recognize(list_files(fill(tmp_path, LAYOUTS[name])))
    assert found[0].name == name
    assert len(found) == (7 if name == "pointnav-gibson-v1" else 1)  # episodes look alike
    assert check_copy(tmp_path, found[0]).is_usable


def test_every_dataset_tells_where_it_comes_from():
    for dataset in DATASETS.values():
        assert dataset.page.startswith("https://")
        assert dataset.access.endswith(".") and dataset.licence
        assert dataset.layout[0].is_per_scene and dataset.layout[0].is_needed
    with pytest.raises(ValueError, match="no dataset is called 'hm3': choose one of hm3d, gibson"):
        dataset_named("hm3")


def test_what_a_copy_lacks_is_named_by_scene(tmp_path):
    fill(tmp_path, [f"val/00{n}-s{n}/s{n}.basis.glb" for n in range(800, 803)])
    fill(tmp_path, ["val/00801-s801/s801.basis.navmesh", ".cache/left/alone.glb"])
    report = check_copy(tmp_path, dataset_named("hm3d"))
    assert report.scenes == ("s800", "s801", "s802")
    by_pattern = {one.files.pattern: one for one in report.files}
    assert by_pattern["**/{scene}.basis.navmesh"].missing == ("s800", "s802")
    assert by_pattern["**/{scene}.semantic.txt"].missing == report.scenes
    assert not by_pattern["hm3d_annotated_basis.scene_dataset_config.json"].found
    assert report.is_usable  # navmeshes are built, semantics are optional


def test_files_that_broke_off_are_damaged(tmp_path):
    fill(tmp_path, ["a.glb", "b.glb", "c.glb", "d.glb", "a.navmesh"])
    (tmp_path / "b.glb").write_bytes(b"glTF" + struct.pack("<II", 2, 1000))
    (tmp_path / "c.glb").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "d.glb").write_bytes(b"")
    (tmp_path / "e.glb").symlink_to(tmp_path / "nowhere")
    report = check_copy(tmp_path, dataset_named("gibson"))
    assert "link to a file that does not exist" in report.damaged.pop("e.glb")
    assert report.damaged["b.glb"] == "has 12 of 1,000 bytes"
    assert "Git LFS" in report.damaged["c.glb"]
    assert report.damaged["d.glb"] == "is empty"
    assert set(report.damaged) == {"b.glb", "c.glb", "d.glb"}
    assert not report.is_usable


def test_archives_of_episodes_that_broke_off_are_damaged(tmp_path):
    fill(tmp_path, ["val/val.json.gz", "val/content/a.json.gz"])
    whole = gzip.compress(json.dumps(list(range(5000))).encode())
    (tmp_path / "val/content/a.json.gz").write_bytes(whole[:-100])
    assert set(check_copy(tmp_path, dataset_named("pointnav-gibson-v1")).damaged) == {"val/content/a.json.gz"}


def test_checksums_find_what_differs(tmp_path):
    folder = fill(tmp_path / "copy", ["a.glb", "b.glb", "parts/c.glb"])
    sums = tmp_path / "copy.sha256"
    assert write_checksums(folder, sums) == 3
    assert f"{hashlib.sha256(GLB).hexdigest()}  parts/c.glb\n" in sums.read_text()
    assert compare_checksums(folder, sums) == {}
    (folder / "b.glb").write_bytes(b"other")
    (folder / "parts/c.glb").unlink()
    assert compare_checksums(folder, sums) == {"b.glb": "differs", "parts/c.glb": "is missing"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello", "line 1 .* is not a checksum"),
        (f"{'0' * 64}  ../secret", "not inside"),
        (f"{'0' * 64}  /etc/x", "not inside"),
    ],
)
def test_lists_that_are_no_checksums_are_refused(tmp_path, line, message):
    sums = tmp_path / "sums"
    sums.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=message):
        compare_checksums(tmp_path, sums)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        list_files(tmp_path / "nothing")
    assert recognize([]) == []


def test_an_unknown_dataset_of_habitats_layout_is_not_taken_for_another():
    assert recognize(["own.scene_dataset_config.json", "scenes/a.scene_instance.json", "stages/a.glb"]) == []
