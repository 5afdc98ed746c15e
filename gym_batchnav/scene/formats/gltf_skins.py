"""Skins of glTF files: vertices moved by the joints that they hang on, in the rest pose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gym_batchnav.scene.formats.gltf_document import GltfDocument
from gym_batchnav.scene.json_values import sequence

MAX_SETS = 8  # of four joints per vertex
_Read = Callable[[str, Sequence[int]], np.ndarray]  # an attribute's name and allowed widths to its values


def joint_matrices(document: GltfDocument, index: object) -> np.ndarray:
    """Return the matrices [J, 4, 4] float64 from a skinned mesh to the world, one for each joint of a skin.

    Raises:
        ValueError: If the skin has no joints, or fewer inverse bind matrices than joints.
    """
    skin = document.item("skins", index)
    nodes = sequence(skin.get("joints", []), "joints")
    if not 0 < len(nodes) <= document.count("nodes"):
        raise ValueError(f"skin {index} has {len(nodes):,} joints, there are {document.count('nodes'):,} nodes")
    joints = [document.world_matrix(node) for node in nodes]
    matrices = np.stack(joints)
    if "inverseBindMatrices" in skin:
        inverse = document.accessor(skin["inverseBindMatrices"], (16,)).astype(np.float64)
        if len(inverse) < len(joints):
            raise ValueError(f"skin {index} has {len(inverse)} inverse bind matrices for {len(joints)} joints")
        matrices = matrices @ inverse[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
    return matrices


def posed(vertices: np.ndarray, read: _Read, attributes: Mapping[str, object], matrices: np.ndarray) -> np.ndarray:
    """Return vertices [V, 3] float64 in the world, each moved by the weighted mean of its joints' matrices.

    Vertices whose weights are all 0 hang on the first joint of their list.

    Args:
        vertices: [V, 3], in the mesh.
        read: Reads an attribute of the primitive.
        attributes: The primitive's attributes, with ``JOINTS_0`` and ``WEIGHTS_0``.
        matrices: [J, 4, 4], see ``joint_matrices``.

    Raises:
        ValueError: If joints or weights are missing for some vertices, or name joints that the skin does not have.
    """
    sets = [k for k in range(MAX_SETS) if {f"JOINTS_{k}", f"WEIGHTS_{k}"} <= attributes.keys()]
    joints = np.concatenate([read(f"JOINTS_{k}", (4,)) for k in sets], axis=1)
    weights = np.concatenate([read(f"WEIGHTS_{k}", (4,)) for k in sets], axis=1).astype(np.float64)
    if joints.shape != weights.shape or len(joints) != len(vertices) or joints.dtype.kind != "u":
        raise ValueError(f"its joints {joints.shape} and weights {weights.shape} do not fit {len(vertices)} vertices")
    weights = np.maximum(np.nan_to_num(weights), 0)
    weights[weights.sum(axis=1) == 0, 0] = 1
    weights /= weights.sum(axis=1, keepdims=True)
    used = joints[weights > 0]
    if used.size and used.max() >= len(matrices):
        raise ValueError(f"its vertices hang on joint {used.max()}, but there are {len(matrices)}: re-export it")
    moved = np.zeros((len(vertices), 3))
    for column in range(joints.shape[1]):
        matrix = matrices[np.where(weights[:, column] > 0, joints[:, column], 0)]
        place = np.einsum("vij,vj->vi", matrix[:, :3, :3], vertices) + matrix[:, :3, 3]
        moved += weights[:, column, None] * place
    return moved
