"""The OpenGL renderer; only this package imports ModernGL."""

from gym_batchnav.render.opengl.discovery import find_device
from gym_batchnav.render.opengl.renderer import OpenGLRenderer

__all__ = ["OpenGLRenderer", "find_device"]
