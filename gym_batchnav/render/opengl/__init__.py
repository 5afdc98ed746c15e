"""The OpenGL renderer; only this package imports ModernGL."""

from gym_batchnav.render.opengl.context import probe
from gym_batchnav.render.opengl.renderer import OpenGLRenderer

__all__ = ["OpenGLRenderer", "probe"]
