"""``gym-batchnav data``: known datasets, where they come from, and checks of copies."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from gym_batchnav.datasets import CopyReport, Dataset

data = typer.Typer(
    help="Known datasets of scenes and episodes: where they come from, and what a copy lacks.", no_args_is_help=True
)

_SHOWN = 5  # names of scenes or files in a line


@data.command("list")
def list_datasets(
    name: Annotated[str | None, typer.Argument(help="Name of a dataset (default: a table of all).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """List the known datasets with their terms, or tell where one comes from and how its folder looks.

    Example: gym-batchnav data list hm3d
    """
    from gym_batchnav.datasets import dataset_named, datasets

    chosen = list(datasets().values()) if name is None else [dataset_named(name)]
    if as_json:
        print(json.dumps([asdict(dataset) for dataset in chosen]))
    elif name is not None:
        _print_dataset(chosen[0])
    else:
        table = Table("name", "dataset", "terms", "download", header_style="bold")
        for one in chosen:
            table.add_row(one.name, one.title, one.licence, "yes" if one.can_be_downloaded else "see its page")
        Console().print(table)
        print("gym-batchnav data list NAME tells how to get one, gym-batchnav data check FOLDER what a copy lacks.")


@data.command()
def check(
    folder: Annotated[Path, typer.Argument(help="Folder of a copy of a dataset.")],
    dataset: Annotated[
        str | None, typer.Option(help="Name of the dataset; recognized by the folder's layout by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Tell what a copy of a dataset has, what it lacks, and which files are damaged.

    The exit status is 1 if something that scenes need is missing, or a file is damaged. To compare two copies byte by
    byte, use sha256sum.

    Example: gym-batchnav data check hm3d
    """
    from gym_batchnav.datasets import check_copy, dataset_named, datasets, list_files, recognize
    from gym_batchnav.system.progress import late_progress

    files = list_files(folder)
    fitting = recognize(files) if dataset is None else [dataset_named(dataset)]
    if not fitting:
        names = ", ".join(datasets())
        raise ValueError(f"the layout of '{folder}' is that of no known dataset: pass --dataset, one of {names}")
    known = fitting[0]
    if len(fitting) > 1:
        names = ", ".join(one.name for one in fitting)
        Console(stderr=True, soft_wrap=True).print(
            f"note: {names} have the same layout: pass --dataset for another one than {known.name}", highlight=False
        )
    with late_progress("Reading headers of files", len(files)) as done:
        report = check_copy(folder, known, done)
    if as_json:
        print(json.dumps({**asdict(report), "is_usable": report.is_usable}))
    else:
        _print_report(folder, report)
    if not report.is_usable:
        raise typer.Exit(1)


@data.command()
def download(
    name: Annotated[str, typer.Argument(help="Name of a dataset that needs no form, see `gym-batchnav data list`.")],
    out: Annotated[Path, typer.Option(help="Folder for its files.")],
) -> None:
    """Download a dataset that anybody may have; run it again to resume an interrupted download.

    Example: gym-batchnav data download pointnav-gibson-v1 --out data/datasets/pointnav/gibson/v1
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from gym_batchnav.datasets import dataset_named
    from gym_batchnav.datasets import download as fetch_dataset

    dataset = dataset_named(name)
    console = Console(stderr=True, soft_wrap=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=bool(dataset.repository)) as bar:
        task = bar.add_task(name, total=None)
        fetch_dataset(dataset, out, lambda done, total: bar.update(task, completed=done, total=total or None))
    console.print(f"{dataset.title} is in '{out}'; terms: {dataset.licence}", markup=False, highlight=False)


def _print_dataset(dataset: Dataset) -> None:
    """Print where a dataset comes from and how its folder looks, without breaks, so that addresses can be copied."""
    rows = [("dataset", dataset.title), ("terms", dataset.licence), ("page", dataset.page), ("access", dataset.access)]
    if dataset.can_be_downloaded:
        rows.append(("download", f"gym-batchnav data download {dataset.name} --out {dataset.name}"))
    if dataset.num_scenes:
        rows.append(("scenes", _counts(dataset)))
    for row, files in enumerate(dataset.layout):
        wanted = files.content if files.need == "needed" else f"{files.content} (optional)"
        rows.append(("layout" if row == 0 else "", f"{files.pattern}: {wanted}"))
    rows.append(("use", f"BatchNavEnv(N, {dataset.usage.format(folder=dataset.name)})"))
    for label, text in rows:
        print(f"{label:<10}{text}")


def _print_report(folder: Path, report: CopyReport) -> None:
    """Print a table of the files of a copy, what is missing, and how to get it."""
    from gym_batchnav.system.wording import counted

    dataset = report.dataset
    console = Console(soft_wrap=True, markup=False, highlight=False)
    console.print(f"'{folder}' has the layout of {dataset.name} and {counted(len(report.scenes), 'scene')}")
    table = Table("files", "content", "found", "missing", header_style="bold")
    for one in report.files:
        missing = _some(one.missing) if one.files.is_per_scene else ("" if one.found else "all")
        optional = "" if one.files.need == "needed" else " (optional)"
        table.add_row(one.files.pattern, one.files.content + optional, f"{len(one.found):,}", missing)
    Console().print(table, markup=False, highlight=False)
    for path, reason in report.damaged.items():
        console.print(f"'{path}' {reason}")
    if dataset.num_scenes:
        console.print(f"Scenes of a complete copy: {_counts(dataset)}")
    if report.is_usable:
        console.print(f"Use it with BatchNavEnv(N, {dataset.usage.format(folder=folder)})")
    else:
        console.print(f"Missing files come from {dataset.page}: {dataset.access}")


def _counts(dataset: Dataset) -> str:
    """Return the number of scenes of a complete copy, or of each split."""
    return ", ".join(f"{split} {count}".strip() for split, count in (dataset.num_scenes or {}).items())


def _some(names: tuple[str, ...]) -> str:
    """Return the number of names and the first of them."""
    if not names:
        return ""
    more = ", ..." if len(names) > _SHOWN else ""
    return f"{len(names):,}: {', '.join(names[:_SHOWN])}{more}"
