"""The diagnosis: advice for machines that this one is not, and what it finds on this one."""

import json
import sys
from dataclasses import replace

import numba
import pytest
from commands import run

from gym_batchnav import doctor
from gym_batchnav.cli.doctor import rows
from gym_batchnav.doctor import Diagnosis, Folder, Graphics, advise, diagnose, explain_auto
from gym_batchnav.render.embree import device

MESA = "/usr/share/glvnd/egl_vendor.d/50_mesa.json"
NVIDIA = "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"
GPU = Graphics(True, (NVIDIA, MESA), "580.159.04", ("EGL device 0: NVIDIA",), "NVIDIA H100/PCIe/SSE2", "4.6.0")
SOFTWARE = Graphics(True, (MESA,), None, ("EGL device 0: software",), "llvmpipe (LLVM 15.0.6)", "4.5")
COMPLETE = Diagnosis(
    versions={"gym-batchnav": "1.0.0", "moderngl": "5.13.0", "torch": None},
    graphics=GPU, embree="packets of 16 rays", renderer="opengl", reason="a graphics device",
    threads={"numba": 16, "layer": "omp", "cores": 16, "variables": {}},
    caches={"machine code": Folder("/c/kernels", True, 0), "scenes": Folder("/c", True, 0)},
)  # fmt: skip


def test_where_nothing_is_missing_there_is_no_advice_and_without_a_gpu_none_to_use_one():
    without_gpu = replace(COMPLETE, graphics=SOFTWARE)
    for found in (COMPLETE, without_gpu, replace(without_gpu, cuda_error="torch finds no NVIDIA device")):
        assert advise(found) == ()


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"graphics": replace(SOFTWARE, loader=False, opengl=None, error="no EGL")}, "apt-get install libegl1"),
        ({"graphics": replace(SOFTWARE, opengl=None, vendors=())}, "apt-get install libegl1 libgl1-mesa-dri"),
        ({"graphics": replace(SOFTWARE, driver="580.1")}, "10_nvidia.json is missing): install NVIDIA's OpenGL"),
        ({"graphics": replace(SOFTWARE, driver="580.1", vendors=(NVIDIA,))}, "EGL does not list the NVIDIA GPU"),
        ({"graphics": replace(GPU, opengl="llvmpipe")}, "unset GLCONTEXT_DEVICE_INDEX"),
        ({"versions": {"moderngl": None}}, "pip install moderngl"),
        ({"embree": None, "embree_error": "pip install embreex"}, "Embree cannot run (pip install embreex)"),
        ({"cuda_error": "needs warp"}, "observations cannot stay on the NVIDIA GPU: needs warp"),
        ({"threads": {**COMPLETE.threads, "numba": 1}}, "Numba uses 1 thread on 16 cores"),
        ({"threads": {**COMPLETE.threads, "layer": "workqueue"}}, "install libgomp1"),
        (
            {"threads": {"layer": "workqueue", "variables": {"NUMBA_THREADING_LAYER": "workqueue"}}},
            "only one thread may render with the threading layer that NUMBA_THREADING_LAYER selects",
        ),
        (
            {"threads": {"layer": "none", "variables": {"NUMBA_THREADING_LAYER": "tbb"}}},
            "Numba cannot load the threading layer that NUMBA_THREADING_LAYER selects",
        ),
        (
            {"graphics": replace(SOFTWARE, opengl=None, error="LOCAL_RANK='first' must be a whole number")},
            "LOCAL_RANK='first' must be a whole number",
        ),
        ({"caches": {"machine code": Folder("/k", True, 0), "scenes": Folder("/c", False, 0)}}, "GYM_BATCHNAV_CACHE"),
    ],
)
def test_what_is_missing_is_named_with_a_remedy(changes, advice):
    (line,) = advise(replace(COMPLETE, **changes))
    assert advice in line


