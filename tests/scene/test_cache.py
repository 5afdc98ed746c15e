"""The cache on disk: what is stored comes back, what is damaged does not, and no failure stops anybody."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gym_batchnav.scene import cache
from gym_batchnav.scene.cache import DiskCache


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


@settings(max_examples=50, deadline=None)
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


def test_damaged_entries_are_removed(tmp_path):
    store = DiskCache(tmp_path)
    store.store("key", arrays())
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for position in [*range(0, len(whole), 53), len(whole) - 1]:
        for damaged in (whole[:position], whole[:position] + bytes([whole[position] ^ 255]) + whole[position + 1 :]):
            path.write_bytes(damaged)
            found = store.load("key")
            assert found is None or same(found, arrays())  # some bytes of a zip file mean nothing
            assert path.exists() == (found is not None)
    store.store("key", arrays())
    assert same(store.load("key"), arrays())


def test_an_entry_with_other_content_does_not_pass_its_checksum(tmp_path):
    store = DiskCache(tmp_path)
    store.store("key", arrays())
    (path,) = tmp_path.iterdir()
    with np.load(path) as entry:
        forged = {name: entry[name] for name in entry.files}
    forged["array:heights"] = forged["array:heights"] + 1
    np.savez(path, **forged)
    assert store.load("key") is None and not path.exists()


def test_pickles_are_neither_written_nor_read(tmp_path):
    store = DiskCache(tmp_path)
    with pytest.raises(ValueError, match="'names' holds Python objects"):
        store.store("key", {"names": np.array(["a", None], dtype=object)})
    assert not list(tmp_path.iterdir())
    store.store("key", arrays())
    (path,) = tmp_path.iterdir()
    np.savez(path, checksum=np.zeros(32, np.uint8), names=np.array([{}], dtype=object))
    assert store.load("key") is None and not path.exists()


def test_a_new_version_forgets_the_old(tmp_path, monkeypatch):
    DiskCache(tmp_path).store("key", arrays())
    monkeypatch.setattr(cache, "_VERSION", cache._VERSION + 1)
    assert DiskCache(tmp_path).load("key") is None


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path / "mine"))
    assert DiskCache().directory == tmp_path / "mine"
    assert DiskCache(tmp_path / "given").directory == tmp_path / "given"
    monkeypatch.delenv("GYM_BATCHNAV_CACHE")
    assert "gym_batchnav" in str(DiskCache().directory)


def test_a_folder_that_refuses_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = DiskCache(tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="GYM_BATCHNAV_CACHE"):
        store.store("key", arrays())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.store("key", arrays())
        assert store.load("key") is None


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.warns(UserWarning, match="No space left"):
        DiskCache(tmp_path).store("key", arrays())
    assert not list(tmp_path.iterdir())


WRITE_AND_READ = """
import os, sys
import numpy as np
from gym_batchnav.scene.cache import DiskCache

store, wrong = DiskCache(sys.argv[1]), 0
for number in range(40):
    store.store("key", {"values": np.full(5000, os.getpid()), "number": np.array(number)})
    found = store.load("key")
    wrong += found is None or len(set(found["values"].tolist())) != 1
sys.exit(wrong)
"""


def test_processes_may_share_a_folder(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITE_AND_READ, str(tmp_path)]) for _ in range(2)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert len(list(tmp_path.iterdir())) == 1
