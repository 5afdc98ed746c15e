"""The check of a release finds what is wrong with wheels and sdists."""

import io
import re
import runpy
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHECK = runpy.run_path(str(ROOT / ".ci" / "release.py"))
WHEEL = "gym_batchnav-1.2.3-py3-none-any.whl"
SDIST = "gym_batchnav-1.2.3.tar.gz"
METADATA = "gym_batchnav-1.2.3.dist-info/METADATA"
TOP = {
    "README.md": "# A title\n\nWhat it is.\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2030-01-02)\n\n- All.\n",
    "CITATION.cff": 'version: 1.2.3\ndate-released: "2030-01-02"\n',
    "pyproject.toml": '[project]\nversion = "1.2.3"\n',
    "LICENSE": "MIT",
}
TRACKED = [
    *TOP,
    *(f"gym_batchnav/{name}" for name in CHECK["NEEDED"] if not name.startswith("assets/")),
    *(name for name in CHECK["NEEDED"] if name.startswith("assets/")),
    "gym_batchnav/__init__.py",
    "tests/test_it.py",
]


@pytest.fixture
def release(tmp_path):
    """A repository, and the files of its wheel and of its sdist, in which nothing is wrong."""
    for name, text in TOP.items():
        (tmp_path / name).write_text(text)
    wheel = dict.fromkeys(CHECK["wheel_files"](TRACKED), b"")
    about = f"Version: 1.2.3\nLicense-Expression: MIT\nRequires-Python: >=3.10\n\n{TOP['README.md']}"
    wheel[METADATA] = about.encode()
    wheel["gym_batchnav-1.2.3.dist-info/entry_points.txt"] = (
        b"[console_scripts]\ngym-batchnav = gym_batchnav.cli:main\n"
    )
    wheel["gym_batchnav-1.2.3.dist-info/licenses/LICENSE"] = b"MIT"
    sdist = dict.fromkeys([*CHECK["sdist_files"](TRACKED), "PKG-INFO"], b"")
    return tmp_path, wheel, sdist


def problems(root, wheel, sdist):
    folder = root / "dist"
    folder.mkdir()
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        for name, data in wheel.items():
            archive.writestr(name, data)
    with tarfile.open(folder / SDIST, "w:gz") as archive:
        for name, data in sdist.items():
            member = tarfile.TarInfo(f"gym_batchnav-1.2.3/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return CHECK["problems"](folder, root, TRACKED)


def test_a_complete_release_has_no_problems(release):
    assert problems(*release) == []


def test_what_is_missing_and_what_does_not_belong_there_is_named(release):
    root, wheel, sdist = release
    name = CHECK["NEEDED"][-1]
    del wheel[f"gym_batchnav/{name}"]
    wheel["tests/test_it.py"] = b""
    sdist["shared/scene.glb"] = b""
    assert {
        f"{WHEEL} lacks gym_batchnav/{name}",
        f"{WHEEL} holds tests/test_it.py, which does not belong there",
        f"{SDIST} holds shared/scene.glb, which does not belong there",
    } <= set(problems(root, wheel, sdist))


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("CITATION.cff", 'version: 1.2.2\ndate-released: "2030-01-02"\n', "CITATION.cff is not of version 1.2.3"),
        ("CHANGELOG.md", "\n## Unreleased\n", "CHANGELOG.md has no section '## 1.2.3 (2030-01-02)'"),
        ("README.md", "# Another text\n", "does not describe itself by README.md"),
    ],
)
def test_files_of_another_version_are_named(release, file, text, problem):
    root, wheel, sdist = release
    (root / file).write_text(text)
    (found,) = problems(root, wheel, sdist)
    assert problem in found


def test_the_changelog_has_the_version_and_its_date():
    settings = (ROOT / "pyproject.toml").read_text()
    (version,) = re.findall(r'^version = "(\S+)"$', settings, flags=re.MULTILINE)
    (date,) = re.findall(r'^date-released: "(\S+)"$', (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert f"\n## {version} ({date})\n" in (ROOT / "CHANGELOG.md").read_text()
