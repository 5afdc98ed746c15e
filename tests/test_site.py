"""The site: its pages, figures and API exist, and what its tables say about the repository is so."""

import ast
import re
import runpy
from pathlib import Path

import gym_batchnav

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
ENTRIES = [
    entry
    for page in sorted((DOCS / "api").glob("*.md"))
    for entry in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)
]


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


def test_the_api_has_every_public_name_and_nothing_that_does_not_exist():
    for entry in ENTRIES:
        module, _, name = entry.rpartition(".")
        inside = defined_in(ROOT / Path(*module.split(".")))
        assert name in (inside or ()) or defined_in(ROOT / Path(*entry.split("."))) is not None, entry
    found = {entry.rpartition(".")[2] for entry in ENTRIES}
    assert set(gym_batchnav.__all__) - {"__version__"} <= found


def test_every_message_of_the_troubleshooting_page_exists():
    page = (DOCS / "troubleshooting.md").read_text().partition("## No message")[0]
    messages = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)
    sources = "\n".join(path.read_text() for path in (ROOT / "gym_batchnav").rglob("*.py"))
    assert len(messages) > 40
    assert [one for one in messages if one not in sources] == []


def test_every_dependency_has_a_licence_in_the_table():
    page = (DOCS / "licences.md").read_text()
    needed = (ROOT / "pyproject.toml").read_text().partition("dependencies = [")[2].partition("[project.scripts]")[0]
    names = set(re.findall(r'"([A-Za-z][\w-]*)(?:\[[\w,]+\])?>=', needed))
    assert len(names) > 40
    for name in names:
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", page, flags=re.IGNORECASE), name
