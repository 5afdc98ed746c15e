"""Child processes: results and errors come back, lost processes are told and replaced, and none outlives its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from gym_batchnav.system import child as module
from gym_batchnav.system.child import CallAbandoned, CallFailed, Child, ChildLost, share_work

FUNCTIONS = """
import os, sys, threading, time
from pathlib import Path
from gym_batchnav.system.child import UNINTERRUPTED

def double(value):
    print("noise on stdout")
    os.write(1, b"noise on descriptor 1 without an end")
    return 2 * value

def fail(how):
    if how == "dies":
        os._exit(3)
    if how == "exits":
        sys.exit(3)
    raise ValueError("no such thing")

def pid():
    return os.getpid()

def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

def sleep(path, seconds):
    Path(path).write_text(str(os.getpid()))
    time.sleep(seconds)
    Path(path).write_text("done")

def write(path):
    with UNINTERRUPTED:
        sleep(path, 0.5)
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """A module of functions that children can import."""
    folder = tmp_path_factory.mktemp("functions")
    (folder / "functions_of_a_test.py").write_text(FUNCTIONS)
    sys.path.insert(0, str(folder))
    import functions_of_a_test

    yield functions_of_a_test
    sys.path.remove(str(folder))
    del sys.modules["functions_of_a_test"]


@pytest.fixture(scope="module")
def shared(functions):
    child = Child("the process", {})
    yield child
    child.close()


@pytest.fixture
def child(functions):
    child = Child("the process", {"OF_A_TEST": "1"})
    yield child
    child.close()


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def is_running(pid):
    """Whether a process runs; a zombie has ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_results_come_back_whatever_is_printed(shared, functions, capfd):
    assert [shared.call(functions.double, value) for value in (3, "ab")] == [6, "abab"]
    told = capfd.readouterr().err
    assert told.count("noise on stdout") == told.count("noise on descriptor 1") == 2


def test_errors_come_back_and_the_process_goes_on(shared, functions):
    pid = shared.call(functions.pid)
    for how, told in (("raises", "ValueError: no such thing"), ("exits", "SystemExit: 3")):
        with pytest.raises(CallFailed, match=told):
            shared.call(functions.fail, how)
    assert shared.call(functions.pid) == pid != os.getpid()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere niceness is that of the process")
def test_every_call_has_the_priority_that_it_is_asked_for_with(shared, functions):
    """A call of low priority does not lower that of the next one."""
    for niceness in (19, 0, 5):
        assert shared.call(functions.niceness, niceness=niceness) == niceness
        autogroup = Path(f"/proc/{shared._process.pid}/autogroup")  # absent where sessions are not grouped
        assert not autogroup.exists() or autogroup.read_text().endswith(f"nice {niceness}\n")


def test_what_is_abandoned_is_completed_and_its_answer_is_not_taken_for_the_next_one(shared, functions, tmp_path):
    pid = shared.call(functions.pid)
    began = tmp_path / "began"
    with pytest.raises(CallAbandoned):
        shared.call(functions.sleep, str(began), 0.5, abandoned=began.exists)
    assert shared.call(functions.pid) == pid and began.read_text() == "done"


def test_a_process_that_dies_is_told_and_replaced(child, functions):
    with pytest.raises(ChildLost, match=r"the process was lost: it ended before it answered \(exit 3\)") as lost:
        child.call(functions.fail, "dies")
    assert lost.value.begun and child.call(functions.double, 1) == 2
    environment = psutil.Process(child._process.pid).environ()
    assert environment["OF_A_TEST"] == "1"


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_process_that_ends_in_the_middle_is_told(child, functions, tmp_path, end):
    caught = []

    def call():
        try:
            child.call(functions.sleep, str(tmp_path / "began"), 600)
        except ChildLost as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    wait_for((tmp_path / "began").exists)
    process = child._process
    process.kill() if end == "kill" else child.close()
    thread.join()
    assert caught[0].begun and process.returncode is not None
    if end == "kill":
        assert child.call(functions.double, 1) == 2
    else:
        child.close()
        with pytest.raises(ChildLost, match="closed"):
            child.call(functions.double, 1)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_a_process_that_stands_still_is_given_up(child, functions):
    child.call(functions.pid)
    process = child._process
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(ChildLost, match=r"no answer within 0\.5 seconds"):
        child.call(functions.pid, timeout=0.5)
    assert process.returncode is not None and child.call(functions.double, 1) == 2


def test_a_child_that_is_released_starts_no_process_for_what_was_abandoned(child, functions):
    """Its last user may leave between the decision to call and the start of the process."""
    child.release()
    with pytest.raises(CallAbandoned):
        child.call(functions.pid, abandoned=lambda: True)
    assert child._process is None
    child.call(functions.pid)  # of a user who came later
    child.release()
    child.release()
    assert child._process is None


def test_a_file_is_written_to_its_end_before_the_process_ends(child, functions, tmp_path):
    path = tmp_path / "began"
    with pytest.raises(CallAbandoned):
        child.call(functions.write, str(path), abandoned=path.exists)
    child.release()
    assert path.read_text() == "done"


@pytest.mark.parametrize("executable", [None, "/no/such/program", "dies at once", "frozen"])
def test_where_no_process_can_be_started_the_error_says_so(child, functions, tmp_path, monkeypatch, executable):
    if executable == "dies at once":
        (tmp_path / "sitecustomize.py").write_text("import os\nos._exit(4)")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    elif executable == "frozen":  # it would start the whole application again
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        monkeypatch.setattr(sys, "executable", executable)
    told = {"dies at once": "exit 4", "frozen": "frozen application"}.get(str(executable), "cannot be started")
    with pytest.raises(ChildLost, match=told) as lost:
        child.call(functions.pid)
    assert not lost.value.begun


def test_an_answer_of_another_form_is_an_error(child, functions, monkeypatch):
    program = "for line in __import__('sys').stdin: print('gym_batchnav answers: {\"ok\": 1}', flush=True)"
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **how: start([sys.executable, "-c", program], **how))
    with pytest.raises(ChildLost, match="malformed"):
        child.call(functions.pid)


def test_a_new_process_is_started_now_and_then(child, functions, monkeypatch):
    monkeypatch.setattr(module, "CALLS_PER_PROCESS", 2)
    pids = [child.call(functions.pid) for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_process_ends_with_its_parent_even_during_work(functions, tmp_path):
    program = (
        "import functions_of_a_test as f; from gym_batchnav.system.child import Child;"
        f"Child('it', {{}}).call(f.sleep, {str(tmp_path / 'began')!r}, 600)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment)
    wait_for((tmp_path / "began").exists)
    pid = int((tmp_path / "began").read_text())
    parent.kill()  # without a chance to tidy up
    parent.wait()
    wait_for(lambda: not is_running(pid))


@pytest.mark.parametrize("count", [1, 3])
def test_work_is_shared_and_everything_is_done_once(count):
    done = []
    share_work(range(50), range(count), lambda worker, item: done.append((item, worker)))
    assert sorted(item for item, _ in done) == list(range(50)) and {worker for _, worker in done} <= set(range(count))
