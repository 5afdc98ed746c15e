"""Windows and macOS, simulated: what only Linux has is replaced there, or refused by name."""

import ast
import errno
import os
import re
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gym_batchnav
from gym_batchnav.collect import folder as collecting
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.workers import affordable_workers
from gym_batchnav.render.api import choose_renderer
from gym_batchnav.render.opengl import context, devices
from gym_batchnav.scene.formats.mjcf_compile import compile_mjcf
from gym_batchnav.system import child, compilation, storage
from gym_batchnav.system.limits import available_memory
from gym_batchnav.system.process import num_processors

PACKAGE = Path(gym_batchnav.__file__).parent
SOURCES = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
# Modules and functions that some systems lack, by the files that have something else for those.
PLACES = {
    "collect/folder.py": ("fcntl", "msvcrt", "os.kill"),
    "library/loader.py": ("os.setpriority", "os.PRIO_PROCESS"),
    "scene/formats/mjcf_compile.py": ("resource",),
    "system/child.py": ("os.setpriority", "os.PRIO_PROCESS", "os.nice", "os.getsid"),
    "system/limits.py": ("os.sysconf", "os.sysconf_names"),
    "system/process.py": ("os.sched_getaffinity",),
    "system/storage.py": ("os.replace",),  # Windows refuses to replace open files
}
NOWHERE = (
    *("grp", "pwd", "pty", "termios", "tty", "winreg", "posix", "os.fork", "os.killpg", "os.uname", "os.getuid"),
    *("os.geteuid", "os.chown", "os.mkfifo", "os.wait", "os.symlink", "os.rename"),
)


@pytest.fixture
def system(monkeypatch):
    """Pretend to be another system: ``system("win32")``."""
    return lambda name: monkeypatch.setattr(sys, "platform", name)


def used_in(source):
    """Names of modules that a file imports, and of attributes of ``os``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            yield f"os.{node.attr}"


def test_what_some_systems_lack_is_used_only_where_something_replaces_it():
    watched = {*NOWHERE, *(name for names in PLACES.values() for name in names)}
    mentioned = re.compile(rf"\b({'|'.join(name.rpartition('.')[2] for name in watched)})\b")
    used = {file: watched & set(used_in(source)) for file, source in SOURCES.items() if mentioned.search(source)}
    assert {file: names for file, names in used.items() if names} == {
        file: set(names) for file, names in PLACES.items()
    }


def test_signals_that_some_systems_lack_are_looked_up_by_name():
    used = {name for source in SOURCES.values() for name in re.findall(r"\bsignal\.(SIG[A-Z]+\d?)\b", source)}
    assert used <= {"SIGINT", "SIGTERM"}


def without_encoding(source):
    """Lines that read or write text in the system's own encoding, which on Windows is not UTF-8."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            texts = {"read_text": 1, "write_text": 2}.get(node.func.attr)
            named = any(keyword.arg == "encoding" for keyword in node.keywords)
            if texts is not None and not named and len(node.args) < texts:
                yield node.lineno, ast.unparse(node)


def test_texts_have_an_encoding():
    """Linux's own files are ASCII."""
    found = [
        (file, line, code)
        for file, source in SOURCES.items()
        if "_text(" in source
        for line, code in without_encoding(source)
        if not any(name in code for name in ("'/proc/", "NVIDIA_DRIVER_FILE"))
    ]
    assert found == []


class Clock:
    """A clock that sleeping moves, and a file that is open until some time."""

    def __init__(self, monkeypatch, opened_until):
        self.now = 0.0
        self._until = opened_until
        self._replace = os.replace
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)
        monkeypatch.setattr(os, "replace", self.replace)

    def sleep(self, seconds):
        self.now += seconds

    def replace(self, source, target):
        if self.now < self._until:
            raise PermissionError(errno.EACCES, "Access is denied")
        self._replace(source, target)


def test_windows_replaces_a_file_once_it_is_closed(tmp_path, monkeypatch, system):
    system("win32")
    Clock(monkeypatch, opened_until=1.0)
    (tmp_path / "file").write_bytes(b"old")
    storage.write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("name", "waits", "remedy"), [("win32", True, "close the program"), ("linux", False, "remove the cause")]
)
def test_a_file_that_stays_open_is_named(tmp_path, monkeypatch, system, name, waits, remedy):
    system(name)
    clock = Clock(monkeypatch, opened_until=1e9)
    with pytest.raises(PermissionError, match=f"cannot write '.*file': Access is denied: {remedy}"):
        storage.write_atomically(tmp_path / "file", b"new")
    assert (clock.now > 1) == waits and clock.now < 10
    assert not list(tmp_path.iterdir())


