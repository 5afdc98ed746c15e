"""Fresh environments: RL libraries, whose pins conflict; versions of Python and Gymnasium; low dependencies; releases.

``nox -s rllib skrl`` runs sessions by name, ``nox -l`` lists all, and ``bash .ci/long`` runs all. The session of a
library runs the commands of its section in docs/libraries.md, then its tests.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import nox

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
PAGE = ROOT / "docs" / "libraries.md"
PROJECT = nox.project.load_toml("pyproject.toml")["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = [
    row.rpartition(" ")[2] for row in PROJECT["classifiers"] if row.startswith("Programming Language :: Python :: 3.")
]
WRAPPERS_NEED = ("torch", "array-api-compat", "moviepy", "pygame", "opencv-python-headless")
GYMNASIUM_TESTS = (
    "env/test_batch_env.py",
    "env/test_wrappers.py",
    "test_testing.py",
    "env/test_single.py",
    "env/test_flat.py",
)


class Library(NamedTuple):
    """An RL library.

    Attributes:
        heading: Its heading in docs/libraries.md.
        module: The module that its tests require.
        others: Further packages that the tests require and that no extra installs, named like their modules.
    """

    heading: str
    module: str
    others: tuple[str, ...] = ()


LIBRARIES = {
    "sb3": Library("Stable-Baselines3", "stable_baselines3", ("moviepy",)),
    "cleanrl": Library("CleanRL", "torch", ("moviepy",)),
    "rllib": Library("RLlib", "ray"),
    "torchrl": Library("TorchRL", "torchrl"),
    "skrl": Library("skrl", "skrl"),
    "pufferlib": Library("PufferLib", "pufferlib"),
    "tianshou": Library("tianshou", "tianshou"),
    "rl_games": Library("rl_games", "rl_games"),
    "pettingzoo": Library("PettingZoo", "pettingzoo"),
}

nox.options.error_on_missing_interpreters = True


def commands_of(heading: str) -> list[str]:
    """Return the lines of the first bash block under a heading of docs/libraries.md."""
    _, _, rest = f"\n{PAGE.read_text()}".partition(f"\n## {heading}\n")
    block = re.search(r"^```bash\n(.*?)^```", rest.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    if block is None:
        raise ValueError(f"{PAGE.name} has no bash block under '## {heading}': write the set-up and the run there")
    return block.group(1).splitlines()


def settings(session: nox.Session, *modules: str) -> dict[str, str]:
    """Return environment variables for commands and tests; those that the user has set take precedence.

    Sessions with the same versions of Python, NumPy and Numba share their compiled kernels.
    """
    required = [name for name in (os.environ.get("GYM_BATCHNAV_REQUIRE", ""), *modules) if name]
    return {
        "PIP_CONSTRAINT": str(ROOT / ".ci" / "long-constraints.txt"),  # torch's build for processors
        "NUMBA_CACHE_DIR": str(session.cache_dir.absolute() / "numba"),
        **os.environ,
        "GYM_BATCHNAV_REQUIRE": ",".join(required),
    }


def run_tests(session: nox.Session, env: dict[str, str], *arguments: str) -> None:
    """Run tests, including slow ones; the first of them may wait for kernels to be compiled."""
    session.run("pytest", "-m", "", "-o", "timeout=900", *arguments, *session.posargs, env=env)


def add_library(name: str, library: Library) -> None:
    """Add the session of a library."""

    def session_of(session: nox.Session) -> None:
        env = settings(session, library.module, *library.others)
        for command in commands_of(library.heading):
            session.run("bash", "-euo", "pipefail", "-c", command, external=True, env=env)
        session.install(*EXTRAS["test"], *EXTRAS["viz"], *library.others, env=env)
        own = sorted(map(str, Path("tests/adapters").glob(f"test_{name}*.py")))
        run_tests(session, env, "tests/adapters/test_contract.py", *own)

    session_of.__doc__ = f"{library.heading}: the commands of docs/libraries.md, then its tests."
    nox.session(session_of, name=name)


for _name, _library in LIBRARIES.items():
    add_library(_name, _library)


@nox.session
@nox.parametrize("version", [nox.param(version, id=version) for version in ("1.2.2", "1.4.0")])
def gymnasium(session: nox.Session, version: str) -> None:
    """The environment and Gymnasium's wrappers, with the oldest Gymnasium that an RL library pins and the newest."""
    env = settings(session, "torch")
    session.install(".[test,viz]", f"gymnasium=={version}", *WRAPPERS_NEED, env=env)
    run_tests(session, env, *(f"tests/{test}" for test in GYMNASIUM_TESTS))


