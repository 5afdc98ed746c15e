"""Sound files of every kind that is fuzzed, and how each is changed."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from compressed import draco_square, ktx2_square, meshopt_square
from glb import SQUARE_UVS, Glb, four_colors
from mjcf import HOUSE_OBJ, furnished_home
from PIL import Image
from rooms import box_room
from scans import write_hm3d, write_mp3d

from fuzzing import mutators
from gym_batchnav.collect.collector import collect
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.env.replay import RecordWorlds
from gym_batchnav.episodes.habitat import write_episodes
from gym_batchnav.episodes.sampling import sample_episodes
from gym_batchnav.geometry import Camera
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.save import save_glb
from gym_batchnav.scene.scene import Scene
from gym_batchnav.task.explore import AreaSeen
from gym_batchnav.task.measures import NDTW
from gym_batchnav.task.sensors import PreviousAction
from gym_batchnav.worlds.people import People

DATASET = "home.scene_dataset_config.json"
INSTANCE = "home.scene_instance.json"
Mutator = Callable[[np.random.Generator, bytes], bytes]

# Keywords of the batch whose world is recorded.
LOGGED: dict[str, Any] = {
    "agents_per_world": 2, "bodies": (People(1),), "episodes": 20, "max_episode_steps": 6,
}  # fmt: skip
FORMATS = {"zarr": "zarr", "webdataset": "numpy"}  # of collections, and what they need
SCENES = ("glb", "gltf", "obj", "ply", "stl", "off", "texture", "mjcf")
KINDS = (*SCENES, "navmesh", "episodes", "policy", "cache", "dataset", "annotations", "log", "state", "collection",
         "run")  # fmt: skip
# Compressed samples, by the package that reads them; meshopt needs Python 3.11.
PACKED = {name: make for name, package, make in (
    ("ktx2", "opengl_basisu", partial(ktx2_square, "uastc_zstd")), ("meshopt", "meshopt", meshopt_square),
    ("draco", "DracoPy", lambda: draco_square()[1]),
) if find_spec(package)}  # fmt: skip
# Of each kind, the files that are changed and how.
MUTATORS: dict[str, dict[str, Mutator]] = {
    "glb": dict.fromkeys(("scene.glb", "textured.glb", *(f"{name}.glb" for name in PACKED)), mutators.mutate_glb),
    "gltf": {"scene.gltf": mutators.mutate_json_text, "scene.bin": mutators.mutate_bytes},
    "obj": {"scene.obj": mutators.mutate_text, "scene.mtl": mutators.mutate_text},
    "ply": {"scene.ply": mutators.mutate_bytes, "text.ply": mutators.mutate_text},
    "stl": {"scene.stl": mutators.mutate_bytes, "text.stl": mutators.mutate_text},
    "off": {"scene.off": mutators.mutate_text},
    "texture": dict.fromkeys(("a.png", "a.jpg", "a.webp", "a.bmp", "a.tga", "a.gif", "a.tiff"), mutators.mutate_bytes),
    "mjcf": {
        "home.xml": mutators.mutate_xml,
        "part.obj": mutators.mutate_text,
        "part.stl": mutators.mutate_bytes,
        "part.msh": mutators.mutate_bytes,
        "part.bin": mutators.mutate_bytes,
        "part.png": mutators.mutate_bytes,
    },
    "navmesh": {"scene.navmesh": mutators.mutate_bytes},
    "episodes": {"e.json": mutators.mutate_json_text, "e.json.gz": mutators.mutate_gzip},
    "policy": dict.fromkeys(("blind.safetensors", "small.safetensors"), mutators.mutate_safetensors),
    "cache": {"*": mutators.mutate_entry},
    "dataset": {"*.json": mutators.mutate_json_text},
    "annotations": {
        "hm3d.semantic.txt": mutators.mutate_text,
        "hm3d.semantic.glb": mutators.mutate_glb,
        "mp3d.house": mutators.mutate_text,
        "mp3d_semantic.ply": mutators.mutate_bytes,
        "gibson.scn": mutators.mutate_json_text,
        "gibson_semantic.ply": mutators.mutate_bytes,
    },
    "log": {"world.npz": mutators.mutate_npz},
    "state": {"state.pickle": mutators.mutate_state},
    "collection": {"*": mutators.mutate_any},
    "run": {"curve.jsonl": mutators.mutate_lines, "run.json": mutators.mutate_json_text},
}


def write_samples(folder: Path) -> None:
    """Write a folder of sound files for each kind."""
    for kind in KINDS:
        (folder / kind).mkdir(parents=True)
    room = box_room()
    _write_scenes(folder, room)
    _write_textures(folder / "texture")
    _write_mjcf(folder / "mjcf")
    NavMesh.build(room.vertices, room.triangles).save(folder / "navmesh" / "scene.navmesh")
    _write_episodes(folder / "episodes", room)
    _write_policies(folder / "policy")
    save_glb(room, folder / "cache" / "room.glb")
    scenes = Scenes(str(folder / "cache" / "room.glb"), cache_dir=folder / "cache" / "entries")
    BatchNavEnv(2, scenes=scenes, episodes=5, sensors=(), renderer="embree").close()
    row = {"template_name": "crate", "translation": [1, 0, 1], "rotation": [1, 0, 0, 0], "uniform_scale": 0.5}
    write_dataset(folder / "dataset", [row, row])
    _write_annotations(folder / "annotations", room)
    _write_log(folder / "log", room)
    _write_state(folder / "state")
    _write_collections(folder / "collection", room)
    _write_run(folder / "run")


def mutated(rng: np.random.Generator, kind: str, samples: Path) -> tuple[dict[str, bytes], str]:
    """One input: the files of a kind with one of them changed.

    Returns:
        The bytes of all files by their path in the folder of the input, and the path of the one that was changed.
    """
    folder = samples / kind
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    patterns = MUTATORS[kind]
    choices = [
        (name, mutator)
        for pattern, mutator in patterns.items()
        for name in files
        if Path(name).match(pattern) and (kind != "cache" or name.startswith("entries/"))
    ]
    name, mutator = choices[rng.integers(len(choices))]
    files[name] = mutator(rng, files[name])
    if kind == "collection":
        _forge(files, name)
    return files, name


def _forge(files: dict[str, bytes], name: str) -> None:
    """Make the record of a shard agree with a changed file of it, as a stranger would."""
    style, _, inside = name.partition("/shards/")
    shard, _, file = inside.partition("/")
    record = f"{style}/shards/{shard}/shard.json"
    if file and name != record:
        found = json.loads(files[record])
        found["files"][file] = [len(files[name]), hashlib.sha256(files[name]).hexdigest()]
        files[record] = json.dumps(found).encode()


def state_env() -> BatchNavEnv:
    """A batch whose state holds maps, paths and other bodies."""
    return BatchNavEnv(
        2, scenes=[box_room()], sensors=("depth", MapPath(), PreviousAction()), measures=(NDTW(), AreaSeen()),
        renderer="embree", camera=Camera(16, 16), agents_per_world=2, bodies=(People(1),), episodes=20,
    )  # fmt: skip


def _write_state(folder: Path) -> None:
    env = state_env()
    env.reset(seed=0)
    for _ in range(4):
        env.step(np.array([1, 2]))
    (folder / "state.pickle").write_bytes(pickle.dumps(env.get_state()))
    env.close()


def _write_collections(folder: Path, room: Scene) -> None:
    save_glb(room, folder.parent / "room.glb")
    for style, package in FORMATS.items():
        if find_spec(package):
            collect(
                folder / style, str(folder.parent / "room.glb"), policy="random", to=style, camera=Camera(8, 8),
                episodes_per_scene=2, episodes_per_shard=1, episodes=2, max_episode_steps=4, renderer="embree",
            )  # fmt: skip


def _write_run(folder: Path) -> None:
    try:
        from gym_batchnav.train.config import RunConfig
        from gym_batchnav.train.run import write_run_file
    except ImportError:
        return
    write_run_file(folder, {"ppo.gamma": 0.9}, RunConfig())
    rows = [{"frames": k, "seconds": 2.0 * k, "spl": 0.1 * k, "losses": {"value": 1.0}} for k in range(4)]
    (folder / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_scenes(folder: Path, room: Scene) -> None:
    import trimesh

    save_glb(room, folder / "glb" / "scene.glb")
    glb = Glb()
    floor = np.array([[-3, 0, 3], [3, 0, 3], [3, 0, -3], [-3, 0, -3]], np.float32)
    colors = np.full((4, 4), 200, np.uint8)
    part = glb.primitive(floor, uvs=SQUARE_UVS, colors=colors, material=glb.picture(four_colors(), sampler=0))
    part["attributes"] |= {
        "JOINTS_0": glb.accessor(np.zeros((4, 4), np.uint8)),
        "WEIGHTS_0": glb.accessor(np.full((4, 4), 0.25, np.float32)),
    }
    glb.json |= {"nodes": [{"mesh": 0, "skin": 0}, {}], "skins": [{"joints": [1]}], "scenes": [{"nodes": [0, 1]}]}
    glb.json["samplers"] = [{"wrapS": 33071, "wrapT": 33648, "magFilter": 9728}]
    (folder / "glb" / "textured.glb").write_bytes(glb.mesh(part).bytes())
    for name, make in PACKED.items():
        standing = make()
        standing.json["nodes"][0] |= {"rotation": [-np.sqrt(0.5), 0, 0, np.sqrt(0.5)], "scale": [6, 6, 6]}  # a floor
        (folder / "glb" / f"{name}.glb").write_bytes(standing.bytes())
    mesh = trimesh.Trimesh(room.vertices, room.triangles, process=False)
    mesh.export(folder / "ply" / "scene.ply")
    mesh.export(folder / "ply" / "text.ply", encoding="ascii")
    mesh.export(folder / "stl" / "scene.stl")
    (folder / "stl" / "text.stl").write_text(trimesh.exchange.stl.export_stl_ascii(mesh))
    mesh.export(folder / "off" / "scene.off")
    lines = ["mtllib scene.mtl", "o room", *("v {:.6f} {:.6f} {:.6f}".format(*vertex) for vertex in room.vertices)]
    lines += ["vt 0 0", "vt 1 1", "usemtl wood"]
    lines += ["f {}/1 {}/2 {}/1".format(*(triangle + 1)) for triangle in room.triangles]
    (folder / "obj" / "scene.obj").write_text("\n".join(lines))
    (folder / "obj" / "scene.mtl").write_text(
        "newmtl wood\nKd 1 1 1\nmap_Kd -clamp on wood.png\nd 0.9\nmap_d wood.png\n"
    )
    Image.fromarray(four_colors()).save(folder / "obj" / "wood.png")
    _write_gltf(folder / "gltf")


def _write_log(folder: Path, room: Scene) -> None:
    """Write the recording of a world of two agents and a person."""
    env = BatchNavEnv(2, scenes=[room], sensors=(), renderer="embree", **LOGGED)
    envs = RecordWorlds(env, folder)
    envs.reset(seed=0)
    for _ in range(LOGGED["max_episode_steps"]):
        envs.step(np.array([1, 2]))
    envs.close()
    (folder / "000000_world_0.npz").rename(folder / "world.npz")


def _write_gltf(folder: Path) -> None:
    glb = Glb()
    floor = np.array([[-3, 0, 3], [3, 0, 3], [3, 0, -3], [-3, 0, -3]], np.float32)
    glb.mesh(glb.primitive(floor, uvs=SQUARE_UVS), glb.primitive(floor + np.float32([0, 2.5, 0])))
    glb.json["nodes"] = [{"children": [1], "rotation": [0, 0, 0, 1]}, {"mesh": 0, "translation": [0, 0.5, 0]}]
    document = {**{key: items for key, items in glb.json.items() if items}, "scene": 0}
    document["buffers"] = [{"byteLength": len(glb.binary), "uri": "scene.bin"}]
    (folder / "scene.gltf").write_text(json.dumps(document))
    (folder / "scene.bin").write_bytes(glb.binary)


def _write_mjcf(folder: Path) -> None:
    """Write a furnished home with a mesh of each format, a height field and a texture."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "<f4")
    faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], "<i4")
    names = ("obj", "stl", "msh")
    assets = "".join(f'<mesh name="{name}" file="part.{name}"/>' for name in names)
    assets += '<hfield name="hill" file="part.bin" size="1 1 .5 .1"/><texture name="t" type="2d" file="part.png"/>'
    assets += '<texture name="c" builtin="gradient" width="8" height="8"/><material name="cube" texture="c"/>'
    assets += '<material name="wood" texture="t" texrepeat="2 2"/>'
    shapes = "".join(
        f'<body name="{name}_1"><geom type="mesh" mesh="{name}" material="wood"/></body>' for name in names
    )
    shapes += '<geom type="hfield" hfield="hill"/><replicate count="2" offset="1 0 0"><geom size=".1" material="cube"/>'
    home = furnished_home().replace("<asset>", "<asset>" + assets)
    (folder / "home.xml").write_text(home.replace("</worldbody>", shapes + "</replicate></worldbody>"))
    (folder / "part.obj").write_bytes(HOUSE_OBJ)
    triangles = (bytes(12) + corners[face].tobytes() + bytes(2) for face in faces)
    (folder / "part.stl").write_bytes(bytes(80) + struct.pack("<I", len(faces)) + b"".join(triangles))
    (folder / "part.msh").write_bytes(struct.pack("<4i", 4, 0, 0, 4) + corners.tobytes() + faces.tobytes())
    (folder / "part.bin").write_bytes(struct.pack("<2i", 3, 4) + np.linspace(0, 1, 12, dtype="<f4").tobytes())
    Image.fromarray(four_colors()).save(folder / "part.png")


