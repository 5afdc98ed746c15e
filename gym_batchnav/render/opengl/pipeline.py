"""The device objects that all targets of a renderer share: scenes, culler, programs and vertex arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import moderngl

from gym_batchnav.render.opengl import shaders
from gym_batchnav.render.opengl.context import Context
from gym_batchnav.render.opengl.culling import Culler
from gym_batchnav.render.opengl.mirror import SceneMirror


class Kind(NamedTuple):
    """The variant of a program."""

    rgb: bool
    semantic: bool
    masked: bool  # discards fragments below the alpha cutoff
    num_pages: int = 1  # number of texture arrays
    page_layers: int = 1  # layers per array


class Pipeline:
    """The programs, vertex arrays and culler that draw the chunks of all slots; callers have entered the context."""

    def __init__(self, context: Context, scenes: SceneMirror) -> None:
        self.context = context
        self.scenes = scenes
        self.culler = Culler(context)
        self._programs: dict[Kind, moderngl.Program] = {}
        self._arrays: dict[Kind, moderngl.VertexArray] = {}
        self._packers: dict[tuple[str, ...], moderngl.ComputeShader] = {}
        self._layout = (-1, -1)

    def program(self, kind: Kind) -> moderngl.Program:
        """Return the program of a variant."""
        if kind not in self._programs:
            defines = {"RGB": kind.rgb, "SEMANTIC": kind.semantic, "MASKED": kind.masked}
            defines["SURFACE"] = kind.rgb or kind.masked
            self._programs[kind] = self.context.moderngl.program(
                vertex_shader=shaders.with_defines(shaders.VERTEX, **defines),
                fragment_shader=shaders.fragment(kind.num_pages, kind.page_layers, **defines),
            )
        return self._programs[kind]

    def vertex_array(self, kind: Kind) -> moderngl.VertexArray:
        """Return the vertex array of a program over the current buffers; each cull may invalidate it."""
        layout = (self.scenes.layout, self.culler.instances.layout)
        if layout != self._layout:
            self._arrays.clear()
            self._layout = layout
        if kind not in self._arrays:
            instances = self.culler.instances.buffer
            content: list[tuple[Any, ...]] = [
                (self.scenes.buffer("positions"), "3f", "in_position"),
                (instances, "4f 4f 4f 3u 4x /i", "in_row_x", "in_row_y", "in_row_z", "in_instance"),
            ]
            if kind.rgb or kind.masked:
                content.append((self.scenes.buffer("attributes"), "2f 4f1", "in_uv", "in_color"))
            self._arrays[kind] = self.context.moderngl.vertex_array(
                self.program(kind), content, index_buffer=self.scenes.buffer("indices"), index_element_size=4
            )
        return self._arrays[kind]

    def packer(self, sensors: tuple[str, ...]) -> moderngl.ComputeShader:
        """Return the program that gathers the tiles of sensors into pictures."""
        if sensors not in self._packers:
            source = shaders.with_defines(shaders.PACK, **{sensor.upper(): True for sensor in sensors})
            self._packers[sensors] = self.context.moderngl.compute_shader(source)
        return self._packers[sensors]
