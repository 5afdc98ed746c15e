"""The process that fills the cache: what it makes is found, what goes wrong with it is told and costs nothing else."""

import json
import os
import sys
import threading
import warnings
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import psutil
import pytest
from rooms import box, box_room, scene_of

from gym_batchnav.library import workers as module
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.library.workers import PreparationFailed, PreparationWorker, prepare_scene
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.scene.files import SceneError
from gym_batchnav.scene.save import save_glb
from gym_batchnav.system.child import ChildLost

SETTINGS = NavMeshSettings(agent_radius=0.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A room, a wall without floor, a damaged file and something that takes its time."""
    folder = tmp_path_factory.mktemp("scenes")
    save_glb(box_room(), folder / "room.glb")
    save_glb(scene_of("wall", box((0, 0, 0), (0.01, 2, 0.01))), folder / "wall.glb")
    (folder / "damaged.glb").write_bytes(b"glTF but no more")
    return folder


@pytest.fixture(scope="module")
def preparer(tmp_path_factory) -> NavigationPreparer:
    return NavigationPreparer(SETTINGS, num_episodes=20, cache=DiskCache(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def worker(preparer):
    worker = PreparationWorker(preparer)
    yield worker
    worker.child.close()


def source_of(path: Path):
    (source,) = scene_sources(path)
    return source


def recipe(path: Path):
    return source_of(path).recipe


def test_what_the_worker_made_is_found_in_the_cache(worker, preparer, folder, monkeypatch):
    worker.prepare(recipe(folder / "room.glb"))
    monkeypatch.setattr("gym_batchnav.library.sources.load_scene", lambda *_, **__: pytest.fail("parsed"))
    monkeypatch.setattr(NavMesh, "build", lambda *_, **__: pytest.fail("built"))
    monkeypatch.setattr(preparer.cache, "store", lambda *_: pytest.fail("stored"))
    (source,) = scene_sources(folder / "room.glb", preparer.cache)
    navigation = preparer(source.load())
    assert navigation.navmesh.settings == SETTINGS and len(navigation.episode_set) == 20


def test_a_refused_scene_is_told_and_the_next_is_prepared(worker, folder):
    process = worker.child._process
    with pytest.raises(ValueError, match=r"scene 'damaged': it is cut short"):
        worker.prepare(recipe(folder / "damaged.glb"))
    with pytest.raises(ValueError, match="'wall'"):
        worker.prepare(recipe(folder / "wall.glb"))
    with pytest.raises(ValueError, match="not a recipe"):
        worker.prepare({"kind": "wish"})
    with pytest.raises(ValueError, match=r"gone\.glb"):
        worker.prepare({**recipe(folder / "room.glb"), "path": str(folder / "gone.glb")})
    worker.prepare(recipe(folder / "room.glb"))
    assert worker.child._process is process or process is None


def test_warnings_of_other_threads_are_shown_meanwhile(worker, folder, monkeypatch):
    def prepare(request, disk):
        other = threading.Thread(target=warnings.warn, args=("from elsewhere",))
        other.start()
        other.join()
        warnings.warn("from here", stacklevel=1)
        return box_room()

    monkeypatch.setattr("gym_batchnav.library.workers._prepare", prepare)
    with pytest.warns(UserWarning, match="from elsewhere") as caught:
        assert worker.prepare_here(recipe(folder / "room.glb")) == ("from here",)
    assert len(caught) == 1


def test_the_child_has_no_children_and_one_thread_of_kernels(worker, folder):
    worker.prepare(recipe(folder / "room.glb"))
    child = psutil.Process(worker.child._process.pid)
    assert child.environ()["NUMBA_NUM_THREADS"] == "1" and child.children() == []


@pytest.mark.parametrize(
    ("lost", "retries", "told"),
    [
        ([True, False, False], 2, r"scene 'room': 3 processes .*the process was lost.* make it smaller"),
        ([False, False, False], 2, "^the process was lost$"),
        ([True, True], 2, None),  # somebody has killed it twice
    ],
)
def test_a_lost_process_is_replaced_twice(preparer, folder, monkeypatch, lost, retries, told):
    """Only a scene that no process has begun may be prepared by this process afterwards."""
    worker = PreparationWorker(preparer)
    prepare = Mock(side_effect=[*(ChildLost("the process was lost", begun) for begun in lost), ()])
    monkeypatch.setattr(worker, "prepare", prepare)
    monkeypatch.setattr(worker, "is_prepared", lambda _: False)
    kind = ChildLost if not any(lost) else SceneError
    with (
        pytest.warns(UserWarning, match="'room' is retried") as caught,
        pytest.raises(kind, match=told) if told else nullcontext(),
    ):
        prepare_scene(worker, source_of(folder / "room.glb"))
    assert len(caught) == retries and prepare.call_count == 3


def test_a_scene_that_takes_too_long_is_given_up(preparer, folder):
    worker = PreparationWorker(preparer, timeout=1e-3)
    with pytest.raises(ChildLost, match=r"no answer within 0\.001 seconds"):
        worker.prepare(recipe(folder / "room.glb"))
    worker.child.close()


def test_what_is_marked_as_prepared_is_there_and_of_these_versions(folder, tmp_path, monkeypatch):
    worker = PreparationWorker(NavigationPreparer(SETTINGS, num_episodes=5, cache=DiskCache(tmp_path / "cache")))
    wanted = recipe(folder / "room.glb")
    worker.prepare_here(wanted)
    entries = set((tmp_path / "cache").iterdir())
    assert worker.is_prepared(wanted) and len(entries) == 6  # scene, navmesh, geodesics, visible floor, episodes, mark
    with monkeypatch.context() as patch:
        patch.setattr(module, "makers_digest", lambda _: "another")
        assert not worker.is_prepared(wanted)
    for entry in entries:
        content = entry.read_bytes()
        entry.unlink()
        assert not worker.is_prepared(wanted)
        entry.write_bytes(content)
    assert worker.is_prepared(wanted)
    config = folder / "room.stage_config.json"
    config.write_text('{"up": [0, 1, 0], "front": [0, 0, -1], "units_to_meters": 1.5}')
    assert not worker.is_prepared(wanted)
    worker.prepare_here(wanted)
    assert worker.is_prepared(wanted)
    config.unlink()
    assert not worker.is_prepared(wanted)


def test_what_may_pass_is_no_refusal(worker, folder, monkeypatch):
    monkeypatch.setattr(module, "_prepare", Mock(side_effect=OSError(116, "Stale file handle")))
    with pytest.raises(PreparationFailed, match=r"'room': OSError: .*Stale file handle"):
        worker.prepare_here(recipe(folder / "room.glb"))


def test_a_worker_needs_a_cache_and_some_time(preparer):
    with pytest.raises(ValueError, match="cache"):
        PreparationWorker(NavigationPreparer())
    for timeout in (0, float("nan")):
        with pytest.raises(ValueError, match="positive"):
            PreparationWorker(preparer, timeout)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_not_utf8_is_prepared(worker, preparer, tmp_path, monkeypatch):
    path = tmp_path / os.fsdecode(b"r\xe4um.glb")
    save_glb(box_room(), path)
    worker.prepare(recipe(path))
    assert worker.is_prepared(recipe(path))
    monkeypatch.setattr(preparer.cache, "store", lambda *_: pytest.fail("made anew"))
    (source,) = scene_sources(path, preparer.cache)
    assert len(preparer(source.load()).episode_set) == 20
    path.write_bytes(b"glTF but no more")
    with pytest.raises(ValueError, match="um': it is cut short"):
        worker.prepare(recipe(path))


def test_a_cache_that_refuses_costs_one_warning(folder, tmp_path):
    (tmp_path / "file").write_text("in the way")
    worker = PreparationWorker(NavigationPreparer(num_episodes=5, cache=DiskCache(tmp_path / "file" / "cache")))
    with pytest.warns(UserWarning, match="GYM_BATCHNAV_CACHE") as caught:
        for _ in range(2):
            worker.prepare_here(recipe(folder / "room.glb"))
    assert len(caught) == 1


def test_episodes_of_a_file_are_heeded(folder, tmp_path, preparer):
    (tmp_path / "episodes.json").write_text(json.dumps({"episodes": [{"scene_id": "castle.glb"}]}))
    worker = PreparationWorker(NavigationPreparer(SETTINGS, tmp_path / "episodes.json", cache=preparer.cache))
    with pytest.raises(ValueError, match=r"episodes\.json"):
        worker.prepare_here(recipe(folder / "room.glb"))


def test_few_scenes_that_are_waited_for_need_no_process(folder, tmp_path, monkeypatch):
    worker = PreparationWorker(NavigationPreparer(SETTINGS, num_episodes=np.int64(5), cache=DiskCache(tmp_path)))
    room, damaged, wall = (source_of(folder / f"{name}.glb") for name in ("room", "damaged", "wall"))
    good, bad = worker.prepare_ahead([room, damaged])
    assert good.error is None and worker.is_prepared(room.recipe)
    assert "scene 'damaged': it is cut short" in str(bad.error) and not worker.is_prepared(damaged.recipe)
    assert worker.child._process is None
    asked = []
    monkeypatch.setattr(worker, "prepare", lambda recipe, *_: asked.append(recipe) or ())
    worker.prepare_ahead([wall], 0, lambda: False)  # nobody waits
    assert asked == [wall.recipe]


def test_shipped_apartments_that_are_waited_for_are_not_prepared(tmp_path, monkeypatch):
    prepared = []
    monkeypatch.setattr(module, "_prepare_in", lambda _, sources, *__: (prepared.extend(sources) or [None] * 8, None))
    apartments = scene_sources("apartments")
    cache = DiskCache(tmp_path)
    PreparationWorker(NavigationPreparer(cache=cache)).prepare_ahead(apartments)
    assert not prepared
    for preparer in (NavigationPreparer(SETTINGS, cache=cache), NavigationPreparer(seed=1, cache=cache)):
        PreparationWorker(preparer).prepare_ahead(apartments)
        assert [source.name for source in prepared] == [source.name for source in apartments]
        prepared.clear()
