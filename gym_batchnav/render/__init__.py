"""Rendering of scenes from given poses."""

from gym_batchnav.render.api import make_renderer

__all__ = ["make_renderer"]
