"""The choice of EGL's device, over tables of devices that this machine does not have."""

import ctypes
import sys
from types import SimpleNamespace

import pytest

from gym_batchnav.render.opengl import cuda, devices
from gym_batchnav.render.opengl.devices import (
    CudaDevice,
    EglDevice,
    choose_device,
    cuda_devices,
    device_mismatch,
    egl_devices,
    matching_device,
    torch_device,
    uuid_text,
)

IDS = [uuid_text(bytes([k + 1] * 16)) for k in range(4)]
CUDA = [CudaDevice(k, "NVIDIA H100 80GB HBM3", IDS[k]) for k in range(4)]
SOFTWARE = EglDevice(0, renderer="llvmpipe", software=True)
# EGL's order is another than CUDA's, with a software device first.
NVIDIA = [EglDevice(1 + k, "NVIDIA", uuid=IDS[(k + 1) % 4], cuda_index=(k + 1) % 4) for k in range(4)]
TABLE = [SOFTWARE, *NVIDIA]
UNASKED = {"cuda_devices": lambda: pytest.fail("CUDA need not be asked")}


@pytest.mark.parametrize("current", range(4))
def test_torchs_current_device_is_found_by_its_uuid(current):
    chosen = choose_device(TABLE, lambda: CUDA, current, {})
    assert TABLE[chosen].uuid == CUDA[current].uuid


@pytest.mark.parametrize("rank", range(4))
def test_workers_take_the_devices_in_cudas_order(rank):
    chosen = choose_device(TABLE, lambda: CUDA, None, {"LOCAL_RANK": str(rank)})
    assert TABLE[chosen].uuid == CUDA[rank].uuid


def test_what_the_program_has_chosen_comes_before_the_rank():
    assert TABLE[choose_device(TABLE, lambda: CUDA, 2, {"LOCAL_RANK": "1"})].uuid == CUDA[2].uuid


def test_more_workers_than_devices_share_them():
    visible = CUDA[:2]
    chosen = [choose_device(TABLE, lambda: visible, None, {"LOCAL_RANK": str(rank)}) for rank in range(4)]
    assert [TABLE[index].uuid for index in chosen] == [IDS[0], IDS[1], IDS[0], IDS[1]]


def test_workers_share_devices_whose_indices_have_gaps():
    listed = [CUDA[0], CUDA[2], CUDA[3]]  # device 1 could not be queried
    chosen = [choose_device(TABLE, lambda: listed, None, {"LOCAL_RANK": str(rank)}) for rank in range(4)]
    assert [TABLE[index].uuid for index in chosen] == [IDS[0], IDS[2], IDS[3], IDS[0]]


def test_a_current_device_that_cuda_does_not_list_leaves_the_first():
    assert choose_device(TABLE, lambda: CUDA[:2], 3, {}) == NVIDIA[0].index


def test_two_workers_draw_on_the_only_device_without_asking_cuda():
    for rank in "01":
        assert choose_device([SOFTWARE, NVIDIA[0]], **UNASKED, environment={"LOCAL_RANK": rank}) == NVIDIA[0].index


def test_cuda_visible_devices_renumbers_cuda_but_not_egl():
    """A worker that sees only GPU 3 calls it CUDA device 0."""
    only = [CudaDevice(0, "NVIDIA H100 80GB HBM3", IDS[3])]
    assert TABLE[choose_device(TABLE, lambda: only, None, {"LOCAL_RANK": "0"})].uuid == IDS[3]


def test_without_uuids_cudas_numbers_decide():
    table = [SOFTWARE, *(EglDevice(1 + k, "NVIDIA", cuda_index=3 - k) for k in range(4))]
    assert choose_device(table, lambda: CUDA, 1, {}) == 3
    ambiguous = [EglDevice(k, "NVIDIA", cuda_index=0) for k in range(2)]  # seen with drivers of 2017
    assert matching_device(ambiguous, CUDA[0]) is None


def test_a_device_with_another_uuid_does_not_match_by_number():
    assert matching_device([EglDevice(0, uuid=IDS[3], cuda_index=0)], CUDA[0]) is None


@pytest.mark.parametrize(
    ("table", "expected"),
    [([], 0), ([SOFTWARE], 0), ([SOFTWARE, EglDevice(1, "Mesa", "AMD Radeon RX 6800")], 1)],
)
def test_a_hardware_device_comes_before_software(table, expected):
    assert choose_device(table, **UNASKED, environment={}) == expected


