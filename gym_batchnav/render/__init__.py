"""Scenes and poses to images."""

from gym_batchnav.render.api import make_renderer

__all__ = ["make_renderer"]
