"""MuJoCo's compiler in a separate process, since malformed models may end or block the process that compiles them.

The process gets a document (see ``mjcf_document``) through its standard input, limits its own memory and time, and
writes arrays to its standard output. It has no folder to read from: every file is in memory.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from typing import Any

import numpy as np

from gym_batchnav.scene.formats.mjcf_document import Document
from gym_batchnav.system.child import python_environment
from gym_batchnav.system.extras import OptionalPackage
from gym_batchnav.system.process import is_frozen

_MUJOCO = OptionalPackage("mujoco", "the package mujoco", "mujoco")
MAX_NAME = 200  # characters
_FREE_SECONDS = 60.0
_SECONDS_PER_BYTE = 2e-6
_FREE_BYTES = 2**32
_BYTES_PER_BYTE = 64
MAX_ANSWER_MIB = 1024  # of arrays, which the parent keeps in memory
_MAX_MESSAGE = 400
_COPIED = """
    geom_type geom_bodyid geom_dataid geom_matid geom_rgba geom_size geom_group body_parentid mat_rgba mat_texrepeat
    mat_texuniform tex_type tex_height tex_width tex_nchannel tex_adr tex_data mesh_vert mesh_vertadr mesh_vertnum
    mesh_face mesh_faceadr mesh_facenum mesh_texcoord mesh_texcoordadr mesh_texcoordnum mesh_facetexcoord hfield_adr
    hfield_data hfield_ncol hfield_nrow hfield_size
"""  # arrays of the model that the reader needs
_MODEL = b"M"
_REFUSED = b"R"


def compile_mjcf(document: Document) -> dict[str, np.ndarray]:
    """Compile a document with the package ``mujoco``.

    Returns:
        Arrays by name, those of ``mjModel`` that say what is seen, with names as strings; ``geom_xpos`` [G, 3] and
        ``geom_xmat`` [G, 3, 3] are poses in the world, ``geom_collides`` [G] bool.

    Raises:
        ValueError: If ``mujoco`` is not installed, or cannot compile the model, or this is a frozen application.
    """
    if not _MUJOCO.is_found():
        raise ValueError(_MUJOCO.missing("MuJoCo's XML", "export the scene as GLB"))
    if is_frozen():  # the executable would start the whole application again
        raise ValueError("MuJoCo's XML cannot be compiled by a frozen application: export the scene as GLB")
    header = {"sizes": {name: len(data) for name, data in document.assets.items()}, "xml": len(document.xml)}
    text = json.dumps(header).encode()
    message = b"".join([len(text).to_bytes(8, "little"), text, document.xml, *document.assets.values()])
    seconds = _FREE_SECONDS + _SECONDS_PER_BYTE * len(message)
    with tempfile.TemporaryDirectory(prefix="gym_batchnav") as empty:  # MuJoCo writes its log into the current folder
        try:
            done = subprocess.run(
                [sys.executable, "-c", f"from {__name__} import main; main()"],
                input=message,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                cwd=empty,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"MuJoCo needs more than {seconds:.0f} s to compile it: simplify its meshes") from None
    return _read(done.stdout, done.returncode)


def _read(answer: bytes, status: int) -> dict[str, np.ndarray]:
    if answer[:1] == _REFUSED:
        raise ValueError(f"MuJoCo cannot compile it ({answer[1:].decode(errors='replace')}): correct the model")
    if answer[:1] != _MODEL or status != 0:
        ended = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        raise ValueError(f"MuJoCo's compiler ended {ended} on it: the model is damaged or too large, re-export it")
    try:
        with np.load(io.BytesIO(answer[1:]), allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"MuJoCo's compiler gave an answer that cannot be read ({error}): load it again") from error


def _environment() -> dict[str, str]:
    """Return the environment of the compiler; threads take memory, so it has few."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**python_environment(), **threads, "MALLOC_ARENA_MAX": "2", "MUJOCO_GL": "disable"}


def main() -> None:
    """Compile the model from standard input and write the answer to standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the answer must not contain the output of libraries
    source = sys.stdin.buffer
    header = json.loads(source.read(int.from_bytes(source.read(8), "little")))
    num_bytes = header["xml"] + sum(header["sizes"].values())
    _limit(_FREE_BYTES + _BYTES_PER_BYTE * num_bytes, _FREE_SECONDS + _SECONDS_PER_BYTE * num_bytes)
    xml = source.read(header["xml"]).decode()
    assets = {name: source.read(size) for name, size in header["sizes"].items()}
    try:
        stream = io.BytesIO()
        arrays: dict[str, Any] = _compiled(xml, assets)
        np.savez(stream, **arrays)
        answer = _MODEL + stream.getvalue()
    except Exception as error:  # MuJoCo raises errors of several kinds
        answer = _REFUSED + " ".join(str(error).split())[:_MAX_MESSAGE].encode()
    answers.write(answer)
    answers.close()


def _limit(num_bytes: int, seconds: float) -> None:
    """Limit this process's memory and processor time, where the system can."""
    try:
        import resource
    except ImportError:
        return
    limits = {resource.RLIMIT_AS: num_bytes, resource.RLIMIT_CPU: int(seconds) * 4, resource.RLIMIT_CORE: 0}
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        with suppress(ValueError, OSError):
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))


def _compiled(xml: str, assets: dict[str, bytes]) -> dict[str, np.ndarray]:
    """Compile a model; physics is taken out of the way, because models that only show something may lack it."""
    mujoco: Any = importlib.import_module("mujoco")
    models = {name: data for name, data in assets.items() if name.endswith(".xml")}
    spec = mujoco.MjSpec.from_string(xml, include=models, assets=assets)
    kinds = mujoco.mjtGeom
    fitted = {geom.meshname for geom in spec.geoms if geom.type not in (kinds.mjGEOM_MESH, kinds.mjGEOM_SDF)}
    for mesh in spec.meshes:
        if mesh.name not in fitted:  # the size of a fitted primitive follows from the inertia
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # needs no volume
    for geom in spec.geoms:
        geom.priority = int(bool(geom.contype or geom.conaffinity))  # only to find it in the compiled model
        geom.contype = geom.conaffinity = 0  # no convex hull is made
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    arrays = _arrays(mujoco, model, data)
    size = sum(array.nbytes for array in arrays.values()) >> 20
    if size > MAX_ANSWER_MIB:
        raise ValueError(f"its meshes and textures have {size:,} MiB, the limit is {MAX_ANSWER_MIB:,}: simplify them")
    return arrays


def _arrays(mujoco: Any, model: Any, data: Any) -> dict[str, np.ndarray]:
    arrays = {name: np.asarray(getattr(model, name)) for name in _COPIED.split()}
    roles = mujoco.mjtTextureRole
    colour = model.mat_texid[:, [int(roles.mjTEXROLE_RGB), int(roles.mjTEXROLE_RGBA)]]
    named = {"geom": model.ngeom, "body": model.nbody, "tex": model.ntex}
    return {
        **arrays,
        "geom_collides": np.asarray(model.geom_priority) > 0,
        "geom_xpos": np.array(data.geom_xpos),
        "geom_xmat": np.array(data.geom_xmat).reshape(-1, 3, 3),
        "mat_texid": colour.max(axis=1, initial=-1),
        **{
            f"{kind}_name": np.array([getattr(model, kind)(row).name[:MAX_NAME] for row in range(count)], dtype=str)
            for kind, count in named.items()
        },
    }
