"""``gym-batchnav tune``: settings that are fast on this machine, from the log of runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gym_batchnav.cli.cluster import RayAddress, RayCpus, check_one_division
from gym_batchnav.cli.flags import errors_with_flags, listed
from gym_batchnav.system.progress import share_progress
from gym_batchnav.system.runs import read_runs, record_run, runs_file
from gym_batchnav.system.wording import counted

if TYPE_CHECKING:
    from gym_batchnav.tuning.features import Machine, Run
    from gym_batchnav.tuning.tune import Choice, SearchSpace


def tune(
    scenes: Annotated[
        list[str] | None, typer.Option(help="File, folder, pattern or name; repeatable (default: apartments).")
    ] = None,
    workload: Annotated[str, typer.Option("--for", help="step: simulation alone; train: PPO.")] = "step",
    sensors: Annotated[str, typer.Option(help="Any of depth,rgb,semantic, separated by commas.")] = "depth",
    resolution: Annotated[
        list[str] | None, typer.Option(help="Pixels, such as 64 or 128x72; repeat it to compare (default: 64).")
    ] = None,
    num_envs: Annotated[
        list[int] | None, typer.Option(help="Numbers of agents to choose from; repeatable (default: 32 to 4096).")
    ] = None,
    renderer: Annotated[str, typer.Option(help="auto, opengl or embree.")] = "auto",
    policy: Annotated[str, typer.Option(help="Policy that learns with --for train: small or paper.")] = "small",
    explore: Annotated[int, typer.Option(help="First measure this many settings, drawn at random.", min=0)] = 0,
    seconds: Annotated[float, typer.Option(help="Duration of a measurement after warm-up, in seconds.", min=0.1)] = 2.0,
    measure: Annotated[bool, typer.Option("--measure", help="Measure the first choice at the end.")] = False,
    runs: Annotated[
        Path | None, typer.Option(help="Log of runs (default: yours, to which bench, train and tune add).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --explore.", min=0)] = 0,
    ray: RayAddress = None,
    ray_cpus: RayCpus = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object in the last line.")] = False,
) -> None:
    """Choose the number of agents and resident scenes, threads, renderer and mini-batches for speed.

    The choice rests on runs of the past, of any scenes: every bench step, train and tune --explore leaves a line with
    its settings and figures in a log on this machine. Runs of the same --for count; a training counts if it took 20
    seconds or more. With fewer than 12, tune measures 12 settings first, as with --explore 12; otherwise nothing is
    simulated unless --explore or --measure asks for it.
    A promised speed is one that a measurement should at least show in nine of ten cases; it is low where no run was
    similar. GYM_BATCHNAV_RUNS names the file of the log; "off" keeps none.

    With --ray, the nodes of a Ray cluster measure, one setting at a time each, and their runs come into the log here.
    The choice is then for those nodes, with a table for each kind of them.

    Example: gym-batchnav tune --scenes "homes/*.glb" --explore 12 --measure
    """
    from gym_batchnav.cli.bench import camera_of
    from gym_batchnav.tuning.measure import Workload
    from gym_batchnav.tuning.tune import NUM_ENVS, SearchSpace

    console = Console(stderr=as_json, highlight=False)
    log = runs or runs_file()
    cameras = [camera_of(text) for text in resolution or ["64"]]
    flags = ("scenes", "sensors", "explore", "resolution", "renderer", "num_envs", "ray", "ray_cpus")
    with errors_with_flags(*flags, kind="for"):
        check_one_division(None, ray, ray_cpus)
        if ray is not None and not explore:
            raise ValueError(f"ray={ray} with explore=0: nodes have nothing to measure: pass explore=12")
        work = Workload(tuple(scenes or ("apartments",)), listed(sensors), workload, policy)
        sizes = tuple((camera.width, camera.height) for camera in cameras)
        space = SearchSpace(work, sizes, renderer, tuple(num_envs or NUM_ENVS))
        effort = _Effort(explore, seconds, seed, measure)
        known = [] if log is None or (runs is None and not log.exists()) else runs_of(log)
        if ray is None:
            found = [_tuned_here(space, known, effort, console)]
        else:
            found = _tuned_on_nodes(ray, ray_cpus, space, known, effort)
    for one in found:
        console.print(_table(one, len(known)))
    if as_json:
        machines = [one.figures() for one in found]
        print(json.dumps({"runs": len(known), **(machines[0] if ray is None else {"machines": machines})}))


@dataclass(frozen=True)
class _Effort:
    """What is simulated, see the options of the same names."""

    explore: int
    seconds: float
    seed: int
    measure: bool


@dataclass(frozen=True)
class _Tuned:
    """The choices for a kind of machine, and the measurement of the first."""

    choices: list[Choice]
    measured: Run | None
    machine: Machine
    num_nodes: int = 0  # 0 without a cluster

    def figures(self) -> dict[str, Any]:
        """Return JSON values."""
        figures: dict[str, Any] = {"choices": [asdict(one) for one in self.choices]}
        figures["measured"] = None if self.measured is None else self.measured.fps
        return figures if not self.num_nodes else {"nodes": self.num_nodes, **asdict(self.machine), **figures}


def _tuned_here(space: SearchSpace, known: list[Run], effort: _Effort, console: Console) -> _Tuned:
    """Explore, choose and measure on this machine; what was explored is added to ``known`` and to the log."""
    from gym_batchnav.tuning.model import MIN_RUNS
    from gym_batchnav.tuning.tune import choose, explore, with_scenes

    with console.status("Loading scenes"):
        situation, limits = space.here()
    count = effort.explore
    counting = sum(run.situation.workload == situation.workload for run in known)
    if not count and counting < MIN_RUNS:
        count = MIN_RUNS
        console.print(
            f"The log has {counted(counting, 'run')} of --for {situation.workload}, of which {MIN_RUNS} are needed: "
            f"measuring {count} settings, as with --explore {count}"
        )
    if count:
        with share_progress("Measuring") as show:
            for run in explore(space.workload, situation, limits, count, effort.seconds, effort.seed, show):
                record_run(run.line())
                known.append(run)
    choices = choose(known, situation, limits)
    measured: Run | None = None
    if effort.measure:
        with console.status("Measuring the first choice"):
            measured = with_scenes(space.workload.measure(choices[0].settings, effort.seconds), situation)
        record_run(measured.line())
    return _Tuned(choices, measured, situation.machine)


def _tuned_on_nodes(
    address: str, num_cpus: int | None, space: SearchSpace, known: list[Run], effort: _Effort
) -> list[_Tuned]:
    """Explore and measure on a Ray cluster, and choose for each kind of node; the runs come into the log here."""
    from gym_batchnav.cluster.ray_cluster import connected
    from gym_batchnav.cluster.tuning import explore_on, kinds_of, measure_on
    from gym_batchnav.tuning.tune import choose

    with connected(address):
        explored = []
        for one in explore_on(address, space, effort.explore, effort.seconds, effort.seed, num_cpus):
            record_run(one.run.line())
            known.append(one.run)
            explored.append(one)
        found = []
        for kind in kinds_of(explored):
            choices = choose(known, kind.situation, kind.limits)
            measured: Run | None = None
            if effort.measure:
                measured = measure_on(address, space, choices[0].settings, effort.seconds, kind, num_cpus)
                record_run(measured.line())
            found.append(_Tuned(choices, measured, kind.situation.machine, len(kind.nodes)))
    return found


def runs_of(log: Path) -> list[Run]:
    """Return the runs in a log whose lines are complete."""
    from gym_batchnav.tuning.features import Run

    return [run for line in read_runs(log) if (run := Run.from_line(line)) is not None]


def _table(tuned: _Tuned, num_runs: int) -> Table:
    """Return the choices as a table, the best first."""
    choices = tuned.choices
    measured = tuned.measured
    learns = choices[0].settings.num_minibatches > 0
    title = f"Settings by promised frames/s, from {num_runs:,} runs"
    if tuned.num_nodes:
        gpu = ", GPU" if tuned.machine.has_gpu else ""
        title += f" ({counted(tuned.num_nodes, 'node')} with {counted(tuned.machine.cores, 'processor')}{gpu})"
    table = Table(title=title)
    columns = ["agents", "resident scenes", "threads", "renderer", "pixels"]
    columns += ["batches", "mini-batches"] if learns else []
    for column in (*columns, "promised", "expected", *(["measured"] if measured else [])):
        table.add_column(column, justify="right")
    for row, choice in enumerate(choices):
        one = choice.settings
        cells: list[object] = [one.num_envs, one.resident_scenes, one.threads, one.renderer]
        cells.append(f"{one.width} x {one.height}")
        cells += [one.num_batches, one.num_minibatches] if learns else []
        cells += [f"{choice.promised:,.0f}", f"{choice.expected:,.0f}"]
        if measured is not None:
            cells.append(f"{measured.fps:,.0f}" if row == 0 else "")
        table.add_row(*map(str, cells))
    return table
