"""The site: its pages, figures and API exist, and what its tables say about the repository is so."""

import ast
import re
import runpy
from pathlib import Path

import pytest

import gym_batchnav
from gym_batchnav import viz

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
    """The public names that a module, given as in an import, defines at its top; None if there is no such module."""
    path = ROOT / Path(*module.split("."))
    files = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    if not files:
        return None
    names = set()
    for node in ast.parse(files[0].read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names.add(ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target))
    return {name for name in names if not name.startswith("_")}


def test_the_api_has_every_public_name_and_nothing_that_does_not_exist():
    for entry in ENTRIES:
        module, _, name = entry.rpartition(".")
        assert name in (defined_in(module) or ()) or defined_in(entry) is not None, entry
    found = {entry.rpartition(".")[2] for entry in ENTRIES}
    assert set(gym_batchnav.__all__) <= set(dir(gym_batchnav))
    assert set(gym_batchnav.__all__) - {"__version__"} <= found


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.glob("*.md"))], ids=lambda page: page.stem)
def test_the_api_has_what_a_page_names_of_a_module_that_it_names(page):
    code = re.findall(r"^```python\n.*?^```|`[^`\n]+`", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    words = {word for text in code for word in re.findall(r"(?<!-)\b[\w.]+", text)}
    modules = {one for word in words if word.startswith("gym_batchnav.") for one in (word, word.rpartition(".")[0])}
    names = {f"{module}.{name}": {name, f"{module}.{name}"} for module in modules for name in defined_in(module) or ()}
    used = {name for name, spellings in names.items() if spellings & words and name.rpartition(".")[0] not in ENTRIES}
    used |= {f"{getattr(viz, name).__module__}.{name}" for name in viz.__all__ if f"viz.{name}" in words}
    assert used <= set(ENTRIES)


def test_the_live_window_has_the_labels_that_its_page_names():
    labels = re.findall(r"(?<!\*)\*([A-Z][a-z ]+)\*(?!\*)", (DOCS / "window.md").read_text())
    sources = "\n".join(path.read_text() for path in (ROOT / "gym_batchnav" / "viz" / "window").glob("*.py"))
    assert len(labels) > 8
    assert [label for label in labels if f'"{label}"' not in sources] == []
    assert "picked agent" not in sources  # the page says "selected"


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
