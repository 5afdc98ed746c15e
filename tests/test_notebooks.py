"""The notebooks run from top to bottom, are kept with their pictures, and define nothing."""

import ast
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEEDS = {
    "rendering": [pytest.mark.opengl],
    "train": [pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")],
}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
MAX_BYTES = 1_500_000  # Pillow gives every picture as PNG and as JPEG: keep one of them
PICTURES = ("image/png", "image/jpeg", "image/gif")


def missing(cell):
    """The modules that a cell is tagged to need, as in ``needs-torch``, and that are not installed."""
    tags = cell.metadata.get("tags", ())
    return [tag for tag in tags if tag.startswith("needs-") and find_spec(tag.removeprefix("needs-")) is None]


def code_of(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


@pytest.mark.long
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=NEEDS.get(path.stem, ())) for path in NOTEBOOKS]
)
def test_it_runs(path, tmp_path):
    """Cells that need what is not installed are left out; nox runs them where it is."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if not missing(cell)]
    resources = {"metadata": {"path": tmp_path / "notebooks"}}
    NotebookClient(notebook, timeout=540, kernel_name="python3", resources=resources).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_with_its_pictures_and_defines_nothing(path):
    outputs = [output for cell in code_of(path) for output in cell.outputs]
    shown = [output.get("data", {}) for output in outputs]
    assert sum("<img" in data.get("text/html", "") or any(kind in data for kind in PICTURES) for data in shown) >= 3
    assert all(output.output_type != "error" and output.get("name") != "stderr" for output in outputs)
    assert path.stat().st_size < MAX_BYTES
    for cell in code_of(path):
        assert not [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, DEFINITIONS)], cell.source
