"""The choice of EGL's device, over tables of devices that this machine does not have."""

import ctypes
import sys

import pytest

from gym_batchnav.render.opengl import devices
from gym_batchnav.render.opengl.devices import EglDevice, choose_device, egl_devices

SOFTWARE = EglDevice(0, renderer="llvmpipe", software=True)
TABLE = [SOFTWARE, *(EglDevice(1 + k, "NVIDIA") for k in range(4))]


@pytest.mark.parametrize(
    ("table", "environment", "expected"),
    [
        ([], {}, 0),
        ([SOFTWARE], {}, 0),
        ([SOFTWARE, EglDevice(1, "Mesa", "AMD Radeon RX 6800")], {}, 1),
        *((TABLE, {"LOCAL_RANK": str(rank)}, 1 + rank % 4) for rank in (0, 3, 5)),
        (TABLE, {"GLCONTEXT_DEVICE_INDEX": "4", "LOCAL_RANK": "1"}, 4),
    ],
)
def test_hardware_comes_before_software_workers_share_it_and_users_override_all(table, environment, expected):
    assert choose_device(table, environment) == expected


@pytest.mark.parametrize("name", ["LOCAL_RANK", "GLCONTEXT_DEVICE_INDEX"])
def test_a_variable_that_is_no_number_is_named(name):
    with pytest.raises(ValueError, match=f"{name}='first' must be a whole number"):
        choose_device(TABLE, {name: "first"})


@pytest.mark.opengl
@pytest.mark.skipif(sys.platform != "linux", reason="devices are listed by EGL")
def test_this_machines_devices_are_numbered_in_order():
    found = egl_devices()
    assert [device.index for device in found] == list(range(len(found)))


def test_a_machine_without_egl_lists_nothing(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert egl_devices() == ()


def test_what_a_device_does_not_offer_is_left_empty():
    """Only what its extensions name is asked for."""
    strings = {devices._EGL_EXTENSIONS: b"EGL_EXT_device_drm", devices._EGL_DRM_DEVICE_FILE: b"/d/c1"}
    functions = {"eglQueryDeviceStringEXT": lambda handle, name: strings[name]}
    assert devices._describe(functions, 2, 1) == EglDevice(2, file="/d/c1")
    assert devices._describe(dict.fromkeys(functions), 0, 1) == EglDevice(0)
