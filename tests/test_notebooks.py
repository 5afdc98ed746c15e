"""The notebooks run from top to bottom and are kept with their pictures."""

from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
NEEDS = {
    "rendering": [pytest.mark.opengl],
    "train": [pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")],
}


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=NEEDS.get(path.stem, ())) for path in NOTEBOOKS]
)
def test_it_runs(path, tmp_path):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_with_its_pictures_and_defines_nothing(path):
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    pictures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    assert len(pictures) >= 3
    assert all(output.output_type != "error" for cell in code for output in cell.outputs)
    assert not any(line.startswith(("def ", "class ")) for cell in code for line in cell.source.splitlines())
