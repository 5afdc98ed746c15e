"""The device that OpenGL draws on here, found without loading a software driver into this process.

Drivers that draw in software contain LLVM, as other libraries of a process do, and two of them in one process may crash
it: a process that draws with Embree should have none.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import NamedTuple

from gym_batchnav.render.opengl.context import probe, shared_context
from gym_batchnav.render.opengl.devices import device_to_draw_on, load_egl
from gym_batchnav.system.child import python_environment
from gym_batchnav.system.process import is_frozen


class OpenGL(NamedTuple):
    """OpenGL as a separate process found it."""

    device: str | None = None  # GL_RENDERER; None if OpenGL 4.3 is not available
    version: str = ""  # GL_VERSION, which includes the driver's version
    error: str = ""  # reason why OpenGL is not available; "" if it is


def find_device() -> str | None:
    """Return the name of the device that OpenGL 4.3 draws on, or None if there is none.

    This creates a context only if EGL lists a hardware device. If EGL lists software only, that is the answer; if it
    cannot list devices, another process creates a context.
    """
    if sys.platform != "linux":  # where no driver draws OpenGL 4.3 in software
        return probe()
    device = device_to_draw_on()
    if device is not None:
        return f"software rasterizer ({device})" if device.software else probe()
    if load_egl() is None and not os.environ.get("DISPLAY"):
        return None
    return try_opengl().device


@functools.cache
def try_opengl() -> OpenGL:
    """Create a context in a separate process and describe it."""
    if is_frozen():  # the executable would start the whole application again
        return OpenGL(error="a frozen application cannot start a process that tries OpenGL")
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
            env=python_environment(),
        )
    except (OSError, subprocess.SubprocessError) as error:
        return OpenGL(error=f"the process that tries OpenGL failed: {error}")
    lines = done.stdout.decode(errors="replace").splitlines()  # drivers may print lines as well
    if done.returncode or not lines:
        return OpenGL(error=f"the process that tries OpenGL ended with status {done.returncode}: update the driver")
    return OpenGL(*json.loads(lines[-1]))


def main() -> None:
    """Describe the context of this process as one line of JSON."""
    try:
        context = shared_context()
        found = OpenGL(context.device, context.moderngl.info["GL_VERSION"])
    except (RuntimeError, ValueError) as error:  # ValueError: an environment variable is not a number
        found = OpenGL(error=str(error))
    print(json.dumps(found), flush=True)
