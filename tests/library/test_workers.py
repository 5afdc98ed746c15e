"""The process that fills the cache: what it makes is found, what goes wrong with it is told and costs nothing else."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import psutil
import pytest
from rooms import box, box_room, scene_of

from gym_batchnav.library import workers as module
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import recipe_from, scene_sources
from gym_batchnav.library.workers import PreparationFailed, PreparationPool, PreparationWorker, prepare_scene
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.scene.save import save_glb
from gym_batchnav.system.child import CallAbandoned, ChildLost

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
    worker.close()


def recipe(path: Path):
    (source,) = scene_sources(path)
    return source.recipe


def test_what_the_worker_made_is_found_in_the_cache(worker, preparer, folder, monkeypatch):
    worker.prepare(recipe(folder / "room.glb"))
    monkeypatch.setattr("gym_batchnav.library.sources.load_scene", lambda *_, **__: pytest.fail("parsed"))
    monkeypatch.setattr(NavMesh, "build", lambda *_, **__: pytest.fail("built"))
    monkeypatch.setattr(preparer.cache, "store", lambda *_: pytest.fail("stored"))
    (source,) = scene_sources(folder / "room.glb", preparer.cache)
    navigation = preparer(source.load())
    assert navigation.navmesh.settings == SETTINGS and len(navigation.episode_set) == 20


def test_a_refused_scene_is_told_and_the_next_is_prepared(worker, folder, tmp_path):
    process = worker.child._process
    with pytest.raises(ValueError, match=r"scene 'damaged': it is cut short"):
        worker.prepare(recipe(folder / "damaged.glb"))
    with pytest.raises(ValueError, match="'wall'"):
        worker.prepare(recipe(folder / "wall.glb"))
    with pytest.raises(ValueError, match="not a recipe"):
        worker.prepare({"kind": "wish"})
    save_glb(box_room(), tmp_path / "gone.glb")
    lost = recipe(tmp_path / "gone.glb")
    (tmp_path / "gone.glb").unlink()
    with pytest.raises(ValueError, match=r"gone\.glb"):
        worker.prepare(lost)
    worker.prepare(recipe(folder / "room.glb"))
    assert worker.child._process is process or process is None


def test_warnings_are_passed_on(worker, tmp_path):
    path = tmp_path / "tall.obj"
    path.write_text("o floor\nv 0 0 0\nv 6000 0 0\nv 6000 0 6000\nv 0 0 6000\nv 0 2500 0\nf 4 3 2 1\nf 1 2 5\n")
    assert any("millimetres" in sentence for sentence in worker.prepare(recipe(path)))


def test_warnings_of_other_threads_are_shown_meanwhile(worker, folder, monkeypatch):
    def prepare(request, disk):
        other = threading.Thread(target=warnings.warn, args=("from elsewhere",))
        other.start()
        other.join()
        warnings.warn("from here", stacklevel=1)

    monkeypatch.setattr("gym_batchnav.library.workers._prepare", prepare)
    with pytest.warns(UserWarning, match="from elsewhere") as caught:
        assert worker.prepare_here(recipe(folder / "room.glb")) == ("from here",)
    assert len(caught) == 1


def test_the_child_has_no_children_and_one_thread_of_kernels(worker, folder):
    worker.prepare(recipe(folder / "room.glb"))
    child = psutil.Process(worker.child._process.pid)
    assert child.environ()["NUMBA_NUM_THREADS"] == "1" and child.children() == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no niceness of its own")
def test_every_scene_has_the_priority_that_it_is_asked_for_with(odd, tmp_path):
    """A request of low priority does not lower that of the next one."""
    for niceness in (19, 0, 5):
        odd.prepare(recipe(tmp_path / "room.glb"), niceness)
        assert int((tmp_path / "room.glb.niceness").read_text()) == niceness
        autogroup = Path(f"/proc/{odd.child._process.pid}/autogroup")  # absent where sessions are not grouped
        assert not autogroup.exists() or autogroup.read_text().endswith(f"nice {niceness}\n")


def test_a_preparer_without_cache_is_refused():
    with pytest.raises(ValueError, match="cache"):
        PreparationWorker(NavigationPreparer())


# A child that takes its time over the file that it is asked for: sitecustomize runs before everything else in it.
SLOW = """
import sys
if "gym_batchnav.system.child" in sys.orig_argv[-1]:
    print("noise at the start without an end", end="", flush=True)
    import gym_batchnav.library.prepare as prepare
    original = prepare.NavigationPreparer.__call__
    def slow(self, scene):
        import os, time
        print("noise on stdout"); os.write(1, b"noise on descriptor 1\\n")
        if scene.name == "room" and sys.platform == "linux":
            with open(scene.metadata["path"] + ".niceness", "w") as file:
                file.write(str(os.getpriority(os.PRIO_PROCESS, __import__("threading").get_native_id())))
        if scene.name == "slow":
            open(scene.metadata["path"] + ".begun", "w").close()
            time.sleep(3600)
        if scene.name == "nap":
            time.sleep(2)
        if scene.name == "stale":
            raise OSError(116, "Stale file handle")
        if scene.name == "crash":
            os._exit(3)
        return original(self, scene)
    prepare.NavigationPreparer.__call__ = slow