def test_several_devices_without_cuda_leave_the_first():
    table = [SOFTWARE, EglDevice(1, "Mesa"), EglDevice(2, "Mesa")]
    assert choose_device(table, list, None, {"LOCAL_RANK": "1"}) == 1


def test_the_users_own_choice_overrides_all():
    assert choose_device(TABLE, **UNASKED, current=2, environment={"GLCONTEXT_DEVICE_INDEX": "4"}) == 4


@pytest.mark.parametrize("name", ["LOCAL_RANK", "GLCONTEXT_DEVICE_INDEX"])
def test_a_variable_that_is_no_number_is_named(name):
    with pytest.raises(ValueError, match=f"{name}='first' must be a whole number"):
        choose_device(TABLE, lambda: CUDA, None, {name: "first"})


def test_one_device_is_accepted_and_an_unknown_one_is_not_held_against_it():
    for drawn, read in ((IDS[1], CUDA[1]), ("", CUDA[1]), (IDS[1], None), (IDS[1], CudaDevice(1, "old", ""))):
        assert device_mismatch(drawn, "NVIDIA H100", TABLE, read) == ""


def test_another_device_is_named_with_the_call_that_prevents_it():
    reason = device_mismatch(IDS[0], "NVIDIA H100/PCIe", TABLE, CUDA[2])
    assert IDS[0] in reason and IDS[2] in reason
    assert "torch.cuda.set_device(2) before" in reason
    assert f"GLCONTEXT_DEVICE_INDEX={matching_device(TABLE, CUDA[2]).index}" in reason


def test_a_device_that_egl_does_not_list_is_named_with_those_that_it_lists():
    reason = device_mismatch(IDS[1], "NVIDIA H100/PCIe", [SOFTWARE, NVIDIA[0]], CUDA[2])
    assert "EGL lists no such device (EGL device 0: llvmpipe; EGL device 1: NVIDIA" in reason


def test_observations_for_cuda_are_refused_on_another_device(monkeypatch):
    monkeypatch.setattr(cuda, "cuda_devices", lambda: tuple(CUDA))
    monkeypatch.setattr(cuda, "egl_devices", lambda: tuple(TABLE))
    info = SimpleNamespace(info={"GL_VENDOR": "NVIDIA Corporation"})
    context = SimpleNamespace(moderngl=info, device="NVIDIA H100/PCIe", uuid=IDS[1])
    cuda.check_same_device(context, 1)
    with pytest.raises(RuntimeError, match=r"obs_device='cuda': OpenGL draws on .*set_device\(0\).*obs_device='cpu'"):
        cuda.check_same_device(context, 0, "obs_device")


def test_torch_is_asked_only_if_the_program_uses_its_device(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert torch_device() is None and "torch" not in sys.modules
    begun = SimpleNamespace(is_initialized=lambda: False, current_device=lambda: pytest.fail("begins to use a device"))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=begun))
    assert torch_device() is None
    begun.is_initialized = lambda: True
    begun.current_device = lambda: 3
    assert torch_device() == 3


@pytest.mark.opengl
@pytest.mark.skipif(sys.platform != "linux", reason="devices are listed by EGL")
def test_this_machines_devices_are_numbered_in_order():
    found = egl_devices()
    assert [device.index for device in found] == list(range(len(found)))
    assert len({device.uuid for device in found if device.uuid}) == len([device for device in found if device.uuid])


def test_a_machine_without_egl_or_cuda_lists_nothing(monkeypatch):
    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert egl_devices() == () and cuda_devices() == ()


def test_what_a_device_does_not_offer_is_left_empty():
    """Only what its extensions name is asked for."""
    strings = {
        devices._EGL_EXTENSIONS: b"EGL_EXT_device_drm EGL_NV_device_cuda",
        devices._EGL_DRM_DEVICE_FILE: b"/d/c1",
    }

    def attribute(handle, name, value):
        ctypes.cast(value, ctypes.POINTER(ctypes.c_ssize_t))[0] = 5
        return 1

    functions = {
        "eglQueryDeviceStringEXT": lambda handle, name: strings[name],
        "eglQueryDeviceAttribEXT": attribute,
        "eglQueryDeviceBinaryEXT": lambda *arguments: pytest.fail("there is no UUID to ask for"),
    }
    assert devices._describe(functions, 2, 1) == EglDevice(2, "NVIDIA", file="/d/c1", cuda_index=5)
    unknown = dict.fromkeys(functions)
    assert devices._describe(unknown, 0, 1) == EglDevice(0)
