"""The OpenGL renderer: all views of all slots in a few instanced indirect draws."""

from __future__ import annotations

import os
import weakref
from functools import cached_property
from typing import Protocol

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import DEVICES
from gym_batchnav.render.checks import check_target
from gym_batchnav.render.opengl.context import shared_context
from gym_batchnav.render.opengl.cuda import load_cuda
from gym_batchnav.render.opengl.mirror import SceneMirror
from gym_batchnav.render.opengl.pipeline import Pipeline
from gym_batchnav.render.opengl.target import OpenGLTarget
from gym_batchnav.render.textures import texture_size
from gym_batchnav.system.process import Claim, claim_process

CULLING = ("auto", "cpu", "gpu")


class _Owner(Protocol):
    def release(self) -> None:
        """Release what is held on the device; a context is entered."""


class OpenGLRenderer:
    """Scenes of one library, drawn by OpenGL 4.3 or newer; see the Renderer contract.

    Neither the renderer nor its targets touch OpenGL before the first view is drawn or ``device`` is read, so that a
    process that only looks at an environment may still fork.

    Args:
        library: The scenes.
        culling: Where the chunks that each view sees are found: ``"cpu"``, ``"gpu"``, or ``"auto"``: on the device,
            unless that is software.

    Raises:
        ValueError: ``culling`` is none of these.
    """

    name = "opengl"

    def __init__(self, library: SceneLibrary, culling: str = "auto") -> None:
        if culling not in CULLING:
            raise ValueError(f"culling={culling!r}: choose one of {', '.join(map(repr, CULLING))}")
        self.library = library
        self.claim = Claim("this OpenGL renderer")
        self._culling = culling
        self._scenes: SceneMirror | None = SceneMirror(library)
        self._pipeline: Pipeline | None = None
        self._targets: weakref.WeakSet[OpenGLTarget] = weakref.WeakSet()

    @cached_property
    def device(self) -> str:
        """GL_RENDERER of the device; RuntimeError if there is no OpenGL 4.3."""
        claim_process("OpenGL")
        return shared_context().device

    @property
    def nbytes(self) -> int:
        """Bytes of the scenes and their draw commands on the device, without the targets' pictures.

        0 before the first view is drawn and once the renderer is closed.
        """
        scenes = 0 if self._scenes is None else self._scenes.nbytes
        return scenes + (0 if self._pipeline is None else self._pipeline.culler.nbytes)

    @property
    def pipeline(self) -> Pipeline:
        """The device objects that targets share, made at the first call.

        Raises:
            RuntimeError: There is no OpenGL 4.3 here; the message says what to install.
        """
        scenes = self._open_scenes()
        if self._pipeline is None:
            context = shared_context()
            with context:
                self._pipeline = Pipeline(context, scenes, self._culling)
        return self._pipeline

    def target(
        self,
        camera: Camera,
        sensors: tuple[str, ...] = ("depth",),
        num_views: int = 1,
        device: str = "cpu",
        buffers: int = 2,
    ) -> OpenGLTarget:
        """Make a target for up to ``num_views`` views at a time.

        Args:
            camera: The camera of every view.
            sensors: Any of ``"depth"``, ``"rgb"`` and ``"semantic"``.
            num_views: N; more than one framebuffer can hold are drawn one framebuffer after the other.
            device: Where the pictures go: ``"cpu"`` for NumPy arrays, ``"cuda"`` for torch tensors that never leave the
                NVIDIA device.
            buffers: Sets of pictures that take turns as results.

        Raises:
            ValueError: Unknown sensors or device, or no views.
            RuntimeError: The renderer is closed, or ``device="cuda"`` is not available; the message says why.
        """
        scenes = self._open_scenes()
        check_target(sensors, num_views, buffers)
        if device not in DEVICES:
            raise ValueError(f"device={device!r}: choose one of {', '.join(map(repr, DEVICES))}")
        if device == "cuda":
            load_cuda()
        textures = scenes.textures(texture_size(camera), masks_only="rgb" not in sensors)
        target = OpenGLTarget(self, camera, sensors, num_views, device, buffers, textures)
        self._targets.add(target)
        return target

    def close(self) -> None:
        """Release every scene and target; idempotent, and silent in a forked child."""
        for target in list(self._targets):
            target.close()
        if self._scenes is not None:
            self.release(self._scenes)
            self._scenes.forget()
            if self._pipeline is not None:
                self.release(self._pipeline)
        self._pipeline = self._scenes = None

    def release(self, owner: _Owner) -> None:
        """Release what ``owner`` holds on the device, but never in a forked child."""
        if self._pipeline is not None and self._pipeline.context.pid == os.getpid():
            with self._pipeline.context:
                owner.release()

    def _open_scenes(self) -> SceneMirror:
        if self._scenes is None:
            raise RuntimeError("this OpenGL renderer is closed: make another")
        return self._scenes
