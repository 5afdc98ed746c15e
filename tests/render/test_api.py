"""The choice of a renderer and the checks that renderers share."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quads import scene_of, wall

from gym_batchnav.geometry import look_at, view_matrices
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render import api, make_renderer
from gym_batchnav.render.api import check_device, find_renderer
from gym_batchnav.render.optics import light_directions
from gym_batchnav.render.target import check_rigid


def small_library() -> SceneLibrary:
    return SceneLibrary.from_scenes([scene_of(wall(2))])


def stand_in_for_opengl(monkeypatch: pytest.MonkeyPatch, device: str | None) -> None:
    """Put an OpenGL renderer in place whose device has this name (None: no OpenGL), on a machine without Warp."""
    monkeypatch.setattr(api, "has_warp_gpu", lambda: None)
    module = SimpleNamespace(
        find_device=lambda: device, OpenGLRenderer=lambda *_: SimpleNamespace(name="opengl", device=device)
    )
    monkeypatch.setitem(sys.modules, "gym_batchnav.render.opengl", module)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (None, "embree"),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "embree"),
        ("softpipe", "embree"),
        ("Software Rasterizer", "embree"),
        ("NVIDIA A100-SXM4-80GB/PCIe/SSE2", "opengl"),
        ("NVIDIA H100 80GB HBM3/PCIe/SSE2", "embree"),
        ("NVIDIA GH200 480GB/PCIe/SSE2", "embree"),
        ("NVIDIA B200/PCIe/SSE2", "embree"),
        ("AMD Radeon RX 6800 (radeonsi, navi21)", "opengl"),
    ],
)
@pytest.mark.filterwarnings("ignore:OpenGL 4.3 was not found")
def test_auto_takes_opengl_on_devices_that_draw_and_embree_otherwise(monkeypatch, device, expected):
    stand_in_for_opengl(monkeypatch, device)
    renderer = make_renderer("auto", small_library())
    assert renderer.name == expected and renderer.device


def test_auto_takes_software_opengl_where_embree_is_missing(monkeypatch):
    stand_in_for_opengl(monkeypatch, "llvmpipe")
    monkeypatch.setattr(api, "is_embree_installed", lambda: False)
    assert make_renderer("auto", small_library()).name == "opengl"


@pytest.mark.parametrize("has_embree", [True, False])
def test_an_nvidia_gpu_that_is_not_used_is_worth_a_warning(monkeypatch, tmp_path, has_embree):
    stand_in_for_opengl(monkeypatch, "llvmpipe")
    monkeypatch.setattr(api, "is_embree_installed", lambda: has_embree)
    monkeypatch.setattr(api, "NVIDIA_DRIVER_FILE", tmp_path)  # which exists
    with pytest.warns(UserWarning, match="NVIDIA GPU of this machine is not used: pip install .*doctor explains why"):
        make_renderer("auto", small_library())


def test_opengl_by_name_takes_any_device_and_says_what_to_install_where_there_is_none(monkeypatch):
    stand_in_for_opengl(monkeypatch, "llvmpipe")
    assert make_renderer("opengl", small_library()).name == "opengl"
    stand_in_for_opengl(monkeypatch, None)
    with pytest.raises(RuntimeError, match="libegl1 libgl1-mesa-dri"):
        make_renderer("opengl", small_library())


def test_missing_moderngl_leaves_embree_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "gym_batchnav.render.opengl", None)  # importing it raises ImportError
    monkeypatch.setattr(api, "has_warp_gpu", lambda: None)
    with pytest.warns(UserWarning, match="Embree"):
        assert make_renderer("auto", small_library()).name == "embree"
    with pytest.raises(RuntimeError, match="install"):
        make_renderer("opengl", small_library())


def test_unknown_renderer_lists_the_choices():
    with pytest.raises(ValueError, match=r"'vulkan'.*'auto', 'warp', 'opengl', 'embree'"):
        make_renderer("vulkan", small_library())


@given(st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_rigid_views_pass(count, seed):
    rng = np.random.default_rng(seed)
    views = np.stack([look_at(rng.normal(size=3) * 50, rng.normal(size=3)) for _ in range(count)])
    roll = np.eye(4, dtype=np.float32)
    roll[:2, :2] = [[0, -1], [1, 0]]
    check_rigid(roll @ views)
    check_rigid(views.astype(np.float64))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (np.s_[1, 3], np.nan),
        (np.s_[0, 3], np.inf),
        (np.s_[:3, :3], 1.01 * np.eye(3)),
        (np.s_[:3, :3], np.diag([-1, 1, 1])),
        (np.s_[0, :3], [1, 0.1, 0]),  # sheared
        (np.s_[3, 2], -1),  # projective
    ],
)
def test_views_that_are_not_rigid_are_refused_by_number(place, value):
    views = view_matrices(np.zeros((5, 3), np.float32), np.linspace(0, 6, 5).astype(np.float32), 1.25)
    views[3, :3, :3] = np.eye(3)
    views[(3, *place)] = value
    with pytest.raises(ValueError, match=r"views\[3\]"):
        check_rigid(views)


@pytest.mark.parametrize(
    ("device", "renderer", "error", "message"),
    [
        ("tpu", "auto", ValueError, r"obs_device='tpu': choose one of 'cpu', 'cuda'"),
        ("cuda", "embree", ValueError, r"obs_device='cuda': renderer='embree' draws into main memory"),
        ("cuda", "opengl", ValueError, r"obs_device='cuda': renderer='opengl' draws into main memory"),
        ("cpu", "warp", RuntimeError, r"renderer='warp' needs the package warp-lang: pip install .*\[warp\]"),
        ("cuda", "auto", RuntimeError, r"obs_device='cuda' needs the package warp-lang: pip install .*\[warp\]"),
    ],
)
def test_a_device_for_observations_is_checked_by_the_environments_keyword(
    monkeypatch, device, renderer, error, message
):
    monkeypatch.setattr(api, "has_warp_gpu", lambda: None)
    with pytest.raises(error, match=message):
        check_device(device, renderer)


def test_warp_comes_first_where_it_finds_a_gpu(monkeypatch):
    monkeypatch.setattr(api, "has_warp_gpu", lambda: True)
    monkeypatch.setattr(api, "_opengl_device", lambda: pytest.fail("OpenGL need not be asked"))
    assert find_renderer("auto")[::3] == find_renderer("warp")[::3] == ("warp", True)


def test_warp_by_name_draws_on_the_processor_only_with_a_warning(monkeypatch):
    monkeypatch.setattr(api, "has_warp_gpu", lambda: False)
    assert find_renderer("warp").warns and "no NVIDIA device" in find_renderer("warp").reason
    monkeypatch.setattr(api, "has_warp_gpu", lambda: None)
    with pytest.raises(RuntimeError, match=r"renderer='warp' needs the package warp-lang: pip install .*\[warp\]"):
        find_renderer("warp")


def test_the_light_stands_between_the_camera_and_the_sky():
    level = view_matrices(np.zeros((1, 3), np.float32), np.zeros(1, np.float32), 1.25)  # looks along -z
    down = look_at(np.array([0, 5, 0]), np.zeros(3))[None]
    up = look_at(np.zeros(3), np.array([0, 5, 0]))[None]
    half = np.sqrt(0.5)
    assert np.allclose(light_directions(level), [[0, half, half]], atol=1e-6)
    assert np.allclose(light_directions(down), [[0, 1, 0]], atol=1e-6)
    assert (light_directions(up) == 0).all(), "the direction is undefined straight up"
