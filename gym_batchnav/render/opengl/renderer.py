"""The OpenGL renderer, which draws all views of all slots in a few instanced indirect draws."""

from __future__ import annotations

import weakref
from functools import cached_property

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import check_opengl
from gym_batchnav.render.opengl.context import shared_context
from gym_batchnav.render.opengl.mirror import SceneMirror
from gym_batchnav.render.opengl.pipeline import Pipeline
from gym_batchnav.render.opengl.target import OpenGLDrawing
from gym_batchnav.render.target import Target, check_main_memory, check_target, closed_error
from gym_batchnav.render.textures import texture_size
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.process import Claim, claim_process


class OpenGLRenderer:
    """A renderer of one library's scenes by OpenGL 4.3 or newer; see ``render.api.Renderer``.

    Neither the renderer nor its targets touch OpenGL before the first view is drawn or ``device`` is read, so that a
    process that makes an environment without drawing may still fork.

    Args:
        library: The scenes.
        semantic_ids: What the sensor ``"semantic"`` draws; the ids of objects by default.
        bodies: The shapes of moving bodies, one per slot; None for none.
    """

    name = "opengl"

    def __init__(
        self, library: SceneLibrary, semantic_ids: SemanticIds | None = None, bodies: SceneLibrary | None = None
    ) -> None:
        self.library = library
        self.semantic_ids = semantic_ids or SemanticIds()
        self.bodies = bodies
        self.claim = Claim("this OpenGL renderer")
        self._scenes: SceneMirror | None = SceneMirror(library, self.semantic_ids)
        self._body_scenes = None if bodies is None else SceneMirror(bodies, SemanticIds())
        self._pipeline: Pipeline | None = None
        self._body_pipeline: Pipeline | None = None
        self._targets: weakref.WeakSet[Target] = weakref.WeakSet()

    @cached_property
    def device(self) -> str:
        """The device's GL_RENDERER; raises RuntimeError if there is no OpenGL 4.3."""
        claim_process("OpenGL")
        return shared_context().device

    @property
    def pipeline(self) -> Pipeline:
        """The device objects that targets share, made at the first call.

        Raises:
            RuntimeError: If there is no OpenGL 4.3; the message names the packages to install.
        """
        scenes = self._open_scenes()
        if self._pipeline is None:
            context = shared_context()
            with context:
                self._pipeline = Pipeline(context, scenes)
        return self._pipeline

    @property
    def body_pipeline(self) -> Pipeline:
        """The device objects for moving bodies, made at the first call; there must be a library of bodies."""
        context = self.pipeline.context
        assert self._body_scenes is not None
        if self._body_pipeline is None:
            with context:
                self._body_pipeline = Pipeline(context, self._body_scenes)
        return self._body_pipeline

    def target(
        self,
        camera: Camera,
        sensors: tuple[str, ...] = ("depth",),
        num_views: int = 1,
        device: str = "cpu",
        buffers: int = 2,
    ) -> Target:
        """Make a target; see ``Renderer.target``."""
        scenes = self._open_scenes()
        check_target(sensors, num_views, buffers)
        check_opengl(camera, sensors)
        check_main_memory(device, "OpenGL")
        mirrors = (scenes, self._body_scenes)
        needs = (texture_size(camera), "rgb" not in sensors)
        textures, of_bodies = (None if mirror is None else mirror.textures(*needs) for mirror in mirrors)
        assert textures is not None
        drawing = OpenGLDrawing(self, camera, sensors, num_views, buffers, textures, of_bodies)
        target = Target(self, drawing, num_views, buffers)
        self._targets.add(target)
        return target

    def close(self) -> None:
        """Release every scene and target; idempotent, and without effect on the device in a forked child."""
        for target in list(self._targets):
            target.close()
        context = None if self._pipeline is None else self._pipeline.context
        if self._scenes is not None:
            self._scenes.forget()
        if self._body_scenes is not None:
            self._body_scenes.forget()
        self._pipeline = self._body_pipeline = None
        self._scenes = self._body_scenes = None
        if context is not None:
            context.collect()

    def check_open(self) -> None:
        """Raise RuntimeError once the renderer is closed."""
        self._open_scenes()

    def _open_scenes(self) -> SceneMirror:
        if self._scenes is None:
            raise closed_error(self)
        return self._scenes
