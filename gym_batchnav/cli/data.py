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
    from gym_batchnav.datasets.copies import CopyReport

data = typer.Typer(
    help="Known datasets of scenes and episodes: where they come from, and what a copy lacks.", no_args_is_help=True
)

_SHOWN = 5  # names of scenes or files in a line


@data.command("list")
def list_datasets(as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False) -> None:
    """List the datasets whose layouts are known, with their terms.

    Example: gym-batchnav data list
    """
    from gym_batchnav.datasets.catalogue import DATASETS

    if as_json:
        print(json.dumps([asdict(dataset) for dataset in DATASETS.values()]))
        return
    table = Table("name", "dataset", "terms", "download", header_style="bold")
    for dataset in DATASETS.values():
        table.add_row(dataset.name, dataset.title, dataset.licence, "yes" if dataset.can_be_downloaded else "see where")
    Console().print(table)
    print("gym-batchnav data where NAME tells how to get one, gym-batchnav data check FOLDER what a copy lacks.")


@data.command()
def where(name: Annotated[str, typer.Argument(help="Name of a dataset, see `gym-batchnav data list`.")]) -> None:
    """Tell where a dataset comes from, which form or page gives access, and how its folder looks.

    Example: gym-batchnav data where hm3d
    """
    from gym_batchnav.datasets.catalogue import dataset_named

    dataset = dataset_named(name)
    rows = [("dataset", dataset.title), ("terms", dataset.licence), ("page", dataset.page), ("access", dataset.access)]
    if dataset.can_be_downloaded:
        rows.append(("download", f"gym-batchnav data download {dataset.name} --out {dataset.name}"))
    if dataset.num_scenes:
        counts = [f"{split}: {count}".removeprefix(": ") for split, count in dataset.num_scenes.items()]
        rows.append(("scenes", ", ".join(counts)))
    for row, files in enumerate(dataset.layout):
        wanted = files.content if files.is_needed else f"{files.content} (optional)"
        rows.append(("layout" if row == 0 else "", f"{files.pattern}: {wanted}"))
    rows.append(("use", f"BatchNavEnv(N, {dataset.usage.format(folder=dataset.name)})"))
    for label, text in rows:
        print(f"{label:<10}{text}")  # without breaks, so that addresses can be copied


@data.command()
def check(
    folder: Annotated[Path, typer.Argument(help="Folder of a copy of a dataset.")],
    dataset: Annotated[
        str | None, typer.Option(help="Name of the dataset; recognized by the folder's layout by default.")
    ] = None,
    write_checksums: Annotated[
        Path | None, typer.Option(help="Write the SHA-256 of all files to this file, as sha256sum does.")
    ] = None,
    checksums: Annotated[
        Path | None, typer.Option(help="Compare all files with a list of SHA-256, of another copy for example.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Tell what a copy of a dataset has, what it lacks, and which files are damaged.

    The exit status is 1 if something that scenes need is missing, or a file is damaged or differs from its checksum.

    Example: gym-batchnav data check hm3d

    Example: gym-batchnav data check gibson --write-checksums gibson.sha256
    """
    from gym_batchnav.datasets.catalogue import DATASETS, dataset_named
    from gym_batchnav.datasets.copies import check_copy, compare_checksums, list_files, recognize
    from gym_batchnav.datasets.copies import write_checksums as write_sums
    from gym_batchnav.system.progress import late_progress

    files = list_files(folder)
    fitting = recognize(files) if dataset is None else [dataset_named(dataset)]
    if not fitting:
        names = ", ".join(DATASETS)
        raise ValueError(f"the layout of '{folder}' is that of no known dataset: pass --dataset, one of {names}")
    known = fitting[0]
    if len(fitting) > 1:
        names = ", ".join(one.name for one in fitting)
        Console(stderr=True, soft_wrap=True).print(
            f"note: {names} have the same layout: pass --dataset for another one than {known.name}", highlight=False
        )
    with late_progress("Reading headers of files", len(files)) as done:
        report = check_copy(folder, known, done)
    differing: dict[str, str] = {}
    if checksums is not None:
        with late_progress("Comparing files with checksums", len(files)) as done:
            differing = compare_checksums(folder, checksums, done)
    if write_checksums is not None:
        with late_progress("Computing checksums", len(files)) as done:
            write_sums(folder, write_checksums, done)
    if as_json:
        print(json.dumps({**asdict(report), "is_usable": report.is_usable, "differing": differing}))
    else:
        _print_report(folder, report, differing)
    if not report.is_usable or differing:
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

    from gym_batchnav.datasets.catalogue import dataset_named
    from gym_batchnav.datasets.download import download as fetch_dataset

    dataset = dataset_named(name)
    console = Console(stderr=True, soft_wrap=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=bool(dataset.repository)) as bar:
        task = bar.add_task(name, total=None)
        fetch_dataset(dataset, out, lambda done, total: bar.update(task, completed=done, total=total or None))
    console.print(f"{dataset.title} is in '{out}'; terms: {dataset.licence}", markup=False, highlight=False)


def _print_report(folder: Path, report: CopyReport, differing: dict[str, str]) -> None:
    """Print a table of the files of a copy, what is missing, and how to get it."""
    from gym_batchnav.system.wording import counted

    console = Console(soft_wrap=True)
    dataset = report.dataset
    console.print(
        f"'{folder}' has the layout of {dataset.name} and {counted(len(report.scenes), 'scene')}",
        markup=False,
        highlight=False,
    )
    table = Table("files", "content", "found", "missing", header_style="bold")
    for one in report.files:
        missing = _some(one.missing) if one.files.is_per_scene else ("" if one.found else "all")
        optional = "" if one.files.is_needed else " (optional)"
        table.add_row(one.files.pattern, one.files.content + optional, f"{len(one.found):,}", missing)
    Console().print(table, markup=False, highlight=False)
    for path, reason in [*report.damaged.items(), *differing.items()]:
        console.print(f"'{path}' {reason}", markup=False, highlight=False)
    if dataset.num_scenes and len(report.scenes) not in _sums(list(dataset.num_scenes.values())):
        counts = ", ".join(f"{split} {count}".strip() for split, count in dataset.num_scenes.items())
        console.print(f"A complete copy has these numbers of scenes: {counts}", markup=False, highlight=False)
    if report.is_usable and not differing:
        usage = dataset.usage.format(folder=folder)
        console.print(f"Use it with BatchNavEnv(N, {usage})", markup=False, highlight=False)
    else:
        console.print(f"Missing files come from {dataset.page}: {dataset.access}", markup=False, highlight=False)


def _some(names: tuple[str, ...]) -> str:
    """Return the number of names and the first of them."""
    if not names:
        return ""
    more = ", ..." if len(names) > _SHOWN else ""
    return f"{len(names):,}: {', '.join(names[:_SHOWN])}{more}"


def _sums(counts: list[int]) -> set[int]:
    """Return the sums of all selections of some counts."""
    sums = {0}
    for count in counts:
        sums |= {known + count for known in sums}
    return sums - {0}
