"""Pictures that stay on an NVIDIA device: the sequence of calls, with stand-ins for torch and CUDA.

The stand-ins read OpenGL's buffers, so that everything but CUDA itself is the real thing.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from quads import checkerboard, scene_of, wall
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.opengl import OpenGLRenderer, cuda
from gym_batchnav.render.opengl import target as target_module
from gym_batchnav.render.opengl.context import shared_context

pytestmark = pytest.mark.opengl

ALL = ("depth", "rgb", "semantic")
AHEAD = np.eye(4, dtype=np.float32)[None]


class Tensor:
    """A stand-in for a torch tensor, with the methods that are used here."""

    def __init__(self, array):
        self.array = array

    def __getitem__(self, part):
        return Tensor(self.array[part])

    def view(self, first, *others):
        return Tensor(self.array.reshape(first, *others) if others else self.array.view(first))

    def new_zeros(self, shape):
        return Tensor(np.zeros(shape, self.array.dtype))

    def __setitem__(self, part, value):
        self.array[part] = value.array

    @property
    def shape(self):
        return self.array.shape


class Resource:
    """A GraphicsResource of cuda.core over an OpenGL buffer, which writes down what is done to it."""

    def __init__(self, log, buffer):
        self.log = log
        self.buffer = buffer
        self.is_mapped = False

    def map(self, *, stream):
        assert not self.is_mapped
        self.is_mapped = True
        self.log.append(("map", self.buffer.glo, stream))
        return np.frombuffer(self.buffer.read(), np.int8)

    def unmap(self, *, stream):
        assert self.is_mapped
        self.is_mapped = False
        self.log.append(("unmap", self.buffer.glo, stream))

    def close(self, *, stream):
        self.log.append(("close", self.buffer.glo, stream))


@pytest.fixture
def fake_cuda(monkeypatch):
    """Stand-ins for torch, cuda.core and an NVIDIA device; ``log`` tells what was done, ``stream`` is torch's."""
    state = SimpleNamespace(log=[], stream=0, buffers={})

    def batch_buffers(*arguments, original=cuda.batch_buffers):
        made = original(*arguments)
        state.buffers |= {buffer.glo: buffer for buffer in made.values()}
        return made

    def from_gl_buffer(name, *, flags):
        assert flags == "read_only"
        state.log.append(("register", name))
        return Resource(state.log, state.buffers[name])

    torch = SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: True,
            current_device=lambda: 0,
            current_stream=lambda: SimpleNamespace(cuda_stream=state.stream),
        ),
        from_dlpack=Tensor,
        as_tensor=lambda array, device: Tensor(array.copy()) if device == "cuda" else None,
        float32=np.float32,
        uint8=np.uint8,
        int32=np.int32,
    )
    core = SimpleNamespace(
        Device=lambda index: SimpleNamespace(set_current=lambda: None, default_stream="default"),
        Stream=SimpleNamespace(from_handle=lambda handle: f"stream {handle}"),
        GraphicsResource=SimpleNamespace(from_gl_buffer=from_gl_buffer),
    )
    state.torch = torch
    state.core = core
    monkeypatch.setattr(cuda, "batch_buffers", batch_buffers)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    monkeypatch.setitem(shared_context().moderngl.info, "GL_VENDOR", "NVIDIA Corporation")
    yield state
    assert shared_context().moderngl.error == "GL_NO_ERROR"


def library():
    return SceneLibrary.from_scenes([scene_of(wall(2.0 + k, texture=checkerboard(5 + k))) for k in range(3)])


def test_tensors_hold_what_arrays_hold(fake_cuda, monkeypatch):
    monkeypatch.setattr(target_module, "MAX_SIDE_SOFTWARE", 80)  # five views are two pages
    monkeypatch.setattr(target_module, "MAX_SIDE", 80)
    camera = Camera(35, 21)
    views = np.repeat(AHEAD, 5, axis=0)
    slots = np.array([0, 1, 2, 1, 0])
    renderer = OpenGLRenderer(library())
    tensors = renderer.target(camera, ALL, 8, device="cuda")
    arrays = renderer.target(camera, ALL, 8)
    for count in (5, 2):
        expected = arrays.render(slots[:count], views[:count])
        for name, tensor in tensors.render(slots[:count], views[:count]).items():
            assert tensor.array.dtype == expected[name].dtype
            np.testing.assert_array_equal(tensor.array, expected[name])
    renderer.close()


