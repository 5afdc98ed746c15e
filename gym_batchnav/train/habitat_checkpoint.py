"""Habitat's public DD-PPO checkpoints (ResNet50 + LSTM512) as policies.

Names, shapes and preprocessing are those of Habitat-Lab: PointNavResNetPolicy in
habitat_baselines/rl/ddppo/policy/resnet_policy.py with resnet.py and running_mean_and_var.py in its folder, and
habitat_baselines/rl/models/rnn_state_encoder.py. The agents were trained in the world of
configs/tasks/pointnav_gibson.yaml (Wijmans et al., ICLR 2020), here the protocol ``"pointnav-gibson-2019"``.
"""

from __future__ import annotations

import argparse
import mmap
import pickletools
import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.evaluation.records import fields_of
from gym_batchnav.evaluation.world import PolicyAbout
from gym_batchnav.protocols import protocol_of
from gym_batchnav.train.encoder import PRIOR_PICTURES
from gym_batchnav.train.policy import EMBEDDING, Policy, make_policy

KIND = "ddppo-resnet50"
PROTOCOL = "pointnav-gibson-2019"
SAFE_TORCH = "2.6"  # earlier versions run code from pickles even with weights_only (CVE-2025-32434)
MAX_BYTES = 256 * 2**20
MAX_RECORDS = 10_000  # entries of a zip archive
MAX_OPCODES = 1_000_000  # of the pickles in a file; a network of 300 tensors has about 10,000
MAX_SHOWN = 200  # characters of a string of the file in an error
ZIP_START = b"PK\x03\x04"
LEGACY_START = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")  # torch's number for files before version 1.6, pickled
LEGACY_PICKLES = 5  # number, protocol, system, object, keys of storages
PREFIX = "actor_critic."
STEM = "net.visual_encoder.backbone.conv1.0.weight"
MOMENTS = "net.visual_encoder.running_mean_and_var."  # RGB only
SENSORS = {1: ("depth",), 3: ("rgb",)}  # by the number of channels of an image
INPUTS = "core.cells.weight_ih_l0"
NAMES = {  # beginnings of names in policies, and in Habitat's networks
    "encoder.channels.moments.": MOMENTS + "_",
    "encoder.stem.": "net.visual_encoder.backbone.conv1.",
    "encoder.compress.": "net.visual_encoder.compression.",
    "encoder.linear.": "net.visual_fc.1.",
    "goal_embedding.": "net.tgt_embeding.",
    "action_embedding.": "net.prev_action_embedding.",
    "core.cells.": "net.state_encoder.rnn.",
    "actor.": "action_distribution.linear.",
    "critic.": "critic.fc.",
}
BLOCK = re.compile(r"encoder\.stages\.(\d)\.(\d)\.(branch|shortcut)\.")


