"""Run the notebooks from top to bottom and keep their outputs, without warnings and with small pictures, stored once.

python notebooks/run.py                 # all
python notebooks/run.py quickstart
"""

from __future__ import annotations

import argparse
import base64
import io
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def make_small(data: dict[str, str]) -> None:
    """Encode an output's figures with a palette, and the JPEGs in its HTML anew, where that makes them smaller."""

    def palette(encoded: str) -> str:
        figure = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
        figure.quantize(128, dither=Image.Dither.NONE).save(small := io.BytesIO(), "PNG", optimize=True)
        return min(base64.b64encode(small.getvalue()).decode(), encoded, key=len)

    def jpeg(found: re.Match[str]) -> str:
        picture = Image.open(io.BytesIO(base64.b64decode(found[1])))
        picture.save(small := io.BytesIO(), "JPEG", quality=75, subsampling=0, optimize=True)
        return f"data:image/jpeg;base64,{min(base64.b64encode(small.getvalue()).decode(), found[1], key=len)}"

    if "image/png" in data:
        data["image/png"] = palette(data["image/png"])
    if "text/html" in data:
        data["text/html"] = re.sub("data:image/jpeg;base64,([A-Za-z0-9+/=]+)", jpeg, data["text/html"])


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
                make_small(data)
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