def _write_textures(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 56, 3)).astype(np.uint8)
    names = list(MUTATORS["texture"])
    for name in names:
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, {"jpg": "JPEG", "tga": "TGA"}.get(name[2:], name[2:].upper()))
        (folder / name).write_bytes(stream.getvalue())
    floor = "v {0} 0 3\nv {1} 0 3\nv {1} 0 -3\nv {0} 0 -3\n"
    lines = "mtllib scene.mtl\nvt 0 0\nvt 1 0\nvt 1 1\n"
    for number, name in enumerate(names):
        first = 4 * number + 1
        lines += floor.format(6 * number, 6 * number + 6) + f"usemtl {name}\n"
        lines += f"f {first}/1 {first + 1}/2 {first + 2}/3\nf {first}/1 {first + 2}/3 {first + 3}/2\n"
    (folder / "scene.obj").write_text(lines)
    (folder / "scene.mtl").write_text("".join(f"newmtl {name}\nmap_Kd {name}\n" for name in names))


def _write_episodes(folder: Path, room: Scene) -> None:
    navmesh = NavMesh.build(room.vertices, room.triangles)
    episodes = sample_episodes(navmesh, 6, np.random.default_rng(0))
    for name in ("e.json", "e.json.gz"):
        write_episodes({room.name: episodes}, folder / name)


