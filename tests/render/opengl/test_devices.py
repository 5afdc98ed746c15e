"""The choice of EGL's device, over tables of devices that this machine does not have."""

import ctypes
import sys

import pytest

from gym_batchnav.render.opengl import devices
from gym_batchnav.render.opengl.devices import EglDevice, choose_device, egl_devices

SOFTWARE = EglDevice(0, renderer="llvmpipe", software=True)
TABLE = [SOFTWARE, *(EglDevice(1 + k, "NVIDIA") for k in range(4))]


@pytest.mark.parametrize(
    ("table", "expected"),
    [([], 0), ([SOFTWARE], 0), ([SOFTWARE, EglDevice(1, "Mesa", "AMD Radeon RX 6800")], 1)],
)
def test_a_hardware_device_comes_before_software(table, expected):
    assert choose_device(table, {}) == expected


def test_workers_take_one_device_each_and_share_them_if_they_are_more():
    assert [choose_device(TABLE, {"LOCAL_RANK": str(rank)}) for rank in range(6)] == [1, 2, 3, 4, 1, 2]


def test_the_users_own_choice_overrides_all():
    assert choose_device(TABLE, {"GLCONTEXT_DEVICE_INDEX": "4", "LOCAL_RANK": "1"}) == 4


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
    strings = {
        devices._EGL_EXTENSIONS: b"EGL_EXT_device_drm",
        devices._EGL_DRM_DEVICE_FILE: b"/d/c1",
    }

    functions = {
        "eglQueryDeviceStringEXT": lambda handle, name: strings[name],
    }
    assert devices._describe(functions, 2, 1) == EglDevice(2, file="/d/c1")
    unknown = dict.fromkeys(functions)
    assert devices._describe(unknown, 0, 1) == EglDevice(0)
