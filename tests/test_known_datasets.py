"""Known datasets: copies recognized by their layout and told what they lack, and downloads from a local server."""

import gzip
import io
import json
import re
import stat
import struct
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from commands import refusal, run

from gym_batchnav.datasets import (
    check_copy,
    dataset_named,
    datasets,
    download,
    fetch,
    list_files,
    recognize,
    unpack,
)

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
    for dataset in datasets().values():
        assert dataset.page.startswith("https://")
        assert dataset.access.endswith(".") and dataset.licence
        assert dataset.layout[0].is_per_scene and dataset.layout[0].need == "needed"
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


def test_files_and_archives_that_broke_off_are_damaged(tmp_path):
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
    archives = fill(tmp_path / "episodes", ["val/val.json.gz", "val/content/a.json.gz"])
    whole = gzip.compress(json.dumps(list(range(5000))).encode())
    (archives / "val/content/a.json.gz").write_bytes(whole[:-100])
    assert set(check_copy(archives, dataset_named("pointnav-gibson-v1")).damaged) == {"val/content/a.json.gz"}


def test_folders_that_are_none_or_of_an_unknown_dataset_of_habitats_layout_are_not_taken_for_another(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        list_files(tmp_path / "nothing")
    assert recognize([]) == []
    assert recognize(["own.scene_dataset_config.json", "scenes/a.scene_instance.json", "stages/a.glb"]) == []


class Server(ThreadingHTTPServer):
    """Serves one file and breaks off after ``limit`` bytes of every answer."""

    content = b""
    version = '"1"'
    limit = 10**9
    status = 200
    requests = ()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        start = 0
        if self.headers.get("Range") == f"bytes={len(server.content)}-":
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.end_headers()
            return
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and self.headers.get("If-Range") == server.version:
            start = int(wanted[1])
        server.requests += (start,)
        self.send_response(server.status if server.status != 200 else 206 if start else 200)
        body = server.content[start:]
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", server.version)
        self.end_headers()
        self.wfile.write(body[: server.limit])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield running
        running.shutdown()


def address(server):
    return f"http://127.0.0.1:{server.server_port}/data/scenes.zip"


def archive_of(**files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def test_a_download_that_breaks_off_goes_on_where_it_stopped(server, tmp_path):
    server.content = bytes(range(256)) * 4000
    server.limit = 300_000
    shares = []
    fetch(address(server), tmp_path / "file", lambda done, total: shares.append((done, total)))
    assert (tmp_path / "file").read_bytes() == server.content
    assert server.requests == (0, 300_000, 600_000, 900_000)
    assert shares[-1] == (len(server.content), len(server.content))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_killed_download_goes_on_unless_the_file_has_changed(server, tmp_path):
    server.content = b"a" * 1000
    (tmp_path / "file.part").write_bytes(b"a" * 400)
    (tmp_path / "file.tag").write_text('"1"')
    fetch(address(server), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == server.content
    server.content = b"b" * 1000
    server.version = '"2"'
    (tmp_path / "other.part").write_bytes(b"a" * 400)
    (tmp_path / "other.tag").write_text('"1"')
    fetch(address(server), tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == server.content
    assert server.requests == (400, 0)


def test_a_download_killed_after_its_last_byte_is_complete(server, tmp_path):
    server.content = b"a" * 1000
    (tmp_path / "file.part").write_bytes(server.content)
    (tmp_path / "file.tag").write_text('"1"')
    fetch(address(server), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == server.content
    assert server.requests == ()


def test_a_server_that_refuses_or_sends_nothing_is_named(server, tmp_path):
    server.status = 404
    with pytest.raises(OSError, match="the server answers 404"):
        fetch(address(server), tmp_path / "file")
    server.status = 200
    server.content = b"c" * 1000
    server.limit = 0
    with pytest.raises(OSError, match="interrupted: run the same command again"):
        fetch(address(server), tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_dataset_is_downloaded_and_unpacked(server, tmp_path):
    server.content = archive_of(**{"scenes/a.glb": b"glTF", "scenes/a.navmesh": b"x"})
    dataset = replace(dataset_named("habitat-test-scenes"), archive=address(server))
    download(dataset, tmp_path / "new" / "copy")
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert found == ["new/copy/scenes/a.glb", "new/copy/scenes/a.navmesh"]


def link():
    member = zipfile.ZipInfo("link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


def test_archives_write_only_into_their_folder(tmp_path):
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../outside", "/etc/outside", "a/../../outside", link()):
            archive.writestr(name, b"/etc/passwd")
    unpack(path, tmp_path / "out")
    assert {one.name for one in tmp_path.iterdir()} == {"bad.zip", "out"}
    assert all(not one.is_symlink() for one in (tmp_path / "out").rglob("*"))


def test_damaged_archives_and_bombs_are_refused(tmp_path):
    path = tmp_path / "bad.zip"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(ValueError, match="is damaged"):
        unpack(path, tmp_path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", bytes(range(256)))
    content = bytearray(path.read_bytes())
    start = content.index(b"a", 30) + 1
    content[start + 9 : start + 20] = bytes([255] * 11)  # after the header of the stream
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged"):
        unpack(path, tmp_path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2**25))
    with pytest.raises(ValueError, match="claims to hold"):
        unpack(path, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["bad.zip"]


def test_datasets_are_listed_and_described():
    names = [one["name"] for one in json.loads(run("data", "--json").stdout)]
    assert {"hm3d", "mp3d", "gibson", "hssd", "replica-cad", "molmospaces"} <= set(names)
    assert "hm3d" in run("data").stdout
    text = run("data", "hm3d").stdout
    assert "https://matterport.com/habitat-matterport-3d-research-dataset" in text
    assert "{scene}.semantic.txt" in text
    assert "choose one of hm3d" in refusal("data", "nothing")


def test_a_copy_is_checked(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.glb").write_bytes(b"glTF" + struct.pack("<II", 2, 12))
    (tmp_path / "a.navmesh").write_bytes(b"x")
    text = run("data", str(tmp_path)).stdout
    assert "has the layout of gibson and 2 scenes" in text
    assert f'scenes="{tmp_path}/*.glb"' in text.replace("\n", "")
    (tmp_path / "b.glb").write_bytes(b"glTF" + struct.pack("<II", 2, 99))
    report = json.loads(run("data", str(tmp_path), "--json", expect=1).stdout)
    assert report["damaged"] == {"b.glb": "has 12 of 99 bytes"}
    assert not report["is_usable"]


def test_the_advice_for_episodes_names_a_file_that_exists_and_its_task(tmp_path):
    fill(tmp_path, ["v1/train/train.json.gz", "v1/val/val.json.gz", "v1/val/content/a.json.gz"])
    document = {"episodes": [], "category_to_task_category_id": {"chair": 0}}
    (tmp_path / "v1/val/val.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    for folder in (tmp_path, tmp_path / "v1/val"):
        text = run("data", folder).stdout.replace("\n", "")
        assert f'scenes="...", episodes="{tmp_path}/v1/val/val.json.gz", task=ObjectNav())' in text
        assert "objectnav-mp3d-v1, objectnav-hm3d-v1" in text and "pointnav" not in text
    for rows in (b"[]", b"[{}]"):  # the second is an episode without a scene
        (tmp_path / "v1/val/val.json.gz").write_bytes(gzip.compress(b'{"episodes": ' + rows + b"}"))
        assert 'v1/val/val.json.gz")' in run("data", tmp_path).stdout.replace("\n", "")
    (tmp_path / "v1/val/val.json.gz").write_bytes(b"")
    assert "NAME says where to get missing and damaged" in run("data", tmp_path, expect=1).stdout


def test_folders_of_no_known_dataset_and_datasets_behind_a_form_are_refused(tmp_path):
    assert "matches no known dataset" in refusal("data", tmp_path)
    expected = "cannot be downloaded without a form. Ask for access on the page"
    assert expected in refusal("data", "hm3d", "--out", tmp_path / "out")
