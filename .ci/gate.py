"""Everything that must hold, from a clean clone: ``bash .ci/run``.

    bash .ci/run                 # all stages; those that passed on this commit in this clone are not repeated
    bash .ci/run suite torch     # some of them, and what they need
    bash .ci/run --from suite    # that one and all that follow
    bash .ci/run --again         # also those that passed
    bash .ci/run --list

Two environments are made: one of tools, and one by the commands of the README, in which all else is installed later.
Random inputs are the same in every run. A test that fails is run once more, alone: if it then passes, it is listed in
.ci/flaky.txt, which must be empty in a commit. Speeds are printed, never judged. What takes hours is in long.py.
"""

from __future__ import annotations

import json
import re
import shutil
import sys

import tomllib
from stages import FLAKY, ROOT, Check, FailedStage, Problem, Stage, output_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EPISODES = 100  # of the shipped policy, in homes that it never saw
LEAST_SPL, LEAST_SUCCESS, LEAST_ABOVE_BLIND = 0.80, 0.90, 0.10


class Gate(Check):
    """The stages of ``bash .ci/run``."""

    def __init__(self) -> None:
        super().__init__("run", "constraints.txt")
        self._is_current = False  # the installed package: it is of this state of the tree
        made = {folder: folder / "made" for folder in (self.tools, self.venv)}
        self.stages += [
            Stage("system", "Mesa's libraries, for the tests of OpenGL (1 min, or none)", self.install_mesa),
            Stage("tools", "an environment for Ruff, the site and releases (1 min)", self._tools, (), made[self.tools]),
            Stage("style", "Ruff; no test is listed as flaky (5 s)", self._style, ("tools",)),
            Stage("site", "the site of docs/; a link that leads nowhere is an error (1 min)", self._site, ("tools",)),
            Stage("demo", "the README's first command, in a fresh environment, with empty caches; all kernels (4 min)",
                  self._demo, (), self.venv / "bin" / "python"),
            Stage("suite", "the README's second command: the default suite (8 min)", self._suite, ("demo",)),
            Stage("install", "torch and all other extras but RL libraries (1 min)", self._install, ("demo",),
                  made[self.venv]),
            Stage("types", "mypy (1 min)", self._types, ("install",)),
            Stage("torch", "the tests that were skipped before torch was installed (2 min)", self._torch, ("install",)),
            Stage("slow", "the slow tests (8 min)", self._slow, ("install",)),
            Stage("speed", "starting times and speeds, which are not judged (1 min)", self._speed, ("install",)),
            Stage("learning", "half a minute of training; the shipped policy in new homes (2 min)", self._learning,
                  ("install",)),
            Stage("release", "wheel and sdist; the wheel is used in a fresh environment (1 min)", self._release,
                  ("tools",)),
        ]  # fmt: skip

    def _tools(self) -> None:
        self.make_venv(self.tools)
        requirements = [*PROJECT["optional-dependencies"]["docs"], "build>=1.2", "twine>=6.1"]
        self.command(self.tools / "bin" / "pip", "install", *requirements)
        (self.tools / "made").touch()

    def _style(self) -> None:
        ruff = self.tools / "bin" / "ruff"
        self.all_of(
            lambda: self.command(ruff, "check", "."),
            lambda: self.command(ruff, "format", "--check", "."),
            self._nothing_is_flaky,
        )

    def _nothing_is_flaky(self) -> None:
        """Fail if a test is listed in the commit; this run may have listed others."""
        name = FLAKY.relative_to(ROOT).as_posix()
        listed = output_of("git", "show", f"HEAD:{name}").split()
        if listed:
            raise FailedStage(Problem(f"{name} has tests that failed by chance: {', '.join(listed)}", f"cat {name}"))

    def _site(self) -> None:
        self.command(self.tools / "bin" / "mkdocs", "build", "--strict", "--site-dir", self.work / "site")

    def _readme(self, number: int) -> str:
        """Return one of the two set-up commands: the lines of the README's first block marked bash."""
        block = re.search(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
        lines = block[1].splitlines() if block else []
        if len(lines) != 2:
            raise FailedStage(Problem("README.md does not begin with two set-up commands", "cat README.md"))
        return lines[number]

    def _demo(self) -> None:
        for folder in self.caches:
            shutil.rmtree(folder, ignore_errors=True)
        self.make_venv(self.venv)
        self.command("bash", "-euo", "pipefail", "-c", self._readme(0))
        for after in ("demo", "warmup"):
            self.command(self.bin("python"), ".ci/kernels.py", after)

    def _suite(self) -> None:
        self.tests("suite", "bash", "-euo", "pipefail", "-c", self._readme(1))

    def _install(self) -> None:
        self.command(self.bin("pip"), "install", ".[dev,train,viz,sb3,warp]")
        self._is_current = True
        (self.venv / "made").touch()

    def _renew(self) -> None:
        """Install the package again if an earlier run did it."""
        if not self._is_current:
            self.command(self.bin("pip"), "install", "--no-deps", ".")
            self._is_current = True

    def _types(self) -> None:
        self.command(self.bin("mypy"))

    def _torch(self) -> None:
        first = self.outcomes("suite")
        if not first.is_file():
            raise FailedStage(Problem("the default suite left no list of what it skipped", "bash .ci/run suite torch"))
        self.report.skipped.pop("suite", None)
        self._pytest("torch", *json.loads(first.read_text())["skipped"])

    def _slow(self) -> None:
        self._pytest("slow", "-m", "slow", "--durations=20")

    def _pytest(self, name: str, *arguments: str) -> None:
        self._renew()
        self.tests(name, self.bin("pytest"), *arguments)

    def _speed(self) -> None:
        self._renew()
        self.all_of(
            lambda: self.command(self.bin("python"), "benchmarks/start.py", "--warm"),
            lambda: self.command(self.bin("python"), "benchmarks/promises.py"),
        )

    def _learning(self) -> None:
        self._renew()
        program, report = self.bin("gym-batchnav"), self.work / "report"
        for folder in (self.work / "run", report):
            shutil.rmtree(folder, ignore_errors=True)
        self.command(program, "train", "--preset", "cpu", "--time-limit", "30s", "--out", self.work / "run")
        evaluation = ("evaluate", "--agents", "blind", "--episodes", EPISODES, "--out", report)
        self.command(program, *map(str, evaluation))
        found = json.loads((report / "results.json").read_text())
        blind = found["agents"]["blind"]["spl"]
        print(f"SPL {found['spl']:.3f}, success {found['success']:.3f}, SPL of the blind agent {blind:.3f}")
        if found["episodes"] != EPISODES or (
            found["spl"] < LEAST_SPL or found["success"] < LEAST_SUCCESS or found["spl"] - blind < LEAST_ABOVE_BLIND
        ):
            limits = f"SPL {LEAST_SPL}, success {LEAST_SUCCESS}, SPL above the blind agent {LEAST_ABOVE_BLIND}"
            repeat = f"{program} evaluate --agents blind --episodes {EPISODES} --out report"
            raise FailedStage(Problem(f"the shipped policy is below {limits}", repeat))

    def _release(self) -> None:
        dist, fresh = self.work / "dist", self.work / "wheel"
        self.command(self.tools / "bin" / "python", ".ci/release.py", dist)
        self.make_venv(fresh)
        self.command(fresh / "bin" / "pip", "install", *dist.glob("*.whl"))
        smoke = ("-I", ROOT / ".ci" / "smoke.py", PROJECT["version"])
        self.command(fresh / "bin" / "python", *smoke, cwd=self.work)


if __name__ == "__main__":
    sys.exit(Gate().main(__doc__))