@nox.session(python="3.12")
def lerobot(session: nox.Session) -> None:
    """Datasets exported to LeRobot; its pins allow neither our torch nor the newest PyAV."""
    env = {**settings(session, "lerobot"), "PIP_CONSTRAINT": ""}
    session.install(".[test]", "lerobot[dataset]>=0.6.1", env=env)
    run_tests(session, env, "tests/collect/test_export.py")


@nox.session(python="3.12")
def minari(session: nox.Session) -> None:
    """Datasets exported to Minari."""
    env = settings(session, "minari")
    session.install(".[test,minari]", env=env)
    run_tests(session, env, "tests/collect/test_export.py")


@nox.session
def window(session: nox.Session) -> None:
    """The live window in Chromium, which must be installed."""
    env = settings(session, "playwright")
    session.install(".[test]", "playwright", env=env)  # without its own browsers
    run_tests(session, env, "-n", "0", "tests/viz/window/test_browser.py")


@nox.session(python="3.12")
def rerun(session: nox.Session) -> None:
    """Our recordings, read by rerun."""
    env = settings(session, "rerun")
    session.install(".[test,rerun]", env=env)
    tests = ("tests/viz/test_rerun.py", "tests/collect/test_export.py", "tests/test_docs.py")
    run_tests(session, env, *tests, "-k", "rrd or export or window or data")


@nox.session
def ray(session: nox.Session) -> None:
    """Commands on a Ray cluster of three local nodes, one of which is killed."""
    env = {**settings(session, "ray", "torch"), "RAY_USAGE_STATS_ENABLED": "0"}
    session.install(".[test,train,ray]", env=env)
    run_tests(session, env, "-n", "0", "tests/cluster")


@nox.session
def jax(session: nox.Session) -> None:
    """The batch as a function, called from JAX as the page shows it."""
    env = settings(session, "jax")
    session.install(".[test]", "jax", env=env)
    run_tests(session, env, "-m", "slow", "-k", "functional", "tests/test_docs.py")


@nox.session
def fresh(session: nox.Session) -> None:
    """Train for a minute and evaluate with the versions that pip chooses today, without constraints."""
    env = {"PIP_CONSTRAINT": "", "NUMBA_CACHE_DIR": str(Path(session.create_tmp()).absolute() / "numba")}
    session.install(".[train]", env=env)
    run, report = (str(Path(session.create_tmp()).absolute() / name) for name in ("run", "report"))
    session.run("gym-batchnav", "train", "--preset", "cpu", "--time-limit", "60s", "--out", run, env=env)
    policy = ("--policy", f"{run}/policy.safetensors")
    session.run("gym-batchnav", "evaluate", *policy, "--episodes", "100", "--out", report, env=env)


@nox.session
def docs(session: nox.Session) -> None:
    """The site of docs/, built into site/; a link or an anchor that leads nowhere is an error."""
    session.install(*EXTRAS["docs"], env=settings(session))
    session.run("mkdocs", "build", "--strict", *session.posargs)  # --quiet would also silence what strict counts


@nox.session
def release(session: nox.Session) -> None:
    """The wheel and the sdist, built from the checkout into dist/ and checked; nothing is uploaded."""
    session.install("build>=1.2", "twine>=6.1", env=settings(session))
    session.run("python", ".ci/release.py", str(DIST))


@nox.session(python=PYTHONS)
def wheel(session: nox.Session) -> None:
    """The wheel in dist/, which ``nox -s release`` builds, with one version of Python and the newest dependencies."""
    built = [str(path) for path in DIST.glob("*.whl")]
    if len(built) != 1:
        session.error("dist/ does not hold one wheel: run nox -s release first")
    session.install(*built)
    session.chdir(session.create_tmp())
    cache = str(session.cache_dir.absolute() / "numba-of-wheels")
    session.run("python", "-I", str(ROOT / ".ci" / "smoke.py"), PROJECT["version"], env={"NUMBA_CACHE_DIR": cache})


@nox.session(python=PYTHONS)
def python(session: nox.Session) -> None:
    """The default suite with one version of Python and the newest dependencies."""
    env = settings(session)
    session.install(".[test]", env=env)
    session.run("pytest", *session.posargs, env=env)


@nox.session(python=PYTHONS[0])
def lowest(session: nox.Session) -> None:
    """The default suite with the lowest version of every dependency, on the lowest version of Python."""
    env = settings(session)
    oldest = [requirement.replace(">=", "==") for requirement in PROJECT["dependencies"]]
    session.install(".[test]", env=env)
    session.install(*oldest, env=env)  # separately, since tools of tests may ask for later ones
    session.run("pytest", *session.posargs, env=env)