def test_a_cached_entry_that_is_being_read_on_windows_stays(tmp_path, monkeypatch, system):
    store = DiskCache(tmp_path)
    store.store("key", {"values": np.arange(3)})
    system("win32")
    Clock(monkeypatch, opened_until=1e9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.store("key", {"values": np.arange(4)})
    assert len(store.load("key")["values"]) == 3


def test_windows_never_ends_the_process_of_a_shard(tmp_path, monkeypatch, system):
    system("win32")
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("os.kill ends processes on Windows"))
    host = collecting.socket.gethostname()
    folders = [tmp_path / collecting.ASIDE / f"shard-{name}.{host}.1.0a" for name in ("new", "old")]
    for folder in folders:
        folder.mkdir(parents=True)
    os.utime(folders[1], (0, 0))
    collecting.prepare_folder(tmp_path)
    assert [folder.exists() for folder in folders] == [True, False]


def windows_locks(monkeypatch, errors):
    """Replace Windows' locks by a list of errors, after which a lock succeeds; return the calls."""
    calls = []

    def locking(number, mode, size):
        calls.append((mode, size))
        if len(calls) <= len(errors):
            raise OSError(errors[len(calls) - 1], "no lock")

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_LOCK=1, locking=locking))
    return calls


def test_a_dataset_is_locked_on_windows_however_long_that_takes_or_an_error_says_why_not(tmp_path, monkeypatch, system):
    system("win32")
    calls = windows_locks(monkeypatch, [errno.EDEADLK, errno.EACCES])
    with collecting.locked(tmp_path):
        assert calls == [(1, 1)] * 3
    windows_locks(monkeypatch, [errno.EBADF])
    with pytest.raises(OSError, match="no lock"), collecting.locked(tmp_path):
        pytest.fail("not locked")


def test_a_frozen_application_compiles_at_the_first_use(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started the application again"))
    assert compilation.compile_ahead([compilation.Workload("kernels", nullcontext)]).num_workloads == 0


def test_a_frozen_application_names_what_it_cannot_load(monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("started the application again"))
    with pytest.raises(ValueError, match="cannot be compiled by a frozen application: export the scene as GLB"):
        compile_mjcf(SimpleNamespace(xml=b"<mujoco/>", assets={}))


@pytest.mark.parametrize(("niceness", "expected"), [(19, [0, 10]), (0, [])])
def test_background_work_is_nicer_on_macos(monkeypatch, system, niceness, expected):
    system("darwin")
    asked = []
    monkeypatch.setattr(os, "nice", lambda more: asked.append(more) or 0)
    monkeypatch.setattr(os, "setpriority", lambda *_: pytest.fail("Linux only"))
    child.set_priority(niceness)
    assert asked == expected


def test_processes_start_at_a_low_priority_on_windows(monkeypatch, system):
    system("win32")
    monkeypatch.delattr(os, "nice")
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200, raising=False)
    monkeypatch.setattr(subprocess, "BELOW_NORMAL_PRIORITY_CLASS", 0x4000, raising=False)
    child.set_priority(19)
    assert child.apart() == {"creationflags": 0x4200}


def test_machines_that_do_not_tell_their_size_are_used(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError))
    assert num_processors() == 3 and affordable_workers() == 3
    assert available_memory() is None


def test_macos_draws_with_embree_and_without_a_warning(system):
    system("darwin")
    choice = choose_renderer("auto", None, has_embree=True)
    assert choice.name == "embree" and not choice.warns
    with pytest.raises(RuntimeError, match="choose renderer='embree', since macOS ends"):
        choose_renderer("opengl", None, has_embree=True)


@pytest.mark.parametrize(
    ("name", "remedy"), [("win32", "driver of your graphics card, or choose"), ("linux", "libegl1")]
)
def test_elsewhere_a_missing_opengl_has_a_remedy(system, name, remedy):
    system(name)
    assert choose_renderer("auto", None, has_embree=True).warns
    with pytest.raises(RuntimeError, match=remedy):
        choose_renderer("opengl", None, has_embree=True)


@pytest.mark.parametrize("name", ["darwin", "win32"])
def test_egl_is_not_looked_for_elsewhere(monkeypatch, system, name):
    system(name)
    tried = []

    def refuse(**keywords):
        tried.append(keywords)
        raise Exception("no context")

    monkeypatch.setattr(devices.ctypes, "CDLL", lambda *_: pytest.fail("looked for a library of Linux"))
    monkeypatch.setattr(context.moderngl, "create_standalone_context", refuse)
    assert devices.egl_devices() == ()
    with pytest.raises(RuntimeError, match="renderer='embree'"):
        context._create()
    assert tried == [{"require": 430}]