@pytest.mark.parametrize(
    ("graphics", "has_embree", "renderer", "reason"),
    [
        (replace(GPU, opengl="NVIDIA A100/PCIe/SSE2"), True, "opengl", "graphics device, NVIDIA A100"),
        (GPU, True, "embree", "NVIDIA H100/PCIe/SSE2 is slow with OpenGL"),
        (GPU, False, "opengl", "graphics device, NVIDIA H100"),
        (SOFTWARE, True, "embree", "in software, llvmpipe"),
        (SOFTWARE, False, "opengl", "Embree is not installed"),
        (Graphics(), True, "embree", "OpenGL 4.3 was not found"),
        (Graphics(), False, "", "neither OpenGL 4.3 nor Embree"),
        (replace(SOFTWARE, driver="580.1"), True, "embree", "the NVIDIA GPU of this machine is not used"),
        (replace(SOFTWARE, driver="580.1"), False, "opengl", "the NVIDIA GPU of this machine is not used"),
    ],
)
def test_the_choice_of_auto_is_explained(graphics, has_embree, renderer, reason):
    chosen, why = explain_auto(graphics, has_embree)
    assert chosen == renderer and reason in why
    assert "doctor" not in why  # the doctor does not refer to itself


def test_a_variable_that_is_not_a_number_is_reported(monkeypatch):
    from gym_batchnav.render.opengl import discovery

    message = "the environment variable LOCAL_RANK='first' must be a whole number"
    monkeypatch.setattr(discovery, "try_opengl", lambda: discovery.OpenGL(error=message))
    monkeypatch.setenv("LOCAL_RANK", "first")
    found = diagnose()
    assert found.graphics.opengl is None and found.graphics.error == message
    assert found.renderer == "embree" and found.cuda_error
    assert message in dict(rows(found))["OpenGL"]


def test_an_embree_that_cannot_be_imported_is_reported(monkeypatch):
    monkeypatch.setattr(device, "shared_embree", device.Embree)
    monkeypatch.setitem(sys.modules, "embreex.rtcore", None)
    found, error = doctor._find_embree()
    assert found is None and "embreex cannot be imported" in error and "pip install" in error


def test_a_threading_layer_that_cannot_be_loaded_is_none(monkeypatch):
    def fails():
        raise ValueError("No threading layer could be loaded.")

    assert doctor._threads()["layer"] in ("omp", "tbb", "workqueue")
    monkeypatch.setattr(numba, "get_num_threads", fails)
    assert doctor._threads()["layer"] == "none"


@pytest.mark.opengl
def test_this_machine_is_described():
    found = json.loads(run("doctor", "--json").stdout)
    assert found["renderer"] in ("opengl", "embree") and found["versions"]["numpy"]
    graphics, threads = found["graphics"], found["threads"]
    assert graphics["loader"] and graphics["vendors"] and graphics["version"] and not graphics["error"]
    assert threads["numba"] >= 1 and threads["layer"] in ("omp", "tbb", "workqueue")
    assert set(found["caches"]) == {"machine code", "scenes"}
    shown = run("doctor").stdout
    for words in ('renderer="auto"', "threads", graphics["opengl"].split()[0], found["reason"].split()[0]):
        assert words in shown
    assert len(shown.splitlines()) <= 40


def test_drivers_are_found_where_libglvnd_looks(monkeypatch, tmp_path):
    file = tmp_path / "10_nvidia.json"
    file.touch()
    monkeypatch.setenv("__EGL_VENDOR_LIBRARY_DIRS", str(tmp_path))
    assert doctor._vendor_files() == (str(file),)
    monkeypatch.setenv("__EGL_VENDOR_LIBRARY_FILENAMES", f"{file}:{tmp_path / 'absent.json'}")
    assert doctor._vendor_files() == (str(file),)


def test_the_drivers_version_is_read(monkeypatch, tmp_path):
    file = tmp_path / "version"
    monkeypatch.setattr(doctor, "NVIDIA_DRIVER_FILE", file)
    assert doctor._driver_version() is None
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n")
    assert doctor._driver_version() == "580.159.04"


def test_a_folder_is_measured_with_all_that_is_in_it(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(bytes(1000))
    assert doctor._folder(tmp_path) == Folder(str(tmp_path), True, 1000)
    assert doctor._folder(tmp_path / "absent").nbytes == 0
