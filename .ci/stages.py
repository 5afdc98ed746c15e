"""Stages of a long check: all run, whatever fails, and the end names every failure with the command that repeats it.

A stage that passed is marked for the commit, and the same clone does not repeat it. Marks and what stages make lie in a
folder of the clone under ``~/.cache/gym_batchnav-ci``; another clone begins with an empty one.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FLAKY = ROOT / ".ci" / "flaky.txt"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "gym_batchnav-ci"
DATA = Path(os.environ.get("GYM_BATCHNAV_TEST_DATA", ROOT.parent / "shared"))
MAX_SECONDS = 3600.0  # of one command: a hang, not a slow machine
MAX_REPEATS = 10  # more failed tests are not an accident, and are not repeated
SHOWN = 12  # reasons of skipped tests in the summary


class Problem(NamedTuple):
    """Something that failed, and the command that repeats it."""

    what: str
    repeat: str


class FailedStage(Exception):
    """A stage failed."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(problem.what for problem in problems))


class Stage(NamedTuple):
    """A part of the check.

    Attributes:
        name: Its name on the command line.
        title: What it checks and how long it takes on two slow cores.
        run: Raises an exception if something fails.
        needs: Stages without which it cannot run.
        makes: A file or folder that later stages use. A mark without it does not count.
    """

    name: str
    title: str
    run: Callable[[], None]
    needs: tuple[str, ...] = ()
    makes: Path | None = None


@dataclass
class Report:
    """Outcomes that the end of a check prints."""

    passed: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    skipped: dict[str, dict[str, str]] = field(default_factory=dict)  # reasons by test, by the stage that ran it


def work_folder() -> Path:
    """Return the folder of this clone, known by a name that is kept in its .git; folders of lost clones are removed."""
    git = output_of("git", "rev-parse", "--absolute-git-dir")
    token = Path(git) / "gym_batchnav-ci" if git else CACHE / "without-git"
    if not token.is_file():
        token.parent.mkdir(parents=True, exist_ok=True)
        token.write_text(uuid.uuid4().hex)
    name = token.read_text().strip()
    for other in CACHE.glob("*/token"):
        path = Path(other.read_text())
        if other.parent.name != name and (not path.is_file() or path.read_text().strip() != other.parent.name):
            shutil.rmtree(other.parent, ignore_errors=True)
    work = CACHE / name
    work.mkdir(parents=True, exist_ok=True)
    (work / "token").write_text(str(token))
    return work


def output_of(*command: str) -> str:
    """Return what a command in the repository prints, empty if it fails."""
    try:
        return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def clean_commit() -> str:
    """Return the commit of the working tree, empty if files differ from it; the list of flaky tests may."""
    status = output_of("git", "status", "--porcelain")
    differs = any(not line.endswith(".ci/flaky.txt") for line in status.splitlines())
    return "" if differs else output_of("git", "rev-parse", "HEAD")


