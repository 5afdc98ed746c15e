"""``gym-batchnav data``: known datasets, where they come from, their download, and checks of copies."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from gym_batchnav.cli.flags import refuse_options

if TYPE_CHECKING:
    from gym_batchnav.datasets import CopyReport, Dataset

_SHOWN = 5  # names of scenes or files in a line


def data(
    context: typer.Context,
    dataset: Annotated[
        str | None, typer.Argument(help="Name of a dataset, or folder of a copy (default: a table of all datasets).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Download the dataset into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """List known datasets of scenes and episodes with their terms; describe, download or check one.

    With a name: where the dataset comes from and how its folder looks. With --out, a dataset that needs no form is
    downloaded; run the command again to resume an interrupted download. With a folder: what the copy has, what it lacks
    and which files are damaged; the exit status is 1 if something that scenes need is missing, or a file is damaged. To
    compare two copies byte by byte, use sha256sum.

    Example: gym-batchnav data hm3d

    Example: gym-batchnav data pointnav-gibson-v1 --out data/datasets/pointnav/gibson/v1

    Example: gym-batchnav data data/scene_datasets/hm3d
    """
    from gym_batchnav.datasets import dataset_named, datasets

    if out is not None:
        if dataset is None:
            raise ValueError(f"out='{out}': also name the dataset to download; gym-batchnav data lists all")
        refuse_options(context, ("dataset", "out"), "when a dataset is downloaded")
        _download(dataset_named(dataset), out)
    elif dataset is not None and dataset not in datasets() and Path(dataset).is_dir():
        _check(Path(dataset), as_json)
    else:
        chosen = list(datasets().values()) if dataset is None else [dataset_named(dataset)]
        if as_json:
            print(json.dumps([asdict(one) for one in chosen]))
        elif dataset is not None:
            _print_dataset(chosen[0])
        else:
            _print_list(chosen)


def _print_list(known: list[Dataset]) -> None:
    table = Table("name", "dataset", "terms", "download", header_style="bold")
    for one in known:
        table.add_row(one.name, one.title, one.licence, "yes" if one.can_be_downloaded else "see its page")
    Console().print(table)
    print("gym-batchnav data NAME describes a dataset, gym-batchnav data FOLDER checks a copy.")


def _check(folder: Path, as_json: bool) -> None:
    """Check a copy of a dataset, and exit with 1 if it cannot be used."""
    from gym_batchnav.datasets import check_copy, datasets, list_files, recognize
    from gym_batchnav.system.progress import late_progress

    files = list_files(folder)
    fitting = recognize(files)
    if not fitting:
        names = ", ".join(datasets())
        raise ValueError(f"the layout of '{folder}' matches no known dataset: pass the folder of one of {names}")
    file = _file_of_episodes(folder, files) if "{file}" in fitting[0].usage else None
    if file is not None:
        fitting = [one for one in fitting if one.name.startswith(_task_of(file))] or fitting
    with late_progress("Reading headers of files", len(files)) as done:
        report = check_copy(folder, fitting[0], done)
    if as_json:
        print(json.dumps({**asdict(report), "is_usable": report.is_usable}))
    else:
        _print_report(folder, report, file, [one.name for one in fitting])
    if not report.is_usable:
        raise typer.Exit(1)


def _download(dataset: Dataset, out: Path) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    from gym_batchnav.datasets import download

    console = Console(stderr=True, soft_wrap=True)
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=bool(dataset.repository)) as bar:
        task = bar.add_task(dataset.name, total=None)
        download(dataset, out, lambda done, total: bar.update(task, completed=done, total=total or None))
    console.print(f"{dataset.title} is in '{out}'; terms: {dataset.licence}", markup=False, highlight=False)


def _print_dataset(dataset: Dataset) -> None:
    """Print where a dataset comes from and how its folder looks, without breaks, so that addresses can be copied."""
    rows = [("dataset", dataset.title), ("terms", dataset.licence), ("page", dataset.page), ("access", dataset.access)]
    if dataset.can_be_downloaded:
        rows.append(("download", f"gym-batchnav data {dataset.name} --out {dataset.name}"))
    if dataset.num_scenes:
        rows.append(("scenes", _counts(dataset)))
    for row, files in enumerate(dataset.layout):
        wanted = files.content if files.need == "needed" else f"{files.content} (optional)"
        rows.append(("layout" if row == 0 else "", f"{files.pattern}: {wanted}"))
    usage = dataset.usage.format(folder=dataset.name, file=f"{dataset.name}/val/val.json.gz")
    rows.append(("use", f"BatchNavEnv(N, {usage})"))
    for label, text in rows:
        print(f"{label:<10}{text}")


def _print_report(folder: Path, report: CopyReport, file: Path | None, names: list[str]) -> None:
    """Print what a copy has, with its file of episodes if it is one of several datasets of episodes that look alike."""
    from gym_batchnav.system.wording import counted

    dataset = report.dataset
    console = Console(soft_wrap=True, markup=False, highlight=False)
    if file is None:
        console.print(f"'{folder}' has the layout of {dataset.name} and {counted(len(report.scenes), 'scene')}")
    else:
        task = "ObjectNav" if "ObjectNav" in dataset.usage else "PointNav"
        console.print(f"'{folder}' has episodes of {task}, in a layout that several datasets share: {', '.join(names)}")
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
        console.print(f"Use it with BatchNavEnv(N, {dataset.usage.format(folder=folder, file=file)})")
    elif file is not None:
        console.print("gym-batchnav data NAME says where to get missing and damaged files")
    else:
        console.print(f"Get missing and damaged files from {dataset.page}: {dataset.access}")


def _file_of_episodes(folder: Path, files: list[str]) -> Path:
    """Return the file that an environment reads: that of the validation split if it exists."""
    paths = [PurePosixPath(path) for path in files if path.endswith(".json.gz")]
    return folder / min(paths, key=lambda path: ("content" in path.parts, not path.name.startswith("val"), path))


def _task_of(file: Path) -> str:
    """Return the beginning of the names of the datasets that have episodes of a file's kind."""
    from gym_batchnav.episodes.habitat import ObjectNavFile, read_episodes

    try:
        read_episodes(file, scene="")  # nothing from content/
    except ObjectNavFile:
        return "objectnav"
    except (ValueError, OSError):  # told of damaged files, or where the file is used
        pass
    return "pointnav"


def _counts(dataset: Dataset) -> str:
    """Return the number of scenes of a complete copy, or of each split."""
    return ", ".join(f"{split} {count}".strip() for split, count in (dataset.num_scenes or {}).items())


def _some(names: tuple[str, ...]) -> str:
    """Return the number of names and the first of them."""
    if not names:
        return ""
    more = ", ..." if len(names) > _SHOWN else ""
    return f"{len(names):,}: {', '.join(names[:_SHOWN])}{more}"
