"""The OpenGL renderer, on ModernGL; nothing else imports it."""

from gym_batchnav.render.opengl.context import probe
from gym_batchnav.render.opengl.renderer import OpenGLRenderer

__all__ = ["OpenGLRenderer", "probe"]
