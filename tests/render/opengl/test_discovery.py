"""The device that OpenGL draws on, found without a software driver in the process."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gym_batchnav.render.opengl import context, discovery
from gym_batchnav.render.opengl.devices import EglDevice

AUTO = """
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import shipped_scenes
from gym_batchnav.render import make_renderer
from gym_batchnav.scene.load import load_scene
renderer = make_renderer("auto", SceneLibrary.from_scenes([load_scene(shipped_scenes()["apartment_0"])]))
mapped = open("/proc/self/maps").read()
assert renderer.name != "embree" or "libLLVM" not in mapped and "_dri.so" not in mapped, mapped
"""


@pytest.mark.skipif(sys.platform != "linux", reason="EGL lists devices on Linux")
@pytest.mark.parametrize(
    ("device", "egl", "expected"),
    [
        (EglDevice(0, software=True), None, "software rasterizer (EGL device 0: software)"),
        (EglDevice(1, "NVIDIA"), None, "made here"),
        (None, None, None),
        (None, object(), "made elsewhere"),
    ],
)
def test_only_a_listed_hardware_device_gets_a_context_in_this_process(monkeypatch, device, egl, expected):
    monkeypatch.setattr(discovery, "probe", lambda: "made here")
    monkeypatch.setattr(discovery, "try_opengl", lambda: discovery.OpenGL("made elsewhere"))
    monkeypatch.setattr(discovery, "load_egl", lambda: egl)
    monkeypatch.setattr(discovery, "device_to_draw_on", lambda: device)
    monkeypatch.delenv("DISPLAY", raising=False)
    assert discovery.find_device() == expected


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_chooses_embree_contains_no_driver_of_opengl():
    subprocess.run([sys.executable, "-c", AUTO], check=True)


def test_another_process_finds_the_package_after_the_folder_has_changed(monkeypatch, tmp_path):
    given = {}

    def run(*_, env, **__):
        given.update(env)
        raise OSError("not started")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "path", [""])
    monkeypatch.chdir(tmp_path)
    assert "not started" in discovery.try_opengl.__wrapped__().error
    assert str(Path(discovery.__file__).parents[3]) in given["PYTHONPATH"].split(os.pathsep)


@pytest.mark.opengl
def test_another_process_describes_the_device():
    tried = discovery.try_opengl()
    assert tried.device == context.shared_context().device
    assert tried.version == context.shared_context().moderngl.info["GL_VERSION"] and not tried.error


@pytest.mark.parametrize(
    ("code", "message"), [("import os; os.abort()", "ended with status -6"), ("pass", "ended with status 0")]
)
@pytest.mark.skipif(sys.platform != "linux", reason="status of a signal")
def test_a_driver_that_ends_its_process_is_an_answer(monkeypatch, code, message):
    run = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda command, **options: run([*command[:2], code], **options))
    assert message in discovery.try_opengl.__wrapped__().error


@pytest.mark.opengl
@pytest.mark.skipif(sys.platform != "linux", reason="Mesa's drivers")
def test_tritons_library_is_loaded_before_the_driver(monkeypatch):
    """Otherwise it would bind to symbols of the driver's LLVM, and the process would end."""
    order = []
    folder = SimpleNamespace(submodule_search_locations=["/site/triton"])
    monkeypatch.setattr(context.importlib.util, "find_spec", {"triton": folder}.get)
    monkeypatch.setattr(context.ctypes, "CDLL", order.append)
    monkeypatch.setattr(context, "egl_devices", tuple)
    monkeypatch.setattr(context.moderngl, "create_standalone_context", lambda **_: order.append("driver"))
    context._create()
    assert order == ["/site/triton/_C/libtriton.so", "driver"]
