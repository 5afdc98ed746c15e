"""The site: its pages, figures and API exist, and what its tables say about the repository is so."""

import ast
import re
import runpy
from pathlib import Path

import pytest

import gym_batchnav

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
ENTRIES = [
    pytest.param(entry, id=entry)
    for page in sorted((DOCS / "api").glob("*.md"))
    for entry in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)
]
MAX_README = 100  # lines: two screens
MAX_USE = 30  # lines of the README's program


def settings():
    return (ROOT / "pyproject.toml").read_text()


def test_the_navigation_has_every_page_once():
    named = re.findall(r"[\w/.]+\.md", (ROOT / "mkdocs.yml").read_text())
    assert len(PAGES) > 20
    assert sorted(name for name in named if not name.startswith("repository/")) == PAGES
    for name in named:
        assert not name.startswith("repository/") or (ROOT / name.removeprefix("repository/")).is_file()


def test_figures_are_those_that_the_command_draws(tmp_path):
    drawings = runpy.run_path(str(DOCS / "tools" / "drawings.py"))
    drawings["main"](tmp_path)
    drawn = sorted(tmp_path.iterdir())
    assert [path.name for path in drawn] == ["autoreset.svg", "slots.svg", "step.svg"]
    for path in drawn:
        assert path.read_text() == (DOCS / "images" / path.name).read_text()


def test_every_figure_is_shown():
    shown = {Path(link).name for page in (*DOCS.glob("*.md"), ROOT / "README.md")
             for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())}  # fmt: skip
    assert shown == {path.name for path in (DOCS / "images").iterdir()}


def defined_in(module):
    """The names of the classes and functions at the top of a module, by its path without an ending; None if missing."""
    files = [path for path in (module.with_suffix(".py"), module / "__init__.py") if path.is_file()]
    if not files:
        return None
    nodes = ast.parse(files[0].read_text()).body
    return {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_of_the_api_exists(entry):
    module, _, name = entry.rpartition(".")
    inside = defined_in(ROOT / Path(*module.split(".")))
    assert name in (inside or ()) or defined_in(ROOT / Path(*entry.split("."))) is not None


def test_the_api_has_every_public_name():
    found = {entry.values[0].rpartition(".")[2] for entry in ENTRIES}
    assert set(gym_batchnav.__all__) - {"__version__"} <= found


def test_every_message_of_the_troubleshooting_page_exists():
    page = (DOCS / "troubleshooting.md").read_text().partition("## No message")[0]
    messages = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)
    sources = "\n".join(path.read_text() for path in (ROOT / "gym_batchnav").rglob("*.py"))
    assert len(messages) > 40
    assert [one for one in messages if one not in sources] == []


def test_the_readme_is_short_and_its_commands_are_two():
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert len(text.splitlines()) <= MAX_README
    assert [len(body.splitlines()) for language, body in blocks if language == "bash"] == [2]
    assert all(len(body.splitlines()) <= MAX_USE for language, body in blocks if language == "python")


def test_every_dependency_has_a_licence_in_the_table():
    page = (DOCS / "licences.md").read_text()
    needed = settings().partition("dependencies = [")[2].partition("[project.scripts]")[0]
    names = set(re.findall(r'"([A-Za-z][\w-]*)(?:\[[\w,]+\])?>=', needed))
    assert len(names) > 40
    for name in names:
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", page, flags=re.IGNORECASE), name


def test_the_citation_is_of_this_version():
    (cited,) = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    (own,) = re.findall(r'^version = "(\S+)"$', settings(), flags=re.MULTILINE)
    assert cited == own