def import_checkpoint(path: str | Path) -> tuple[Policy, PolicyAbout]:
    """Make a policy from a checkpoint of Habitat's DD-PPO, and describe the world of its training.

    The number of frames of the training is not in the file, and is 0 in the description.

    Raises:
        ValueError: The file is not a checkpoint, is damaged or too large, needs more than weights, or has another
            network than ResNet50 + LSTM512 for depth or RGB of 256 x 256 pixels; or torch is older than 2.6.
        FileNotFoundError: The file does not exist.
    """
    path = Path(path)
    weights = read_weights(path)
    try:
        about = _about(weights)
        with torch.device("meta"):  # the weights come from the file
            policy = make_policy(KIND, about.observation_space())
        policy.load_state_dict(_renamed(weights, policy), assign=True)
    except ValueError as error:
        raise ValueError(
            f"checkpoint '{path}' is not of Habitat's DD-PPO with ResNet50 and LSTM512: {error}. Pass one for depth or "
            "RGB of 256x256 pixels, such as gibson-2plus-resnet50.pth"
        ) from error
    return policy, about


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the network of a checkpoint of Habitat-Baselines: tensors by Habitat's names, without ``actor_critic.``.

    Nothing in the file is executed: it is read by torch's ``weights_only``, to which the plain settings that public
    checkpoints hold (argparse.Namespace) are allowed. The numbers of records and of steps of pickles are bounded first.

    Raises:
        ValueError: The file is not a checkpoint, is damaged or too large, or needs more than weights; or torch is older
            than 2.6.
        FileNotFoundError: The file does not exist.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': check the path")
    if torch.__version__ < SAFE_TORCH:
        raise ValueError(
            f"torch {torch.__version__} may execute code from checkpoints: pip install 'torch>={SAFE_TORCH}'"
        )
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(
            f"checkpoint '{path}' has {size:,} bytes, more than {MAX_BYTES:,}: pass one of ResNet50 + LSTM512, or "
            "write its 'state_dict' alone to another file"
        )
    with path.open("rb") as file:
        start = file.read(len(LEGACY_START))
    if not start.startswith((ZIP_START, LEGACY_START)):
        raise ValueError(
            f"'{path}' is not a checkpoint that torch wrote: pass a file such as gibson-2plus-resnet50.pth"
        )
    is_zip = start.startswith(ZIP_START)
    try:
        _check_pickles(path, is_zip)
        with torch.serialization.safe_globals([argparse.Namespace]):
            # Mapped storages cannot reach beyond the end of the file.
            stored = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # damaged files make zipfile, pickletools and torch raise all kinds of errors
        raise _unreadable(path, error) from error
    state = stored.get("state_dict") if isinstance(stored, dict) else None
    if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
        raise ValueError(f"checkpoint '{path}' has no weights by name in 'state_dict': pass one of Habitat-Baselines")
    own = {name.removeprefix(PREFIX): one for name, one in state.items() if name.startswith(PREFIX)}
    return own or state


def _check_pickles(path: Path, is_zip: bool) -> None:
    """Raise ValueError if the records or pickles of a file would take much more memory than the file is long."""
    if not is_zip:
        with path.open("rb") as file:
            _check_opcodes(file, LEGACY_PICKLES)
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        records = sum(1 for _ in islice(re.finditer(rb"PK\x01\x02", content), MAX_RECORDS + 1))
    if records > MAX_RECORDS:
        raise ValueError(f"it has more than {MAX_RECORDS:,} records")
    with zipfile.ZipFile(path) as archive:
        for record in archive.infolist():
            if record.compress_type != zipfile.ZIP_STORED or record.file_size > path.stat().st_size:
                raise ValueError(f"its record {record.filename[:MAX_SHOWN]!r} is compressed or incomplete")
            if record.filename.lower().endswith(".pkl"):
                with archive.open(record) as opened:
                    _check_opcodes(opened, 1)


def _check_opcodes(file: IO[bytes], num_pickles: int) -> None:
    """Raise ValueError if the next pickles of a file have more steps than any network needs."""
    opcodes = (one for _ in range(num_pickles) for one in pickletools.genops(file))
    if sum(1 for _ in islice(opcodes, MAX_OPCODES + 1)) > MAX_OPCODES:
        raise ValueError(f"its pickles have more than {MAX_OPCODES:,} steps")


def _unreadable(path: Path, error: Exception) -> ValueError:
    """Return the error of a file that cannot be read, with the remedy if it only holds more than weights."""
    text = str(error).rpartition("WeightsUnpickler error: ")[2]
    forbidden = re.search(r"unsupported GLOBAL ([\w.]+) whose module", text)
    if forbidden is not None:
        return ValueError(
            f"checkpoint '{path}' refers to {forbidden[1][:MAX_SHOWN]}, which no network needs and might do harm: "
            "pass another file"
        )
    foreign = re.search(r"Unsupported (?:global: GLOBAL|class) ([\w.]+)", text)
    if foreign is None:
        reason = text[:MAX_SHOWN] or type(error).__name__
        return ValueError(
            f"checkpoint '{path}' is damaged ({reason}): download it again, or save it again with torch.save"
        )
    return ValueError(
        f"checkpoint '{path}' holds an object of {foreign[1][:MAX_SHOWN]}, and only weights are read from it. If you "
        'trust it, write its weights to another file where that class is installed: python -c "import torch; '
        f"stored = torch.load('{path.as_posix()}', weights_only=False); "
        "torch.save({'state_dict': stored['state_dict']}, 'weights.pth')\""
    )


