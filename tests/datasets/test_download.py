"""Downloads, from a server of the test's own that breaks off, resumes, changes its file and refuses."""

import io
import re
import stat
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gym_batchnav.datasets.catalogue import dataset_named
from gym_batchnav.datasets.download import download, fetch, unpack


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
        threading.Thread(target=running.serve_forever, daemon=True).start()
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


def test_datasets_behind_a_form_tell_where_it_is(tmp_path):
    with pytest.raises(ValueError, match=r"'hm3d' cannot be downloaded without a form\. Ask for access on the page"):
        download(dataset_named("hm3d"), tmp_path)


def link():
    member = zipfile.ZipInfo("link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside", "c:outside", link()])
def test_archives_that_leave_their_folder_are_refused(tmp_path, name):
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good", b"1")
        archive.writestr(name, b"/etc/passwd")
    with pytest.raises(ValueError, match="not inside it"):
        unpack(path, tmp_path / "out")
    assert not (tmp_path / "out" / "good").exists()


def test_damaged_archives_and_bombs_are_refused(tmp_path):
    path = tmp_path / "bad.zip"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(ValueError, match="is damaged"):
        unpack(path, tmp_path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2**25))
    with pytest.raises(ValueError, match="claims to hold"):
        unpack(path, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["bad.zip"]
