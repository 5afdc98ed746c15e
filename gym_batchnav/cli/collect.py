"""``gym-batchnav collect``: run agents and write datasets; check, merge and convert them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gym_batchnav.cli.flags import RayAddress, check_one_division, listed

if TYPE_CHECKING:
    from gym_batchnav.collect.collector import Collected
    from gym_batchnav.collect.merge import Checked

collect = typer.Typer(no_args_is_help=True, help="Run agents and write datasets; check, merge and convert them.")


@collect.command()
def run(
    out: Annotated[Path, typer.Option(help="Folder of the dataset; created if missing.")],
    scenes: Annotated[
        list[str] | None, typer.Option(help="File, folder, pattern or name; repeatable (default: apartments).")
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            help="follower (shortest paths), mapper, random, a policy file, a shipped policy such as pointnav_depth, "
            "or module:name of an agent or a function."
        ),
    ] = "follower",
    sample: Annotated[bool, typer.Option("--sample", help="Sample the actions of a policy file.")] = False,
    to: Annotated[str, typer.Option(help="zarr or webdataset; collect export converts to others.")] = "zarr",
    sensors: Annotated[
        str, typer.Option(help="Any of rgb, depth, semantic, normals, points, separated by commas.")
    ] = "rgb,depth",
    size: Annotated[
        int | None,
        typer.Option(help="Width and height of images in pixels (default: the policy's, the protocol's or 64).", min=1),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="A paper's or challenge's protocol, such as pointnav-2021, with its camera; not for policy files."
        ),
    ] = None,
    episode_file: Annotated[Path | None, typer.Option(help="Habitat's episodes for the scenes.")] = None,
    episodes_per_scene: Annotated[
        int, typer.Option(help="Number of episodes per scene, beginning with its first.", min=1)
    ] = 100,
    num_envs: Annotated[int, typer.Option(help="Number of environments; the data do not depend on it.", min=1)] = 64,
    shard: Annotated[str | None, typer.Option(help="Collect part i of n, i from 1 to n.", metavar="i/n")] = None,
    seed: Annotated[int, typer.Option(help="Seed of noise and random actions.", min=0, max=2**32 - 1)] = 0,
    renderer: Annotated[str, typer.Option(help="auto, warp, opengl or embree.")] = "auto",
    ray: RayAddress = None,
) -> None:
    """Run the first episodes of every scene once and write them to a dataset.

    A command that was killed is resumed by repeating it: finished shards stay, and the result is that of an undisturbed
    run. Episodes depend on --seed, their scene and their number alone. Parts (--shard) may share --out, where the part
    that ends last makes the dataset, or have separate folders, which are joined by
    gym-batchnav collect check FOLDER... --merge OUT

    In a Slurm array 1-8, the part is --shard $SLURM_ARRAY_TASK_ID/8; in an indexed job of Kubernetes, which counts from
    0, it is --shard $((JOB_COMPLETION_INDEX + 1))/8. Environment variables are not read automatically.

    With --ray, all nodes of a Ray cluster collect; they must share --out, and the files of scenes and policies.

    Example: gym-batchnav collect run --scenes "homes/*.glb" --episodes-per-scene 100 --out data
    """
    from gym_batchnav.collect.collector import collect as run_collection
    from gym_batchnav.evaluation.named_agents import user_file

    file = user_file(policy)
    keywords: dict[str, Any] = {
        "scenes": "apartments" if not scenes else scenes,
        "policy": policy if file is None else str(file.resolve()),
        "sample": sample,
        "sensors": listed(sensors),
        "size": size,
        "episodes_per_scene": episodes_per_scene,
        "num_envs": num_envs,
        "seed": seed,
        "renderer": renderer,
        "to": to,
    }
    optional = {"protocol": protocol, "episodes": episode_file}
    keywords |= {name: value for name, value in optional.items() if value is not None}
    check_one_division(shard, ray)
    if ray is not None:
        from gym_batchnav.cluster.jobs import collect_on

        _print_collected(collect_on(ray, out, keywords))
        return
    with _frames_per_second() as progress:
        found = run_collection(out, shard=shard, progress=progress, **keywords)
    _print_collected(found)


@collect.command()
def check(
    folders: Annotated[list[Path], typer.Argument(help="Folders of datasets; several with --merge.")],
    merge: Annotated[Path | None, typer.Option(help="Join datasets of the same settings into this folder.")] = None,
) -> None:
    """Read every file of a dataset, and check that it holds what it says; with --merge, join parts of a collection.

    Example: gym-batchnav collect check part1 part2 --merge data
    """
    from gym_batchnav.collect.merge import check_dataset, merge_datasets

    if merge is None and len(folders) > 1:
        raise ValueError(f"{len(folders)} folders: name one, or join them with --merge FOLDER")
    with Console().status("Checking"):
        found = check_dataset(folders[0]) if merge is None else merge_datasets(merge, folders)
    _print_checked(found)
    if found.missing and merge is None:
        raise typer.Exit(1)


@collect.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder of a dataset.")],
    to: Annotated[
        str, typer.Option(help="lerobot, minari, or rrd for rerun's viewer; that library must be installed.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the result, which must not exist.")],
    video: Annotated[
        bool, typer.Option("--video", help="Let lerobot store images as videos: smaller, and not exact.")
    ] = False,
) -> None:
    """Convert a dataset for another library, by the library's own writer.

    Example: gym-batchnav collect export data --to lerobot --out lerobot-data
    """
    from gym_batchnav.collect.export.convert import export_dataset

    with _frames_per_second() as progress:
        found = export_dataset(folder, out, to, video=video, progress=progress)
    rows = {"episodes": f"{found.num_episodes:,}", "frames": f"{found.num_frames:,}", "folder": str(found.folder)}
    Console().print(_facts(to, rows))


@contextmanager
def _frames_per_second() -> Iterator[Callable[[int, int], None]]:
    """Show the number of episodes and the frames per second on standard error, on a terminal."""
    from rich.progress import Progress as Bar
    from rich.progress import TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.completed:,.0f} episodes, {task.fields[frames]:,} frames"),
        TextColumn("{task.fields[rate]:,.0f} frames/s"), TimeElapsedColumn(),
    )  # fmt: skip
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, frames=0, rate=0.0)

        def show(episodes: int, frames: int) -> None:
            state = bar.tasks[task]
            total = state.fields["frames"] + frames
            rate = total / max(state.elapsed or 0.0, 1e-9)
            bar.update(task, advance=episodes, frames=total, rate=rate)

        yield show


def _table(found: Collected) -> Table:
    from gym_batchnav.system.wording import counted

    rate = found.num_frames / found.seconds if found.seconds else 0.0
    size = sum(path.stat().st_size for path in (found.folder / "shards").rglob("*") if path.is_file())
    rows = {
        "episodes": f"{found.num_episodes:,} in {counted(found.num_shards, 'shard')}",
        "frames": f"{found.num_frames:,}",
        "frames/s": f"{rate:,.0f}",
        "images held": f"{found.peak_bytes / 2**20:,.0f} MiB in memory, {found.spilled_bytes / 2**20:,.0f} MiB on disk",
        "shards before": f"{found.num_found:,}",
        "shards missing": f"{found.num_missing:,}",
        "dataset": f"{size / 2**20:,.1f} MiB in {found.folder}",
    }
    return _facts(f"{found.info.format}: {found.info.policy}, {found.info.task}", rows)


def _print_collected(found: Collected) -> None:
    from gym_batchnav.system.wording import counted

    Console().print(_table(found))
    if found.num_missing:
        Console().print(
            f"{counted(found.num_missing, 'shard')} missing: the dataset is complete when the other parts have "
            "collected them. To make a dataset of what is there now: gym-batchnav collect check FOLDER... --merge OUT"
        )


def _print_checked(found: Checked) -> None:
    from gym_batchnav.system.wording import counted

    rows = {
        "format": found.info.format,
        "policy": found.info.policy,
        "scenes": f"{len({record.shard.scene for record in found.shards}):,}",
        "shards": f"{len(found.shards):,}",
        "episodes": f"{sum(len(record.episodes) for record in found.shards):,}",
        "frames": f"{sum(record.num_frames for record in found.shards):,}",
        "key": found.info.key,
    }
    Console().print(_facts("", rows))
    if found.missing:
        Console().print(
            f"{counted(len(found.missing), 'shard')} missing, such as {escape(found.missing[0])}: collect what is "
            "missing, or join parts with --merge"
        )


def _facts(title: str, rows: dict[str, str]) -> Table:
    table = Table(title=escape(title) or None, box=SIMPLE, show_header=False, pad_edge=False, show_edge=False)
    for name, value in rows.items():
        table.add_row(name, escape(value))
    return table
