"""``gym-batchnav view``: walk through scenes in the browser, or watch an agent walk."""

from __future__ import annotations

import webbrowser
from typing import Annotated, Any

import typer
from rich.console import Console

from gym_batchnav.cli.interruption import RememberedInterrupt

_MIN_AGENTS = 4
_MAX_AGENTS = 64  # if there are as many scenes: an agent in each


def view(
    scenes: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, patterns or names (default: apartments).")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="A policy file, a shipped policy such as pointnav_depth, mapper or module:name, that can drive the "
            "agents.",
            metavar="FILE",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port to serve; 0 for any free one (default: the first free from 8080).", min=0, max=65535),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the address in a browser.")] = True,
    renderer: Annotated[str, typer.Option(help="auto, warp, opengl or embree.")] = "auto",
) -> None:
    """Show scenes in the browser: their surface, navmesh and distances, agents, and what they see.

    Walk with the keys I, J, L (forward, left, right) and K (STOP); click on a floor to see the shortest path to it; or
    press Play to let an agent walk: a follower of shortest paths, a random agent, or the one of --policy. Ctrl+C ends
    the command.

    To show the batch of a program, call gym_batchnav.viz.serve(envs) in it; to watch a training, run gym-batchnav train
    --watch.

    Example: gym-batchnav view my_house.glb
    """
    from gym_batchnav.collect.policies import choose_policy
    from gym_batchnav.env.batch import BatchNavEnv
    from gym_batchnav.library.sources import are_shipped, scene_sources
    from gym_batchnav.library.warmup import batch_workloads
    from gym_batchnav.system.compilation import compile_ahead
    from gym_batchnav.viz.window.server import WindowServer
    from gym_batchnav.viz.window.walk import walk_in_window

    console = Console(stderr=True, soft_wrap=True)
    spec: Any = scenes or "apartments"
    with RememberedInterrupt() as interrupt:
        chosen = {name: choose_policy(name, 0) for name in ("follower", "random")}
        keywords: dict[str, Any] = {"sensors": ()}
        if policy is not None:
            mine = choose_policy(policy, 0)
            chosen = {mine.name: mine, **chosen}
            keywords = dict(mine.env)
        sources = scene_sources(spec)  # raises for a name that no scene has, before kernels are compiled
        server = WindowServer(port)
        try:
            samples = not are_shipped(spec)
            compile_ahead(batch_workloads(renderer, (), pictures=True, prepares=samples, follows=True, samples=samples))
            num_envs = min(max(_MIN_AGENTS, len(sources)), _MAX_AGENTS)
            env = BatchNavEnv(num_envs, scenes=spec, renderer=renderer, **keywords)
            try:
                console.print(f"{server.url}  (Ctrl+C ends)", highlight=False, markup=False)
                if browser:
                    webbrowser.open(server.url)
                agents = {name: one.agent for name, one in chosen.items()}
                walk_in_window(env, agents, server, until=lambda: interrupt.requested)
            except KeyboardInterrupt:
                pass
            finally:
                env.close()
            console.print("Closed")
        finally:
            server.close()
