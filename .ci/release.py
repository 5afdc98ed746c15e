"""Build the files of a release into a folder and check them: ``python .ci/release.py dist``. Nothing is uploaded.

It needs build and twine. There must be one wheel and one sdist of the version in pyproject.toml, each below 10 MB,
which hold what the repository tracks and nothing else. CHANGELOG.md and CITATION.cff must name the version.
"""

from __future__ import annotations

import argparse
import email
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKAGE = "gym_batchnav"
MAX_BYTES = 10_000_000
NEEDED = (
    "py.typed",
    "train/presets/pointnav_depth.toml",
    "assets/apartment_0.glb",
    "assets/pointnav_depth.safetensors",
)
BESIDES = ("README.md", "CHANGELOG.md", "SECURITY.md", "CITATION.cff", "LICENSE", "pyproject.toml", ".gitignore")


def main() -> None:
    """Build into the folder that the command line names, and check; exit with the list of what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the wheel and the sdist; what it holds is removed")
    folder = parser.parse_args().folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    # The wheel is built from the sdist.
    subprocess.run([sys.executable, "-m", "build", "--outdir", folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *folder.iterdir()], check=True)
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    wrong = problems(folder, ROOT, tracked.stdout.splitlines())
    for path in sorted(folder.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")
    sys.exit("\n".join(wrong) if wrong else None)


def problems(folder: Path, root: Path, tracked: list[str]) -> list[str]:
    """Return sentences that say what is wrong with the files of a release.

    Args:
        folder: Folder of the wheel and the sdist.
        root: Folder of the repository.
        tracked: Paths of its files, relative and with "/".
    """
    version = _found(r'^version = "(\S+)"$', root / "pyproject.toml")
    wheel = folder / f"{PACKAGE}-{version}-py3-none-any.whl"
    sdist = folder / f"{PACKAGE}-{version}.tar.gz"
    present = sorted(path.name for path in folder.iterdir())
    if present != sorted([wheel.name, sdist.name]):
        return [f"'{folder}' holds {', '.join(present) or 'nothing'}, not {wheel.name} and {sdist.name} alone"]
    wrong = [
        f"{path.name} has {path.stat().st_size:,} bytes, more than {MAX_BYTES:,}"
        for path in (wheel, sdist)
        if path.stat().st_size > MAX_BYTES
    ]
    wrong += _differences(wheel.name, _in_wheel(wheel), wheel_files(tracked))
    wrong += _differences(sdist.name, _in_sdist(sdist), sdist_files(tracked))
    wrong += [f"{wheel.name} lacks {name}" for name in NEEDED if f"{PACKAGE}/{name}" not in _in_wheel(wheel)]
    wrong += _wrong_metadata(wheel, root)
    if _found(r"^version: (\S+)$", root / "CITATION.cff") != version:
        wrong.append(f"CITATION.cff is not of version {version}")
    date = _found(r'^date-released: "(\S+)"$', root / "CITATION.cff")
    if f"\n## {version} ({date})\n" not in (root / "CHANGELOG.md").read_text(encoding="utf-8"):
        wrong.append(f"CHANGELOG.md has no section '## {version} ({date})', the version and CITATION.cff's date")
    return wrong


def wheel_files(tracked: list[str]) -> set[str]:
    """Return the files that belong into the wheel, besides its metadata."""
    assets = {f"{PACKAGE}/{path}" for path in tracked if path.startswith("assets/")}
    return assets | {path for path in tracked if path.startswith(f"{PACKAGE}/")}


def sdist_files(tracked: list[str]) -> set[str]:
    """Return the files that belong into the sdist, besides its metadata."""
    return {path for path in tracked if path.startswith((f"{PACKAGE}/", "assets/")) or path in BESIDES}


def _in_wheel(path: Path) -> set[str]:
    """Return the files of a wheel, without the folder of its metadata."""
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if not name.endswith("/")]
    return {name for name in names if not PurePosixPath(name).parts[0].endswith(".dist-info")}


def _in_sdist(path: Path) -> set[str]:
    """Return the files of an sdist, without its top folder and without what the build adds."""
    with tarfile.open(path) as sdist:
        names = {member.name.partition("/")[2] for member in sdist if not member.isdir()}
    return names - {"PKG-INFO"}


def _differences(name: str, found: set[str], expected: set[str]) -> list[str]:
    """Return what is missing in an archive and what should not be there."""
    missing = [f"{name} lacks {path}" for path in sorted(expected - found)]
    return missing + [f"{name} holds {path}, which does not belong there" for path in sorted(found - expected)]


def _wrong_metadata(path: Path, root: Path) -> list[str]:
    """Return what is wrong with a wheel's metadata."""
    with zipfile.ZipFile(path) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata: Message = email.message_from_bytes(wheel.read(name))
        files = wheel.namelist()
        points = [wheel.read(name).decode() for name in files if name.endswith(".dist-info/entry_points.txt")]
    wrong = []
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in files):
        wrong.append(f"{path.name} lacks the licence")
    if "gym-batchnav = gym_batchnav.cli:main" not in "".join(points):
        wrong.append(f"{path.name} has no command gym-batchnav")
    if metadata["License-Expression"] != "MIT" or not metadata["Requires-Python"]:
        wrong.append(f"{path.name} names no licence or no versions of Python")
    readme = (root / "README.md").read_text(encoding="utf-8")
    if readme.strip() not in str(metadata.get_payload()).replace("\r\n", "\n"):
        wrong.append(f"{path.name} does not describe itself by README.md")
    return wrong


def _found(pattern: str, path: Path) -> str:
    """Return the only match of a pattern in a file."""
    matches = re.findall(pattern, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if len(matches) != 1:
        sys.exit(f"{path.name} has {len(matches)} lines like {pattern!r}, not one")
    return str(matches[0])


if __name__ == "__main__":
    main()
