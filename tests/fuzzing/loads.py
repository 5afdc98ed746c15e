"""A program that only loads scenes, under limits of time and memory: ``loads.py bytes FILE...`` or ``... json``.

``loads.py files FILE...`` loads the files as they are. A FILE may be a scene instance of the Habitat dataset in its
folder.

Every load gives a sound scene or a SceneError, within ten seconds and one GiB; else the program fails or is killed.
It prints how many scenes were loaded and how many refused.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from glb import SQUARE_UVS, Glb, four_colors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gym_batchnav.scene.habitat.dataset import DATASET_ENDING, load_habitat_scene
from gym_batchnav.scene.load import SceneError, load_scene

SECONDS = 10
MAX_BYTES = 2**30
OUTCOMES: Counter[str] = Counter()


def read(path):
    if path.name.endswith(".scene_instance.json"):
        (dataset,) = path.parent.glob(f"*{DATASET_ENDING}")
        return load_habitat_scene(dataset, path.name)
    return load_scene(path)


def load(path):
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of processor time; its signal ends the process
    try:
        scene = read(path)
    except SceneError as error:
        assert not isinstance(error.__cause__, MemoryError), error
        assert len(str(error)) < 2000
        OUTCOMES["refused"] += 1
        return
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    assert np.isfinite(scene.vertices).all() and 0 <= scene.triangles.min()
    assert scene.triangles.max() < len(scene.vertices)
    assert scene.triangle_material.max() < len(scene.materials)
    assert scene.materials.texture.max() < len(scene.textures)
    OUTCOMES["loaded"] += 1


def damaged(data):
    """Copies of a file cut short and with changed bytes, at its head and at every kilobyte."""
    places = sorted({*range(0, min(len(data), 256), 5), *range(0, len(data), 1024), len(data) - 1})
    for place in places:
        yield data[:place]
        for flip in (0x01, 0x10, 0x80, 0xFF):
            yield data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]


def fuzz_bytes(path):
    data = path.read_bytes()
    for copy in damaged(data):
        path.write_bytes(copy)
        load(path)
    path.write_bytes(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@settings(
    max_examples=600,
    deadline=None,
    database=None,
    derandomize="CI" in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def fuzz_json(data):
    glb = Glb()
    glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=glb.picture(four_colors())))
    glb.json |= {"scene": 0, "extensionsRequired": ["KHR_texture_transform"]}
    for _ in range(data.draw(st.integers(1, 2))):
        place = glb.json
        while True:
            key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
            if not place[key] or not isinstance(place[key], (dict, list)) or data.draw(st.integers(0, 3)) == 0:
                break
            place = place[key]
        place[key] = data.draw(json_values | st.sampled_from([2**31, 10**9, 20_000_000, 2**20]))
        if not all(isinstance(glb.json[kind], list) for kind in ("bufferViews", "accessors", "nodes")):
            break
    Path("fuzzed.glb").write_bytes(glb.bytes())
    load(Path("fuzzed.glb"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    Path("warm.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    load_scene("warm.obj")  # compiles the kernels, which is no part of what a file costs
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + MAX_BYTES, in_use + MAX_BYTES))
    if sys.argv[1] == "json":
        fuzz_json()
    elif sys.argv[1] == "files":
        for argument in sys.argv[2:]:
            load(Path(argument))
    else:
        for argument in sys.argv[2:]:
            fuzz_bytes(Path(argument))
    print(OUTCOMES["loaded"], OUTCOMES["refused"])
