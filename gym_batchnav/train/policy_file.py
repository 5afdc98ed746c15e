"""Policy files: weights and the settings of their training, in one safetensors file that is safe to share."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import torch

from gym_batchnav.evaluation.world import PolicyAbout, about_of
from gym_batchnav.library.sources import shipped_policies
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import check_pulled, write_atomically
from gym_batchnav.train.policy import Policy, make_policy

with needs_extra("train", "a policy file"):
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save as pack_tensors

FORMAT = "gym_batchnav policy 2"
MAX_BYTES = 256 * 2**20
MAX_HEADER_BYTES = 2**18
MAX_REASON = 300  # characters of the reason in an error about a damaged file


def save_policy(path: str | Path, policy: Policy, about: PolicyAbout, half: bool = False) -> None:
    """Write a policy file atomically.

    Args:
        path: The file.
        policy: The policy.
        about: Its description.
        half: Store the weights with 16 bits, in a file of half the size. ``load_policy`` returns them with 32.

    Raises:
        ValueError: The policy is not that of the description.
    """
    weights = {
        name: one.detach().cpu().contiguous().clone()
        for name, one in policy.state_dict().items()
        if not name.startswith("predictions.")  # these only serve learning
    }
    if {name: one.shape for name, one in weights.items()} != {
        name: one.shape for name, one in _unfilled(about).state_dict().items()
    }:
        raise ValueError(
            "the policy does not fit about=: pass the same kind, sensors and hidden= to make_policy and policy_about"
        )
    if half:
        weights.update({name: weights[name].half() for name, _ in policy.named_parameters() if name in weights})
    write_atomically(Path(path), pack_tensors(weights, {"format": FORMAT, "about": json.dumps(about.record())}))


def load_policy(path: str | Path) -> tuple[Policy, PolicyAbout]:
    """Load a policy, on the CPU, and its description, from a file or by the name (str) of a shipped policy.

    Loading an untrusted file is safe: nothing in it is executed, and size, header and sensors are bounded.

    Raises:
        ValueError: The file is not a safetensors file or not a policy, is damaged, or has other weights than its
            description says.
        FileNotFoundError: The file does not exist.
    """
    shipped = shipped_policies().get(path) if isinstance(path, str) else None  # a Path is always a file
    path = shipped or Path(path)
    _check_header(path)
    try:
        weights, described = _read(path)
        about = about_of(described)
        policy = _unfilled(about)
        expected = {name: (one.shape, one.dtype) for name, one in policy.state_dict().items()}
        if {name: (one.shape, one.dtype) for name, one in weights.items()} != expected:
            raise ValueError(f"its weights are not those of a {about.kind!r} policy with these sensors in this version")
        policy.load_state_dict(weights, assign=True)
    except (SafetensorError, KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error)[:MAX_REASON]  # it may quote long texts of the file
        raise ValueError(
            f"policy file '{path}' is damaged: {reason}: pass one that gym-batchnav train wrote"
        ) from error
    return policy, about


def _unfilled(about: PolicyAbout) -> Policy:
    """Return the policy of a description without memory for weights, since a file may describe huge ones."""
    with torch.device("meta"):
        return make_policy(about.kind, about.observation_space())


def _check_header(path: Path) -> None:
    """Raise ValueError if a file is too large, or its header (8 bytes of length, then JSON) is not that of a policy."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': check the path")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"policy file '{path}' has more than {MAX_BYTES:,} bytes: pass a file that train wrote")
    with path.open("rb") as file:
        start = file.read(9)
        header = file.read(MAX_HEADER_BYTES)
    check_pulled(start + header, f"policy file '{path}'")
    if start[8:] != b"{":  # the beginning of every header
        raise ValueError(f"policy file '{path}' is not a safetensors file: pass a file that gym-batchnav train wrote")
    (size,) = struct.unpack("<Q", start[:8])
    if size > MAX_HEADER_BYTES:
        raise ValueError(
            f"policy file '{path}' is damaged: its header has {size:,} bytes, over {MAX_HEADER_BYTES:,}: pass a file "
            "that gym-batchnav train wrote"
        )
    if len(header) >= size - 1 and f'"{FORMAT}"'.encode() not in header:
        raise ValueError(f"policy file '{path}' is not a policy of gym_batchnav: pass a file that train wrote")


def _read(path: Path) -> tuple[dict[str, torch.Tensor], Any]:
    with safe_open(path, framework="pt") as file:
        # Copied, because tensors in the file may not be aligned, and results depend on the alignment.
        weights = {name: file.get_tensor(name).clone() for name in file.keys()}
        widened = {name: one.float() if one.dtype == torch.float16 else one for name, one in weights.items()}
        return widened, json.loads(file.metadata()["about"])
