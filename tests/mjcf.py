"""MuJoCo models for tests, and the answers of MuJoCo itself."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from PIL import Image

from gym_batchnav.scene.formats import mjcf as reader
from gym_batchnav.scene.formats.mjcf_compile import _compiled

os.environ.setdefault("MUJOCO_GL", "egl")  # read when mujoco is imported


def model(world: str, assets: str = "", head: str = "") -> str:
    return f"<mujoco>{head}<asset>{assets}</asset><worldbody>{world}</worldbody></mujoco>"


def write(folder: Path, xml: str, **files: bytes) -> Path:
    """Write a model and its files; two underscores in a name stand for a dot."""
    for name, data in files.items():
        (folder / name.replace("__", ".")).write_bytes(data)
    path = folder / "home.xml"
    path.write_text(xml)
    return path


def in_process(monkeypatch) -> None:
    """A fixture: compile models in this process, since starting another for a small model takes most of the time."""
    monkeypatch.setattr(reader, "compile_mjcf", lambda document: _compiled(document.xml.decode(), document.assets))


def png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def compiled(path: Path):
    """MuJoCo's model and data of a file, in its initial pose."""
    import mujoco

    loaded = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(loaded)
    mujoco.mj_forward(loaded, data)
    return loaded, data


def mujoco_distances(path: Path, origins: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return MuJoCo's distances of rays [N, 3] in its frame to geoms of groups 0 to 2; inf for none."""
    import mujoco

    loaded, data = compiled(path)
    groups = np.array([1, 1, 1, 0, 0, 0], np.uint8)
    hit = np.zeros(1, np.int32)
    found = [mujoco.mj_ray(loaded, data, o, d, groups, 1, -1, hit) for o, d in zip(origins, directions, strict=True)]
    return np.where(np.array(found) < 0, np.inf, found)


HOUSE_OBJ = b"""v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nv 0 0 2
vt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nvt 0.5 0.5
f 4/4 3/3 2/2 1/1\nf 1/1 2/2 5/5\nf 2/2 3/3 5/5\nf 3/3 4/4 5/5\nf 4/4 1/1 5/5\n"""


def furnished_home() -> str:
    """A room of 8 m by 6 m with walls, a door, furniture on joints, and shapes for collisions only."""
    walls = "".join(
        f'<geom name="wall_{k}" type="box" pos="{x} {y} 1.3" size="{w} {d} 1.3" rgba=".9 .9 .8 1"/>'
        for k, (x, y, w, d) in enumerate(
            [(0, 3.1, 4, 0.1), (0, -3.1, 4, 0.1), (4.1, 0, 0.1, 3.2), (-4.1, 0, 0.1, 3.2), (0, 1, 0.1, 2)]
        )
    )
    bed = """<body name="bed_1|2|3" pos="-2.5 2 0"><freejoint/>
      <geom type="box" pos="0 0 .25" size="1 .8 .25" rgba=".2 .2 .8 1"/>
      <body name="pillow" pos=".7 0 .55"><geom type="ellipsoid" size=".2 .4 .08"/></body></body>"""
    chair = """<body name="Chair_0_1" pos="2.5 -1.5 0" euler="0 0 30"><freejoint/>
      <geom class="visual" type="cylinder" pos="0 0 .4" size=".25 .4" rgba=".6 .3 .1 1"/>
      <geom class="collision" type="box" pos="0 0 .4" size=".3 .3 .4"/></body>"""
    defaults = """<default><default class="visual"><geom contype="0" conaffinity="0" group="2"/></default>
      <default class="collision"><geom group="3" rgba="1 0 0 .5"/></default></default>"""
    floor = '<geom name="floor" type="plane" size="4 3 .1" rgba=".5 .4 .3 1"/>'
    return model(floor + walls + bed + chair, head=defaults)
