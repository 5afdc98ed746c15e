"""The cache on disk: what is stored comes back, what is damaged does not, and no failure stops anybody."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import tracemalloc
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gym_batchnav.library import cache
from gym_batchnav.library.cache import DiskCache


@pytest.fixture
def store(tmp_path):
    return DiskCache(tmp_path)


def arrays():
    return {"polygons": np.arange(12, dtype=np.int32).reshape(3, 4), "heights": np.linspace(0, 1, 7, dtype=np.float32)}


def same(left, right):
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name]) for name in left
    )


def test_what_is_stored_comes_back(tmp_path):
    DiskCache(tmp_path / "deep" / "folder").store("scene/1: *?", arrays())
    again = DiskCache(tmp_path / "deep" / "folder")
    assert same(again.load("scene/1: *?"), arrays())
    assert again.load("scene/2") is None
    again.store("scene/1: *?", {"one": np.zeros(3)})
    assert same(again.load("scene/1: *?"), {"one": np.zeros(3)})
    assert len(list((tmp_path / "deep" / "folder").iterdir())) == 1


@given(
    content=st.dictionaries(
        st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=6)
        | st.sampled_from(["file", "checksum"]),
        hnp.arrays(
            st.sampled_from([np.int8, np.uint32, np.float32, np.float64, bool, "U3"]),
            hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        ),
        max_size=4,
    )
)
def test_any_arrays_come_back(tmp_path_factory, content):
    store = DiskCache(tmp_path_factory.mktemp("cache"))
    store.store("key", content)
    back = store.load("key")
    assert back is not None and back.keys() == content.keys()
    for name in content:
        assert back[name].dtype == content[name].dtype and back[name].shape == content[name].shape
        np.testing.assert_array_equal(back[name], content[name])


def test_damaged_entries_are_removed(tmp_path, store):
    store.store("key", arrays())
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for position in [*range(0, len(whole), 17), len(whole) - 1]:
        for damaged in (whole[:position], whole[:position] + bytes([whole[position] ^ 255]) + whole[position + 1 :]):
            path.write_bytes(damaged)
            assert store.load("key") is None and not path.exists()
    store.store("key", arrays())
    assert same(store.load("key"), arrays())


def forge(path, header, content=b""):
    """Write an entry of any header with a right checksum."""
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    rest = len(text).to_bytes(8, "little") + text
    rest += bytes(-(len(rest) + 32) % 64) + content
    path.write_bytes(hashlib.sha256(rest).digest() + rest)


@pytest.mark.parametrize(
    "header",
    [
        [["a", "|O", [1], 0]],
        [["a", "<f4", [10**12], 0]],
        [["a", "<f4", [10**30, 0], 0]],
        [["a", "<f4", [2**62, 2**62], 0]],
        [["a", "<f4", [4], -64]],
        [["a", "<f4", [4], 10**30]],
        [["a", "<f4", [-3, -7], 0]],
        [["a", "<U0", [10**12], 0]],
        [["a", "<U1", [1], 0]],  # Python raises SystemError for characters beyond Unicode
        [["a", "(1,f4", [1], 0]],
        [["a", "<f4", "text", 0]],
        [["a", ["<f4"], [1], None]],
        [[["a"], "<f4", [1], 0]],
        {"a": 1},
        7,
        b"[" * 10_000,
        b"\xff\xfe",
    ],
    ids=repr,
)
def test_a_forged_header_is_refused_without_much_memory(tmp_path, store, header):
    store.store("key", arrays())
    (path,) = tmp_path.iterdir()
    forge(path, [["a", "<f4", [4], 0]], bytes(64))
    assert same(store.load("key"), {"a": np.zeros(4, np.float32)})  # the forger knows the layout
    forge(path, header, b"\xff\xff\xff\x7f" * 16)
    tracemalloc.start()
    assert store.load("key") is None and not path.exists()
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_pickles_are_not_written(tmp_path, store):
    for values in (np.array(["a", None], dtype=object), np.zeros(1, [("x", np.int32)])):
        with pytest.raises(ValueError, match=r"'names' holds .* not cached"):
            store.store("key", {"names": values})
    assert not list(tmp_path.iterdir())


def test_the_least_recently_used_entries_make_room(tmp_path):
    store = DiskCache(tmp_path, max_bytes=5000)
    values = {"values": np.arange(1000, dtype=np.uint8)}
    for number in range(4):
        store.store(f"key {number}", values)
        os.utime(store._path(f"key {number}"), (number, number))
    assert store.load("key 0") is not None  # used now, so that 1 is the oldest
    store.store("key 4", values)
    assert [store.load(f"key {number}") is not None for number in range(5)] == [True, False, True, True, True]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 5000


def test_what_is_larger_than_the_cache_is_neither_kept_nor_read(tmp_path):
    DiskCache(tmp_path).store("large", {"values": np.zeros(10_000, np.uint8)})
    small = DiskCache(tmp_path, max_bytes=5000)
    small.store("small", arrays())
    assert len(list(tmp_path.iterdir())) == 1  # the large one made room
    small.store("large", {"values": np.zeros(10_000, np.uint8)})
    assert small.load("large") is None and same(small.load("small"), arrays())
    with pytest.raises(ValueError, match="max_bytes=0"):
        DiskCache(tmp_path, max_bytes=0)


def test_nothing_but_entries_is_ever_removed(tmp_path):
    (tmp_path / "thesis.tex").write_bytes(bytes(10_000))
    os.utime(tmp_path / "thesis.tex", (0, 0))
    lost = tmp_path / ".0123.entry.abcd"  # as writers that were killed leave
    current = tmp_path / ".4567.entry.abcd"
    for aside in (lost, current):
        aside.write_bytes(b"half")
    os.utime(lost, (0, 0))
    store = DiskCache(tmp_path, max_bytes=4000)
    for number in range(8):
        store.store(f"key {number}", arrays())
    assert (tmp_path / "thesis.tex").exists() and current.exists() and not lost.exists()
    assert store.load("key 7") is not None


@pytest.mark.filterwarnings("error")
def test_a_folder_that_may_only_be_read_serves(tmp_path, monkeypatch):
    DiskCache(tmp_path).store("key", arrays())
    monkeypatch.setattr("os.utime", Mock(side_effect=PermissionError(13, "Permission denied")))
    assert same(DiskCache(tmp_path).load("key"), arrays())


def test_a_new_version_forgets_the_old(tmp_path, monkeypatch):
    DiskCache(tmp_path).store("key", arrays())
    monkeypatch.setattr(cache, "_VERSION", cache._VERSION + 1)
    assert DiskCache(tmp_path).load("key") is None


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path / "mine"))
    assert DiskCache().directory == tmp_path / "mine"
    assert DiskCache(tmp_path / "given").directory == tmp_path / "given"
    assert str(DiskCache("~/mine").directory) == os.path.expanduser("~/mine")
    monkeypatch.delenv("GYM_BATCHNAV_CACHE")
    assert "gym_batchnav" in str(DiskCache().directory)


@pytest.mark.filterwarnings("error")
def test_a_folder_that_refuses_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = DiskCache(tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match=r"pass a writable folder as Scenes\(cache_dir=\), or set GYM_BATCHNAV_CACHE"):
        store.store("key", arrays())
    store.store("key", arrays())
    assert store.load("key") is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("where", ["os.replace", "pathlib.Path.open"])
def test_a_full_disk_leaves_nothing_behind(tmp_path, store, monkeypatch, where):
    def full(*arguments, **_):
        if where != "os.replace":
            with open(arguments[0], "wb") as file:
                file.write(b"as much as went in")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(where, full)
    with pytest.warns(UserWarning, match="No space left"):
        store.store("key", arrays())
    store.store("key", arrays())
    assert not list(tmp_path.iterdir()) and store.load("key") is None


WRITE_AND_READ = """
import os, sys
import numpy as np
from gym_batchnav.library.cache import DiskCache

store, wrong = DiskCache(sys.argv[1]), 0
for number in range(20):
    store.store("key", {"values": np.full(5000, os.getpid()), "number": np.array(number)})
    found = store.load("key")
    wrong += found is None or len(set(found["values"].tolist())) != 1
sys.exit(wrong)
"""


def test_processes_may_share_a_folder(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_AND_READ, str(tmp_path)]) for _ in range(2)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert len(list(tmp_path.iterdir())) == 1
