"""The files of one scene: what stays in memory, and what counts."""

import pytest

from gym_batchnav.scene.files import SceneFiles


def test_only_the_main_file_stays_in_memory_and_each_counts_once(tmp_path):
    (tmp_path / "a.gltf").write_bytes(b"main")
    (tmp_path / "a.bin").write_bytes(b"another")
    files = SceneFiles(tmp_path / "a.gltf")
    assert files.main() is files.main()
    first = files.beside("a.bin")
    assert files.beside("a.bin") == first and files.beside("a.bin") is not first
    assert files.num_bytes == len(b"main") + len(b"another") and set(files.digests) == {"a.gltf", "a.bin"}


def test_a_file_that_changes_while_a_scene_is_read_is_an_error(tmp_path):
    (tmp_path / "a.gltf").write_bytes(b"main")
    (tmp_path / "a.bin").write_bytes(b"before")
    files = SceneFiles(tmp_path / "a.gltf")
    files.beside("a.bin")
    (tmp_path / "a.bin").write_bytes(b"after")
    with pytest.raises(ValueError, match=r"a\.bin' has changed while the scene was read: load it again"):
        files.beside("a.bin")