class Check:
    """Runs stages in their order and reports. A subclass fills ``stages``.

    Args:
        name: Of its script in .ci: ``run`` or ``long``.
        constraints: The file in .ci that pins what is installed.
    """

    def __init__(self, name: str, constraints: str) -> None:
        self.script = f"bash .ci/{name}"
        self.work = work_folder() / name
        self.tools = self.work / "tools"
        self.venv = self.work / "venv"
        self.caches = (self.work / "numba", self.work / "cache")
        self.stages: list[Stage] = []
        self.report = Report()
        self._begun = time.monotonic()
        required = "opengl,data" if (DATA / "scenes").is_dir() else "opengl"  # what no test may be skipped for lack of
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
        self.env = kept | {
            "VIRTUAL_ENV": str(self.venv),
            "PATH": f"{self.venv / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin",
            "GYM_BATCHNAV_REQUIRE": os.environ.get("GYM_BATCHNAV_REQUIRE", required),
            "GYM_BATCHNAV_TEST_DATA": str(DATA),
            # Kernels are compiled once: environments with the same versions share them.
            "NUMBA_CACHE_DIR": str(self.caches[0]),
            "GYM_BATCHNAV_CACHE": str(self.caches[1]),
            "PIP_CONSTRAINT": str(ROOT / ".ci" / constraints),
            "PIP_COMPILE": "0",  # most modules that are installed are never imported
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_QUIET": "1",
            "PIP_RETRIES": "10",
            # Idle threads sleep instead of spinning: several processes share two cores.
            "OMP_WAIT_POLICY": "passive",
        }

    def main(self, description: str | None) -> int:
        """Run the stages that the command line names; return the exit code."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        parser = argparse.ArgumentParser(
            prog=self.script, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("stages", nargs="*", metavar="STAGE", help="run these alone, and what they need")
        parser.add_argument("--from", dest="first", metavar="STAGE", help="run this stage and all that follow")
        parser.add_argument("--again", action="store_true", help="repeat what passed on this commit")
        parser.add_argument("--list", action="store_true", help="list the stages")
        options = parser.parse_args()
        names = [stage.name for stage in self.stages]
        for name in (*options.stages, *filter(None, [options.first])):
            if name not in names:
                parser.error(f"unknown stage '{name}'; available: {', '.join(names)}")
        if options.list:
            print("\n".join(f"{stage.name:16} {stage.title}" for stage in self.stages))
            return 0
        first = names.index(options.first) if options.first else 0
        return self.run(options.stages or names[first:], options.again)

    def run(self, chosen: Sequence[str], again: bool) -> int:
        """Run the chosen stages, and those that make what they need; return the exit code."""
        commit = clean_commit()
        marks = self.work / "marks" / commit if commit else None
        chosen = self._with_needs(chosen)
        print(f"== stages: {', '.join(chosen)}; in {self.work}")
        ran: set[str] = set()
        failed: set[str] = set()
        for stage in self.stages:
            if stage.name not in chosen:
                continue
            mark = marks / stage.name if marks else None
            lost = failed & set(stage.needs)
            if lost:
                failed.add(stage.name)
                problem = Problem(
                    f"{stage.name}: not run, because it needs {', '.join(sorted(lost))}", self._again(stage)
                )
                self.report.problems.append(problem)
            elif mark and mark.is_file() and not again and not ran & set(stage.needs) and self._is_made(stage):
                print(f"== {stage.name}: passed on this commit already (--again repeats it)")
                self.report.passed.append(stage.name)
            else:
                ran.add(stage.name)
                if mark:
                    mark.unlink(missing_ok=True)
                if not self._passes(stage):
                    failed.add(stage.name)
                elif mark:
                    mark.parent.mkdir(parents=True, exist_ok=True)
                    mark.touch()
        self._summary()
        if len(self.report.passed) == len(self.stages):  # a whole run leaves its marks alone
            for folder in (self.tools, self.venv, *self.caches):
                shutil.rmtree(folder, ignore_errors=True)
        return 1 if self.report.problems else 0

    def _with_needs(self, chosen: Sequence[str]) -> list[str]:
        """Return the chosen stages and those whose products they need and which are missing, in order."""
        wanted = set(chosen)
        by_name = {stage.name: stage for stage in self.stages}
        for stage in reversed(self.stages):
            if stage.name in wanted:
                wanted |= {name for name in stage.needs if not self._is_made(by_name[name])}
        return [stage.name for stage in self.stages if stage.name in wanted]

    def _is_made(self, stage: Stage) -> bool:
        return stage.makes is None or stage.makes.exists()

    def _again(self, stage: Stage) -> str:
        return f"{self.script} --again {stage.name}"

    def _passes(self, stage: Stage) -> bool:
        """Run a stage; record what fails."""
        begun = time.monotonic()
        print(f"\n== [{(begun - self._begun) / 60:.1f} min] {stage.name}: {stage.title}")
        problems: Sequence[Problem] = ()
        try:
            stage.run()
        except FailedStage as error:
            problems = error.problems
        except Exception as error:  # of the check itself
            traceback.print_exc(file=sys.stdout)
            problems = [Problem(f"{type(error).__name__}: {error}", self._again(stage))]
        self.report.problems += [Problem(f"{stage.name}: {what}", repeat) for what, repeat in problems]
        if not problems:
            self.report.passed.append(stage.name)
        print(f"== {stage.name} {'FAILED' if problems else 'passed'} in {time.monotonic() - begun:.0f} s")
        return not problems

    def _summary(self) -> None:
        report = self.report
        print(f"\n== {(time.monotonic() - self._begun) / 60:.1f} min; passed: {', '.join(report.passed) or 'nothing'}")
        reasons: dict[str, int] = {}
        for reason in itertools.chain.from_iterable(skipped.values() for skipped in report.skipped.values()):
            reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in sorted(reasons.items(), key=lambda item: -item[1])[:SHOWN]:
            print(f"skipped: {count} x {reason}")
        for test in report.flaky:
            print(
                f"FLAKY {test}\n  failed, then passed alone; it is listed in .ci/flaky.txt: mend it and empty the file"
            )
        for what, repeat in report.problems:
            print(f"FAILED {what}\n  {repeat}")
        print("== FAILED" if report.problems else "== passed")

    def bin(self, name: str) -> Path:
        """Return the path of a program of the environment."""
        return self.venv / "bin" / name

    def make_venv(self, folder: Path) -> None:
        """Make an empty environment."""
        shutil.rmtree(folder, ignore_errors=True)
        self.command(sys.executable, "-m", "venv", folder)

    def install_mesa(self) -> None:
        """Install OpenGL where EGL is missing; ldconfig lives in /usr/sbin, which is not on everybody's path."""
        libraries = subprocess.run(["ldconfig", "-p"], env=self.env, capture_output=True, text=True, check=True)
        if "libEGL_mesa" not in libraries.stdout:
            self.apt_install("libegl1", "libgl1-mesa-dri")

    def apt_install(self, *packages: str) -> None:
        """Install packages of Debian or Ubuntu."""
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        apt = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y"]
        self.command(*apt, "update")
        self.command(*apt, "install", "--no-install-recommends", *packages)

    def all_of(self, *parts: Callable[[], None]) -> None:
        """Run all parts of a stage, also after one that fails."""
        problems: list[Problem] = []
        for part in parts:
            try:
                part()
            except FailedStage as error:
                problems += error.problems
        if problems:
            raise FailedStage(*problems)

    def command(self, *command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> None:
        """Run a command; raise FailedStage if it fails or hangs."""
        words = [str(word) for word in command]
        code = self._code_of(words, cwd, env or {})
        if code:
            raise FailedStage(Problem(f"exit code {code} of {words[0].rpartition('/')[2]}", shlex.join(words)))

    def _code_of(self, words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> int:
        """Run a command in a new process group, which is killed if it hangs; return its exit code."""
        print(f"+ {shlex.join(words)}")
        with subprocess.Popen(
            words, cwd=cwd, env={**self.env, **env}, stdin=subprocess.DEVNULL, start_new_session=True
        ) as process:
            try:
                return process.wait(MAX_SECONDS)
            except BaseException as error:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    print(f"killed after {MAX_SECONDS:.0f} s")
                    return -signal.SIGKILL
                raise

    def tests(self, name: str, *command: str | Path, profile: str = "fixed") -> None:
        """Run a command that runs pytest. What fails is run once more, alone; what then passes is listed as flaky.

        Args:
            name: Of the stage, for the file that keeps the outcomes.
            command: The command.
            profile: Of Hypothesis, which chooses its examples (tests/conftest.py).
        """
        outcomes = self.outcomes(name)
        outcomes.unlink(missing_ok=True)
        code = self._code_of([str(word) for word in command], ROOT, self._options(outcomes, profile))
        if not outcomes.is_file():
            raise FailedStage(Problem(f"exit code {code} without a result", shlex.join(map(str, command))))
        found = json.loads(outcomes.read_text())
        self.report.skipped[name] = found["skipped"]
        failed = found["failed"]
        if code not in (0, 1) or len(failed) > MAX_REPEATS or (code and not failed):
            repeats = [Problem(test, self._alone(test, profile)) for test in failed[:MAX_REPEATS]]
            raise FailedStage(
                Problem(f"exit code {code}, {len(failed)} failed", shlex.join(map(str, command))), *repeats
            )
        listed = FLAKY.read_text().splitlines()
        left = []
        for test in failed:
            alone = [str(self.bin("pytest")), "-n", "0", "-m", "", test]
            if test in listed or self._code_of(alone, ROOT, self._options(self.outcomes("alone"), profile)):
                left.append(Problem(test, self._alone(test, profile)))
            else:
                self.report.flaky.append(test)
                with FLAKY.open("a") as file:
                    file.write(f"{test}\n")
        if left:
            raise FailedStage(*left)

    def outcomes(self, name: str) -> Path:
        """Return the file that keeps the outcomes of tests."""
        folder = self.work / "outcomes"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.json"

    def _options(self, outcomes: Path, profile: str) -> dict[str, str]:
        """Return the variable by which pytest learns which examples to use, and where to keep the outcomes."""
        return {"PYTEST_ADDOPTS": f"--hypothesis-profile={profile} --outcomes={shlex.quote(str(outcomes))}"}

    def _alone(self, test: str, profile: str) -> str:
        return f"{self.bin('pytest')} -n 0 -m '' --hypothesis-profile={profile} {shlex.quote(test)}"
