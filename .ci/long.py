"""Checks that take hours, or that need what a change does not touch: ``bash .ci/long``.

    bash .ci/long                # all jobs
    bash .ci/long fresh fuzz     # some of them
    bash .ci/long --list

Most jobs are sessions of the noxfile, each with a separate environment. They need the interpreter that they name.
"""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial

from stages import ROOT, Check, Stage

NOX = "nox==2026.10.20"
PYTHONS = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
SESSIONS = {
    "fresh": "whatever pip chooses today, without constraints: training and evaluation",
    "sb3": "Stable-Baselines3: the commands of docs/libraries.md, then its tests",
    "cleanrl": "CleanRL",
    "rllib": "RLlib",
    "torchrl": "TorchRL",
    "skrl": "skrl",
    "pufferlib": "PufferLib",
    "tianshou": "Tianshou",
    "rl_games": "rl_games",
    "pettingzoo": "PettingZoo",
    "gymnasium": "the oldest and the newest Gymnasium, with its wrappers",
    "jax": "the batch as a function, from JAX",
    "lerobot": "datasets exported to LeRobot",
    "minari": "datasets exported to Minari",
    "rerun": "our recordings, read by rerun",
    "ray": "commands on a cluster of three nodes, one of which is killed",
    "window": "the live window in Chromium",
    "lowest": "the default suite with the lowest versions",
    **{f"python-{version}": f"the default suite with Python {version}" for version in PYTHONS},
    "wheel": "the wheel with every version of Python",
}
BEFORE = {"wheel": ("release",)}  # sessions that make what another one needs


class Long(Check):
    """The jobs of ``bash .ci/long``."""

    def __init__(self) -> None:
        super().__init__("long", "long-constraints.txt")
        made = {folder: folder / "made" for folder in (self.tools, self.venv)}
        self.stages += [
            Stage("system", "Mesa's libraries, for the tests of OpenGL", self.install_mesa),
            Stage("tools", "an environment for nox", self._tools, (), made[self.tools]),
            Stage("install", "the environment of the four jobs that follow", self._install, (), made[self.venv]),
            Stage("repetitions", "the tests marked long: other seeds, a thousand damaged files, kills, the notebooks",
                  partial(self._tests, "repetitions", "-m", "long", "-o", "timeout=3600"), ("install",)),
            Stage("properties", "the tests by Hypothesis, with many new examples",
                  partial(self._tests, "properties", "-m", "hypothesis", profile="thorough"), ("install",)),
            Stage("fuzz", "ten thousand damaged files", self._fuzz, ("install",)),
            Stage("faults", "ten faults planted in each folder of the package: which of them its tests notice",
                  self._faults, ("install",)),
            Stage("speed", "starting times and promised speeds, judged; on a machine with nothing else to do",
                  self._speed, ("install",)),
            *(Stage(name, title, partial(self._nox, name), ("tools",)) for name, title in SESSIONS.items()),
        ]  # fmt: skip

    def _tools(self) -> None:
        self.make_venv(self.tools)
        self.command(self.tools / "bin" / "pip", "install", NOX)
        (self.tools / "made").touch()

    def _install(self) -> None:
        self.make_venv(self.venv)
        self.command(self.bin("pip"), "install", ".[dev,train,viz,sb3,warp]")
        (self.venv / "made").touch()

    def _tests(self, name: str, *options: str, profile: str = "free") -> None:
        self.tests(name, self.bin("pytest"), *options, profile=profile)

    def _fuzz(self) -> None:
        fuzz = ("-m", "fuzzing", "--count", "10000", "--keep", str(self.work / "fuzz-failures"))
        self.command(self.bin("python"), *fuzz, cwd=ROOT / "tests")

    def _faults(self) -> None:
        folders = [path.parent.name for path in sorted((ROOT / "gym_batchnav").glob("*/__init__.py"))]
        faults = partial(self.command, self.bin("python"), ".ci/faults.py", "--folders")
        self.all_of(*(partial(faults, folder) for folder in folders))

    def _speed(self) -> None:
        self.all_of(
            lambda: self.command(self.bin("python"), "benchmarks/start.py", "--check"),
            lambda: self.command(self.bin("python"), "benchmarks/promises.py", "--check"),
        )

    def _nox(self, name: str) -> None:
        if name == "window" and not (shutil.which("chromium") or shutil.which("google-chrome")):
            self.apt_install("chromium")
        sessions = ("--sessions", *BEFORE.get(name, ()), name)
        self.command(self.tools / "bin" / "nox", *sessions, env={"VIRTUAL_ENV": ""})


if __name__ == "__main__":
    sys.exit(Long().main(__doc__))