def test_buffers_are_mapped_while_they_are_held_and_unmapped_before_they_are_drawn(fake_cuda):
    renderer = OpenGLRenderer(library())
    drawn = renderer.target(Camera(), ("depth",), 1, device="cuda", buffers=3)
    for step in range(4):
        fake_cuda.stream = step
        drawn.begin(np.array([0]), AHEAD)
        drawn.finish()
    first, second, third = (entry[1] for entry in fake_cuda.log if entry[0] == "register")
    assert fake_cuda.log == [
        ("register", first),
        ("map", first, "default"),
        ("register", second),
        ("map", second, "stream 1"),
        ("register", third),
        ("map", third, "stream 2"),
        ("unmap", first, "stream 3"),
        ("map", first, "stream 3"),
    ]
    fake_cuda.log.clear()
    drawn.close()
    renderer.close()
    assert fake_cuda.log == [("close", name, "stream 3") for name in (first, second, third)]


def test_two_batches_may_be_under_way(fake_cuda):
    renderer = OpenGLRenderer(library())
    drawn = renderer.target(Camera(normalize_depth=False), ("depth",), 1, device="cuda")
    drawn.begin(np.array([0]), AHEAD)
    for slot in (1, 2):
        drawn.begin(np.array([slot]), AHEAD)
        assert drawn.finish()["depth"].array.mean() == pytest.approx(1.0 + slot)
    with pytest.raises(RuntimeError, match="finish"):
        drawn.begin(np.array([0]), AHEAD), drawn.begin(np.array([0]), AHEAD)
    renderer.close()


@pytest.mark.parametrize("missing", ["torch", "cuda.core"])
def test_what_is_not_installed_is_named_with_the_remedy(fake_cuda, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)  # importing it raises ImportError
    with pytest.raises(RuntimeError, match=rf"needs {missing}.*gym-batchnav\[cuda\].*cuda-core"):
        OpenGLRenderer(library()).target(Camera(), device="cuda")


def test_an_old_cuda_core_is_named(fake_cuda):
    del fake_cuda.core.GraphicsResource
    with pytest.raises(RuntimeError, match="GraphicsResource"):
        OpenGLRenderer(library()).target(Camera(), device="cuda")


def test_a_machine_without_nvidia_device_is_named(fake_cuda):
    fake_cuda.torch.cuda.is_available = lambda: False
    with pytest.raises(RuntimeError, match="no NVIDIA device"):
        OpenGLRenderer(library()).target(Camera(), device="cuda")


def test_opengl_on_another_device_is_named(fake_cuda, monkeypatch):
    monkeypatch.setitem(shared_context().moderngl.info, "GL_VENDOR", "Mesa")
    renderer = OpenGLRenderer(library())
    with pytest.raises(RuntimeError, match="CUDA cannot read: install"):
        renderer.target(Camera(), device="cuda").render(np.array([0]), AHEAD)
    renderer.close()


def test_an_environment_keeps_all_observations_on_the_device(fake_cuda, tmp_path):
    def run(device):
        env = BatchNavEnv(
            3, scenes=box_room("room"), sensors=ALL, renderer="opengl", obs_device=device, autoreset_mode="same_step",
            max_episode_steps=3, episodes=20, buffers=2,
        )  # fmt: skip
        observations = [env.reset(seed=0)[0]]
        for _ in range(5):
            observation, _, _, truncated, info = env.step(np.full(3, 2))
            observations += [observation, info["final_obs"]] if truncated.any() else [observation]
            for observation in observations[-2:]:
                for name, values in observation.items():
                    assert isinstance(values, Tensor if device == "cuda" else np.ndarray), name
        held = [{name: np.array(getattr(v, "array", v)) for name, v in seen.items()} for seen in observations[-3:]]
        env.close()
        return held

    for tensors, arrays in zip(run("cuda"), run("cpu"), strict=True):
        assert tensors.keys() == arrays.keys()
        for name in arrays:
            np.testing.assert_array_equal(tensors[name], arrays[name])


def test_an_environment_says_what_a_device_needs(tmp_path):
    with pytest.raises(ValueError, match="obs_device='tpu'"):
        BatchNavEnv(1, scenes=box_room("room"), obs_device="tpu")
    with pytest.raises(ValueError, match=r"obs_device='cuda': renderer='embree' .* renderer='opengl'"):
        BatchNavEnv(1, scenes=box_room("room"), obs_device="cuda", renderer="embree")
