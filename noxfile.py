"""RL libraries, each in a fresh environment of its own, since their pins conflict.

``nox`` runs what CI runs each time, ``nox -s rllib skrl`` others by name, ``nox -l`` lists them. A library's session
runs the very commands of its section in docs/libraries.md, then its tests.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import nox

ROOT = Path(__file__).parent
PAGE = ROOT / "docs" / "libraries.md"
EXTRAS = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]
WRAPPERS_NEED = ("torch", "array-api-compat", "moviepy", "pygame", "opencv-python-headless")
GYMNASIUM_TESTS = (
    "env/test_batch_env.py",
    "env/test_wrappers.py",
    "testing/test_check.py",
    "env/test_single.py",
    "env/test_flat.py",
)


class Library(NamedTuple):
    """An RL library: its heading in docs/libraries.md, the module that its tests require, and what else they do."""

    heading: str
    module: str
    besides: tuple[str, ...] = ()  # packages that no extra brings, named as their modules are


LIBRARIES = {
    "sb3": Library("Stable-Baselines3", "stable_baselines3", ("moviepy",)),
    "cleanrl": Library("CleanRL", "torch", ("moviepy",)),
    "rllib": Library("RLlib", "ray"),
    "torchrl": Library("TorchRL", "torchrl"),
    "skrl": Library("skrl", "skrl"),
    "pufferlib": Library("PufferLib", "pufferlib"),
    "tianshou": Library("tianshou", "tianshou"),
    "rl_games": Library("rl_games", "rl_games"),
}

nox.options.sessions = ["sb3", "cleanrl", "torchrl", "gymnasium(1.2.2)"]
nox.options.error_on_missing_interpreters = True


def commands_of(heading: str) -> list[str]:
    """The lines of the first bash block under a heading of docs/libraries.md."""
    _, _, rest = f"\n{PAGE.read_text()}".partition(f"\n## {heading}\n")
    block = re.search(r"^```bash\n(.*?)^```", rest.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    if block is None:
        raise ValueError(f"{PAGE.name} has no bash block under '## {heading}': write the set-up and the run there")
    return block.group(1).splitlines()


def settings(session: nox.Session, *modules: str) -> dict[str, str]:
    """What commands and tests find in their surroundings; what the user has set counts more.

    Kernels are kept by the path of their source. Taken from the checkout instead of from every environment's own copy,
    they are compiled once for all sessions.
    """
    required = [name for name in (os.environ.get("GYM_BATCHNAV_REQUIRE", ""), *modules) if name]
    return {
        "PIP_CONSTRAINT": str(ROOT / ".ci" / "constraints.txt"),  # torch's build for processors
        "NUMBA_CACHE_DIR": str(session.cache_dir.absolute() / "numba"),
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "GYM_BATCHNAV_REQUIRE": ",".join(required),
    }


def run_tests(session: nox.Session, env: dict[str, str], *arguments: str) -> None:
    """Run tests, slow ones as well; the first of them may wait for kernels to be compiled."""
    session.run("pytest", "-m", "", "-o", "timeout=900", *arguments, *session.posargs, env=env)


def add_library(name: str, library: Library) -> None:
    """Make the session of a library."""

    def session_of(session: nox.Session) -> None:
        env = settings(session, library.module, *library.besides)
        for command in commands_of(library.heading):
            session.run("bash", "-euo", "pipefail", "-c", command, external=True, env=env)
        session.install(*EXTRAS["test"], *EXTRAS["viz"], *library.besides, env=env)
        run_tests(session, env, f"tests/adapters/test_{name}.py")
        if name == "sb3":
            run_tests(session, env, "tests/test_notebooks.py", "-k", "plug_in_your_library")

    session_of.__doc__ = f"{library.heading} as docs/libraries.md sets it up, then its tests."
    nox.session(session_of, name=name)


for _name, _library in LIBRARIES.items():
    add_library(_name, _library)


@nox.session
@nox.parametrize("version", [nox.param(version, id=version) for version in ("1.2.2", "1.4.0")])
def gymnasium(session: nox.Session, version: str) -> None:
    """The environment and Gymnasium's wrappers, with the oldest release that a library pins and the newest."""
    env = settings(session, "torch")
    session.install(".[test,viz]", f"gymnasium=={version}", *WRAPPERS_NEED, env=env)
    run_tests(session, env, *(f"tests/{test}" for test in GYMNASIUM_TESTS))