def _about(weights: dict[str, Tensor]) -> PolicyAbout:
    """Return the description of the world in which Habitat's agents were trained, with the images of the weights."""
    stem = weights.get(STEM)
    if not isinstance(stem, Tensor) or stem.ndim != 4:
        raise ValueError(f"it has no weights {STEM!r} of a convolution")
    if stem.shape[1] not in SENSORS:
        raise ValueError(f"its images have {stem.shape[1]} channels, not 1 or 3")
    protocol = protocol_of(PROTOCOL)
    actions = cast(DiscreteActions, protocol.actions)
    return PolicyAbout(
        kind=KIND,
        sensors=SENSORS[stem.shape[1]],
        camera=protocol.camera,
        forward_step=actions.forward_step,
        turn_angle_deg=actions.turn_angle_deg,
        max_episode_steps=protocol.max_episode_steps,
        preset="ddppo",
        frames=0,
        seed=0,
        sliding=protocol.sliding,
        task_settings=fields_of(protocol.task),
        navmesh_settings=protocol.navmesh_settings,
        geodesic=protocol.geodesic,
    )


def _renamed(weights: dict[str, Tensor], policy: Policy) -> dict[str, Tensor]:
    """Return tensors by Habitat's names as copies in float32, by the names in a policy of exactly the same network."""
    left = dict(weights)
    if not any(name.startswith(MOMENTS) for name in left):  # Habitat normalises depth nowhere, and RGB if asked to
        left |= dict(_no_moments(policy))
    renamed = {}
    for name, one in policy.state_dict().items():
        found = _checked(left.pop(_habitat_name(name), None), _habitat_name(name), one)
        renamed[name] = found.to(one.dtype, copy=True).reshape(one.shape).contiguous()
    if left:
        raise ValueError(f"it also has weights {min(left)[:MAX_SHOWN]!r}")
    features = renamed[INPUTS].shape[1] - 2 * EMBEDDING
    # Habitat's order of the inputs is image, goal, previous action; a policy's is the reverse.
    renamed[INPUTS] = torch.cat(renamed[INPUTS].split([features, EMBEDDING, EMBEDDING], dim=1)[::-1], dim=1)
    return renamed


def _checked(found: Any, name: str, expected: Tensor) -> Tensor:
    """Return a tensor of a file; ValueError unless it has finite numbers in the axes of that of a policy."""
    if not isinstance(found, Tensor):
        raise ValueError(f"it has no weights {name!r}")
    shape = (1, *expected.shape, 1, 1) if name.startswith(MOMENTS) and expected.ndim else tuple(expected.shape)
    if tuple(found.shape) != shape:
        raise ValueError(f"{name!r} has shape {tuple(found.shape)}, not {shape}")
    is_plain = found.device.type == "cpu" and found.layout == torch.strided and found.is_floating_point()
    if not is_plain or not found.isfinite().all():
        raise ValueError(f"{name!r} does not consist of finite numbers")
    return found.detach()


def _no_moments(policy: Policy) -> Iterator[tuple[str, Tensor]]:
    """Yield moments, by Habitat's names, that leave images unchanged, if a policy has moments."""
    if policy.encoder is not None and policy.encoder.channels.moments is not None:
        channels = policy.encoder.channels.num_channels
        yield MOMENTS + "_mean", torch.zeros(1, channels, 1, 1)
        yield MOMENTS + "_var", torch.ones(1, channels, 1, 1)
        yield MOMENTS + "_count", torch.tensor(PRIOR_PICTURES)


def _habitat_name(name: str) -> str:
    block = BLOCK.match(name)
    if block is not None:
        stage, number, part = block.groups()
        habitat_part = "convs" if part == "branch" else "downsample"
        return f"net.visual_encoder.backbone.layer{int(stage) + 1}.{number}.{habitat_part}.{name[block.end() :]}"
    start = next(start for start in NAMES if name.startswith(start))
    return NAMES[start] + name.removeprefix(start).replace("variance", "var")
