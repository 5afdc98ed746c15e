"""The OpenGL renderer, which draws all views of all slots in a few instanced indirect draws."""

from __future__ import annotations

import weakref
from functools import cached_property

from typing_extensions import override

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.api import Renderer, check_opengl
from gym_batchnav.render.opengl.context import shared_context
from gym_batchnav.render.opengl.mirror import SceneMirror
from gym_batchnav.render.opengl.pipeline import Pipeline
from gym_batchnav.render.opengl.target import OpenGLDrawing
from gym_batchnav.render.target import Drawing
from gym_batchnav.render.textures import texture_size
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.process import claim_process


class OpenGLRenderer(Renderer):
    """A renderer of one library's scenes by OpenGL 4.3 or newer.

    Neither the renderer nor its targets touch OpenGL before the first view is drawn or ``device`` is read, so that a
    process that makes an environment without drawing may still fork.
    """

    name = "opengl"

    def __init__(
        self, library: SceneLibrary, semantic_ids: SemanticIds | None = None, bodies: SceneLibrary | None = None
    ) -> None:
        super().__init__(library, semantic_ids, bodies)
        self._scenes = SceneMirror(library, self.semantic_ids)
        self._body_scenes = None if bodies is None else SceneMirror(bodies, SemanticIds())
        self._pipelines: dict[SceneMirror, Pipeline] = {}
        self._drawings: weakref.WeakSet[Drawing] = weakref.WeakSet()

    @cached_property
    def device(self) -> str:  # type: ignore[override]
        """The device's GL_RENDERER; raises RuntimeError if there is no OpenGL 4.3."""
        claim_process("OpenGL")
        return shared_context().device

    def pipeline(self, of_bodies: bool = False) -> Pipeline:
        """Return the device objects that targets share for scenes or for moving bodies, made at the first call."""
        self.check_open()
        scenes = self._body_scenes if of_bodies else self._scenes
        assert scenes is not None
        if scenes not in self._pipelines:
            context = shared_context()
            with context:
                self._pipelines[scenes] = Pipeline(context, scenes)
        return self._pipelines[scenes]

    @override
    def drawing(self, camera: Camera, sensors: tuple[str, ...], num_views: int, device: str, buffers: int) -> Drawing:
        check_opengl(camera, sensors)
        needs = (texture_size(camera), "rgb" not in sensors)
        textures = self._scenes.textures(*needs)
        of_bodies = None if self._body_scenes is None else self._body_scenes.textures(*needs)
        drawing = OpenGLDrawing(self, camera, sensors, num_views, buffers, textures, of_bodies)
        self._drawings.add(drawing)
        return drawing

    @override
    def close(self) -> None:
        for drawing in list(self._drawings):
            drawing.close()
        if not self._closed:
            for scenes in filter(None, (self._scenes, self._body_scenes)):
                scenes.forget()
        self._closed = True
        contexts = [pipeline.context for pipeline in self._pipelines.values()]
        self._pipelines.clear()
        for context in contexts:
            context.collect()