"""


@pytest.fixture
def odd(tmp_path, monkeypatch, preparer):
    """A worker whose child prints what it should not, sleeps over "slow" and dies of "crash"."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SLOW)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    for name in ("slow", "crash", "room", "nap", "stale"):
        save_glb(box_room(), tmp_path / f"{name}.glb")
    worker = PreparationWorker(preparer)
    yield worker
    worker.close()


def wait_for(condition, seconds=300.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_noise_on_stdout_does_no_harm(odd, tmp_path, capfd):
    for _ in range(2):
        odd.prepare(recipe(tmp_path / "room.glb"))
    told = capfd.readouterr().err
    assert told.count("noise on stdout") == told.count("noise on descriptor 1") == 2


def test_a_child_that_dies_is_told_and_replaced(odd, tmp_path):
    with pytest.raises(ChildLost, match="exit 3"):
        odd.prepare(recipe(tmp_path / "crash.glb"))
    odd.prepare(recipe(tmp_path / "room.glb"))


def source_of(path: Path):
    (source,) = scene_sources(path)
    return source


def test_a_scene_that_kills_its_process_each_time_is_refused_by_name(odd, tmp_path):
    with (
        pytest.warns(UserWarning, match="'crash' is retried") as caught,
        pytest.raises(ValueError, match=r"scene 'crash': 3 processes .*exit 3.* make it smaller"),
    ):
        prepare_scene(odd, source_of(tmp_path / "crash.glb"))
    assert not any("by the process that steps" in str(one.message) for one in caught)
    prepare_scene(odd, source_of(tmp_path / "room.glb"))


@pytest.mark.slow
def test_a_scene_that_hangs_its_process_each_time_is_refused_by_name(odd, tmp_path):
    odd.prepare(recipe(tmp_path / "room.glb"))  # so that kernels are compiled
    odd.timeout = 3.0
    with (
        pytest.warns(UserWarning, match="'slow' is retried"),
        pytest.raises(ValueError, match=r"scene 'slow': .*no answer within 3 seconds"),
    ):
        prepare_scene(odd, source_of(tmp_path / "slow.glb"))
    assert (tmp_path / "slow.glb.begun").exists()


def test_a_process_that_somebody_kills_costs_no_scene(preparer, folder, tmp_path, monkeypatch):
    worker = PreparationWorker(preparer)
    prepare = PreparationWorker.prepare
    lost = [ChildLost("it was lost", begun=True)] * 2

    def killed(self, wanted, *terms):
        if lost:
            raise lost.pop()
        return prepare(self, wanted, *terms)

    monkeypatch.setattr(PreparationWorker, "prepare", killed)
    monkeypatch.setattr(worker, "is_prepared", lambda _: False)
    with pytest.warns(UserWarning, match="'room' is retried"):
        prepare_scene(worker, source_of(folder / "room.glb"))
    assert not lost
    worker.close()


@pytest.mark.parametrize("executable", [None, "/no/such/program", "dies at once"])
def test_where_no_process_can_be_started_the_error_says_so(preparer, folder, tmp_path, monkeypatch, executable):
    if executable == "dies at once":
        (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(4)")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    else:
        monkeypatch.setattr(sys, "executable", executable)
    worker = PreparationWorker(preparer)
    monkeypatch.setattr(worker, "is_prepared", lambda _: False)
    with (
        pytest.warns(UserWarning, match="'room' is retried"),
        pytest.raises(ChildLost, match="started" if executable != "dies at once" else "exit 4"),
    ):
        prepare_scene(worker, source_of(folder / "room.glb"))
    worker.close()


def test_what_is_marked_as_prepared_is_there_and_of_these_versions(folder, tmp_path, monkeypatch):
    worker = PreparationWorker(NavigationPreparer(SETTINGS, num_episodes=5, cache=DiskCache(tmp_path / "cache")))
    wanted = recipe(folder / "room.glb")
    worker.prepare(wanted)
    entries = set((tmp_path / "cache").iterdir())
    assert worker.is_prepared(wanted) and len(entries) == 6  # scene, navmesh, geodesics, visible floor, episodes, mark
    with monkeypatch.context() as patch:
        patch.setattr(module, "makers_digest", lambda: "another")
        assert not worker.is_prepared(wanted)
    for entry in entries:
        content = entry.read_bytes()
        entry.unlink()
        assert not worker.is_prepared(wanted)
        entry.write_bytes(content)
    assert worker.is_prepared(wanted)
    worker.close()


@pytest.mark.slow
def test_a_scene_that_nobody_wants_any_more_is_completed_for_the_cache(odd, tmp_path):
    odd.prepare(recipe(tmp_path / "room.glb"))
    process = odd.child._process
    wanted = time.monotonic() + 0.5
    with pytest.raises(CallAbandoned):
        odd.prepare(recipe(tmp_path / "nap.glb"), 19, lambda: time.monotonic() > wanted)
    assert not odd.is_prepared(recipe(tmp_path / "nap.glb"))
    odd.prepare(recipe(tmp_path / "room.glb"))  # its answer is not taken for that of the other scene
    assert odd.child._process is process
    disk = DiskCache(odd._disk.directory)
    (source,) = scene_sources(tmp_path / "nap.glb", disk)
    assert disk.load(recipe_from(source.recipe).key()) is not None


def test_a_worker_that_is_released_starts_no_process_for_what_was_abandoned(odd, tmp_path):
    """The last user may leave between a loader's decision to prepare a scene and the start of the process."""
    left = threading.Event()
    with pytest.raises(CallAbandoned):
        left.set()
        odd.release()
        odd.prepare(recipe(tmp_path / "room.glb"), 19, left.is_set)
    assert odd.child._process is None
    odd.prepare(recipe(tmp_path / "room.glb"))  # of a user who joined later
    odd.release()
    odd.release()
    assert odd.child._process is None


def test_what_may_pass_is_no_refusal(odd, tmp_path):
    with pytest.raises(PreparationFailed, match=r"'stale': OSError: .*Stale file handle"):
        odd.prepare(recipe(tmp_path / "stale.glb"))


def test_a_frozen_application_is_not_started_again(preparer, folder, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    worker = PreparationWorker(preparer)
    with pytest.raises(ChildLost, match="frozen application"):
        worker.prepare(recipe(folder / "room.glb"))


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_child_killed_in_the_middle_is_told(odd, tmp_path, end):
    caught: list[BaseException] = []

    def prepare() -> None:
        try:
            odd.prepare(recipe(tmp_path / "slow.glb"))
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=prepare)
    thread.start()
    wait_for((tmp_path / "slow.glb.begun").exists)
    pid = odd.child._process.pid
    if end == "kill":
        odd.child._process.kill()
    else:
        odd.close()
    thread.join()
    assert isinstance(caught[0], ChildLost)
    wait_for(lambda: not psutil.pid_exists(pid))
    if end == "kill":
        odd.prepare(recipe(tmp_path / "room.glb"))
    else:
        odd.close()
        with pytest.raises(ChildLost, match="closed"):
            odd.prepare(recipe(tmp_path / "room.glb"))


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
@pytest.mark.slow
def test_a_child_that_stands_still_is_given_up(odd, tmp_path):
    odd.prepare(recipe(tmp_path / "room.glb"))
    child = odd.child._process
    odd.timeout = 0.5
    child.send_signal(signal.SIGSTOP)
    with pytest.raises(ChildLost, match=r"no answer within 0\.5 seconds"):
        odd.prepare(recipe(tmp_path / "room.glb"))
    assert child.returncode is not None and not psutil.pid_exists(child.pid)
    odd.timeout = 60
    odd.prepare(recipe(tmp_path / "room.glb"))


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_is_some_time(preparer, timeout):
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


def test_an_answer_of_another_form_is_a_broken_protocol(preparer, monkeypatch):
    program = "import sys\nfor line in sys.stdin: print('gym_batchnav answers: {\"ok\": 1}', flush=True)"
    start = subprocess.Popen

    def fake(arguments, **keywords):
        return start([sys.executable, "-c", program], **keywords)

    monkeypatch.setattr(subprocess, "Popen", fake)
    worker = PreparationWorker(preparer)
    with pytest.raises(ChildLost, match="malformed"):
        worker.prepare({})
    worker.close()


PARENT = """
import json, sys, threading
from pathlib import Path
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.workers import PreparationWorker

worker = PreparationWorker(NavigationPreparer(cache=DiskCache(sys.argv[1])))
threading.Thread(target=worker.prepare, args=(json.loads(sys.argv[2]),), daemon=True).start()
while worker.child._process is None:
    pass
print(worker.child._process.pid, flush=True)
sys.stdin.readline()
"""


def test_the_child_ends_with_its_parent(odd, tmp_path):
    request = json.dumps(dict(recipe(tmp_path / "slow.glb")))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "cache"), request],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    child = psutil.Process(int(parent.stdout.readline()))
    wait_for((tmp_path / "slow.glb.begun").exists)
    assert is_alive(child)
    parent.kill()  # without a chance to tidy up
    parent.communicate()
    wait_for(lambda: not is_alive(child))  # its work would take an hour


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; a zombie has ended, and its number may be another's."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_cache_that_refuses_costs_one_warning(folder, tmp_path):
    (tmp_path / "file").write_text("in the way")
    worker = PreparationWorker(NavigationPreparer(num_episodes=5, cache=DiskCache(tmp_path / "file" / "cache")))
    with pytest.warns(UserWarning, match="GYM_BATCHNAV_CACHE") as caught:
        for _ in range(2):
            worker.prepare(recipe(folder / "room.glb"))
    worker.close()
    assert [str(one.message) for one in caught] == [str(caught[0].message)]


def test_episodes_of_a_file_are_heeded(folder, tmp_path, preparer):
    (tmp_path / "episodes.json").write_text(json.dumps({"episodes": [{"scene_id": "castle.glb"}]}))
    worker = PreparationWorker(NavigationPreparer(SETTINGS, tmp_path / "episodes.json", cache=preparer.cache))
    with pytest.raises(ValueError, match=r"episodes\.json"):
        worker.prepare(recipe(folder / "room.glb"))
    worker.close()


def test_few_scenes_that_are_waited_for_need_no_process(folder, tmp_path):
    pool = PreparationPool(NavigationPreparer(SETTINGS, num_episodes=5, cache=DiskCache(tmp_path)))
    room = source_of(folder / "room.glb")
    damaged = source_of(folder / "damaged.glb")
    good, bad = pool.prepare_ahead([room, damaged])
    assert good.error is None and pool.worker.is_prepared(room.recipe)
    assert "scene 'damaged': it is cut short" in str(bad.error) and not pool.worker.is_prepared(damaged.recipe)
    assert pool.worker.child._process is None
    pool.prepare_ahead([source_of(folder / "wall.glb")], 0, lambda: False)  # nobody waits
    assert pool.worker.child._process is not None
    pool.release()
