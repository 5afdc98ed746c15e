"""Run the notebooks from top to bottom and keep their outputs, without warnings and without pictures stored twice.

python notebooks/run.py                 # all
python notebooks/run.py quickstart
"""

from __future__ import annotations

import argparse
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def run(path: Path) -> None:
    """Run a notebook and write it back with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": FOLDER}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ in every run
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                data = output.get("data", {})
                if data.keys() & {"image/jpeg", "text/html"}:  # the same picture once more
                    data.pop("image/png", None)
    nbformat.write(notebook, path)


def main() -> None:
    """Run the notebooks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"any of {', '.join(NAMES)}")
    for name in parser.parse_args().names:
        run(FOLDER / f"{name}.ipynb")
        print(f"{name}: {(FOLDER / f'{name}.ipynb').stat().st_size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
