"""``gym-batchnav policy``: policy files from networks that were trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym_batchnav.cli.extras import train_extra
from gym_batchnav.system.storage import check_destination

HELP = "Import policies that were trained elsewhere."

policy = typer.Typer(help=HELP, no_args_is_help=True)


@policy.command("import")
def import_policy(
    file: Annotated[Path, typer.Argument(help="Checkpoint of Habitat's DD-PPO, such as gibson-2plus-resnet50.pth.")],
    out: Annotated[Path, typer.Option(help="Policy file to write.")] = Path("policy.safetensors"),
) -> None:
    """Convert a public DD-PPO checkpoint of Habitat (ResNet50 + LSTM512, depth or RGB) to a policy file.

    evaluate --policy and collect --policy run the result in the world of its training: 256 x 256 pixels, 90 degrees,
    steps of 0.25 m, turns of 10 degrees, distances as Habitat computes them. Habitat's own figures are of sampled
    actions: pass --sample to both.

    Nothing in the checkpoint is executed. One that holds more than weights and plain settings is refused.

    Example: gym-batchnav policy import gibson-2plus-resnet50.pth --out ddppo.safetensors
    """
    with train_extra():
        from gym_batchnav.train.habitat_checkpoint import import_checkpoint
        from gym_batchnav.train.policy_file import save_policy

    _check_out(out, file)
    found, about = import_checkpoint(file)
    save_policy(out, found, about)
    print(f"{out}: {about.kind}, which sees {about.sensors[0]} of {about.camera.width} x {about.camera.height} pixels")
    print(f"Score it with: gym-batchnav evaluate --policy '{out}' --sample --scenes SCENES")


def _check_out(out: Path, file: Path) -> None:
    """Raise ValueError if a file cannot be written, or is the one that is read."""
    check_destination(out)
    if out.exists() and file.exists() and out.samefile(file):
        raise ValueError(f"--out '{out}' is the file that is read: name another file")
