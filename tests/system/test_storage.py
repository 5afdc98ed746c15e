"""Files appear whole or not at all, and what stands in the way is said by name."""

import os
import re
from pathlib import Path

import pytest

from gym_batchnav.system.storage import is_writable, make_folder, write_atomically


def test_a_file_is_written_and_replaced(tmp_path):
    for content in (b"one", b"two"):
        write_atomically(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("step", ["open", "replace"])
def test_a_disk_that_refuses_leaves_what_was_there_and_names_the_file(tmp_path, monkeypatch, step):
    write_atomically(tmp_path / "file", b"old")

    def refuse(path, *_):
        if step == "open":
            path.touch()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(*((Path, step) if step == "open" else (os, step)), refuse)
        with pytest.raises(OSError, match=r"^cannot write '.*file': No space left on device: remove the cause"):
            write_atomically(tmp_path / "file", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


def test_an_interruption_leaves_nothing_partial(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", b"new")
    assert not list(tmp_path.iterdir())


def test_folders_and_what_lies_nowhere_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder: name a file in it"):
        write_atomically(tmp_path, b"")
    with pytest.raises(FileNotFoundError, match=r"no folder '.*none' to write 'file' in: create it first"):
        write_atomically(tmp_path / "none" / "file", b"")
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="a file is in its place, name another one"):
        write_atomically(tmp_path / "file" / "file", b"")


def test_a_folder_that_is_there_may_hold_any_names_and_must_be_writable(tmp_path, monkeypatch):
    make_folder(tmp_path / "file")
    make_folder(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=rf"^folder '{re.escape(str(tmp_path))}' is not writable: name another"):
        make_folder(tmp_path)


def test_a_folder_that_does_not_exist_is_as_writable_as_its_nearest_parent(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append((path, mode)) or path == tmp_path)
    (tmp_path / "closed").mkdir()
    assert is_writable(tmp_path) and is_writable(tmp_path / "new" / "newer")
    assert not is_writable(tmp_path / "closed" / "new")
    assert asked == [(tmp_path, os.W_OK), (tmp_path, os.W_OK), (tmp_path / "closed", os.W_OK)]


def test_nothing_is_writable_below_a_folder_that_may_not_be_entered(tmp_path, monkeypatch):
    stat, access = os.stat, os.access
    locked = tmp_path / "locked"
    locked.mkdir()

    def refuse(path, **how):
        if locked in Path(path).parents:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(os, "access", lambda path, mode: path != locked and access(path, mode))
    assert not is_writable(locked / "cache" / "kernels")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_may_not_be_written_to_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="its folder is not writable"):
        write_atomically(tmp_path / "file", b"")