def _write_policies(folder: Path) -> None:
    """Write one policy that is blind and one that sees."""
    try:
        import torch
    except ImportError:  # policies are not fuzzed without torch
        return
    from gym_batchnav.evaluation.world import PolicyAbout
    from gym_batchnav.train.policy import make_policy
    from gym_batchnav.train.policy_file import save_policy

    torch.manual_seed(0)
    for kind, sensors in (("blind", ()), ("small", ("depth", "rgb"))):
        about = PolicyAbout(kind, sensors, Camera(16, 16), 0.25, 10.0, 500, "cpu", 0, 0)
        save_policy(folder / f"{kind}.safetensors", make_policy(kind, about.observation_space()), about)


def write_dataset(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a Habitat dataset of a room, a crate and one scene instance with rows of objects."""
    save_glb(box_room(), folder / "room.glb")
    save_glb(box_room("crate", 1.0, 1.0, 0.5), folder / "crate.glb")
    dataset = {
        "stages": {"paths": {".glb": ["room.glb"], ".json": ["*", "**/*.json"]}},
        "objects": {"paths": {".glb": ["crate.glb"]}, "default_attributes": {"scale": [1, 1, 1]}},
        "scene_instances": {"paths": {".json": ["*"]}},
    }
    instance = {"stage_instance": {"template_name": "room"}, "object_instances": rows}
    stage = {"render_asset": "room.glb", "up": [0, 1, 0], "front": [0, 0, -1], "scale": [1, 1, 1], "units_to_meters": 1}
    documents = {DATASET: dataset, INSTANCE: instance, "room.stage_config.json": stage}
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))


def _write_annotations(folder: Path, room: Scene) -> None:
    """Write the same room with the annotations of three datasets."""
    for name in ("hm3d", "mp3d", "gibson"):
        save_glb(room, folder / f"{name}.glb")
    write_hm3d(room, folder, "hm3d")
    write_mp3d(room, folder, "mp3d")
    write_mp3d(room, folder, "gibson")
    (folder / "gibson.house").unlink()
    objects = [{"id": number, "class_": one.category} for number, one in enumerate(room.objects)]
    (folder / "gibson.scn").write_text(json.dumps({"objects": objects}))
