"""Scene datasets in the layouts of HM3D, MP3D, HSSD and ReplicaCAD, made from generated homes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scans import write_hm3d, write_mp3d

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.frame import Z_UP
from gym_batchnav.scene.save import save_glb
from gym_batchnav.scene.scene import Scene

SHELL = ("wall", "floor", "ceiling", "window", "door", "stairs")
_OWN = "%%CONFIG_NAME_AS_ASSET_FILENAME%%"


def write_hm3d_dataset(folder: Path, homes: Sequence[Scene]) -> Path:
    """Write ``val/00800-NAME/NAME.basis.glb``, whose z is up, with navmesh and annotations; return its file."""
    for number, home in enumerate(homes):
        place = folder / f"val/{800 + number:05}-{home.name}"
        place.mkdir(parents=True)
        turned = lying(home)
        save_glb(scan_of(turned), place / f"{home.name}.basis.glb")
        NavMesh.build(home.vertices, home.triangles).save(place / f"{home.name}.basis.navmesh")
        write_hm3d(turned, place, home.name)
    attributes = {
        "shader_type": "flat",
        "up": [0, 0, 1],
        "front": [0, 1, 0],
        "semantic_asset": f"{_OWN}.semantic.glb",
        "semantic_descriptor_filename": f"{_OWN}.semantic.txt",
        "has_semantic_textures": True,
    }
    stages = {"default_attributes": attributes, "paths": {".glb": ["train/*/*.basis.glb", "val/*/*.basis.glb"]}}
    return written(folder / "hm3d_annotated_basis.scene_dataset_config.json", {"stages": stages})


def write_mp3d_dataset(folder: Path, homes: Sequence[Scene]) -> Path:
    """Write ``mp3d/NAME/NAME.glb``, whose z is up, with house, navmesh and annotated PLY; return the dataset's file."""
    for home in homes:
        place = folder / "mp3d" / home.name
        place.mkdir(parents=True)
        turned = lying(home)
        save_glb(scan_of(turned), place / f"{home.name}.glb")
        NavMesh.build(home.vertices, home.triangles).save(place / f"{home.name}.navmesh")
        write_mp3d(turned, place, home.name)
    attributes = {
        "up": [0, 0, 1],
        "front": [0, 1, 0],
        "origin": [0, 0, 0],
        "semantic_asset": f"{_OWN}_semantic.ply",
        "semantic_descriptor_filename": f"{_OWN}.house",
    }
    stages = {"default_attributes": attributes, "paths": {".glb": ["*/*.glb"]}}
    return written(folder / "mp3d/mp3d.scene_dataset_config.json", {"stages": stages})


def write_hssd_dataset(folder: Path, homes: Sequence[Scene]) -> Path:
    """Write stages, objects named by hashes, scene instances and ``semantics/objects.csv``."""
    rows = ["id,name,main_category,wnsynsetkey"]
    for home in homes:
        instances = []
        for number, (one, part, center) in enumerate(furniture_of(home)):
            key = f"{number:x}{zlib.crc32(f'{home.name} {one.name}'.encode()):08x}"
            place = folder / "objects" / key[0]
            place.mkdir(parents=True, exist_ok=True)
            save_glb(part, place / f"{key}.glb")
            written(place / f"{key}.object_config.json", {"render_asset": f"{key}.glb", "semantic_id": number})
            rows.append(f'{key},"a {one.category}, as new",{one.category},{one.category}.n.01')
            instances.append({"template_name": key, "translation": center, "motion_type": "STATIC"})
        (folder / "stages").mkdir(exist_ok=True)
        save_glb(shell_of(home), folder / f"stages/{home.name}.glb")
        written(folder / f"stages/{home.name}.stage_config.json", {"render_asset": f"{home.name}.glb"})
        instance = {
            "stage_instance": {"template_name": f"stages/{home.name}"},
            "object_instances": instances,
            "navmesh_instance": "",
        }
        written(folder / f"scenes/{home.name}.scene_instance.json", instance)
    written(folder / "semantics/hssd-hab_semantic_lexicon.json", {"classes": [{"id": 1, "name": "wrong"}]})
    (folder / "semantics/objects.csv").write_text("\n".join(rows) + "\n")
    config = {
        "stages": {"paths": {".json": ["stages"]}},
        "objects": {"paths": {".json": ["objects/*", "objects/decomposed/*"]}},
        "scene_instances": {
            "default_attributes": {"default_lighting": "", "semantic_scene_instance": "hssd_ssd_map"},
            "paths": {".json": ["scenes"]},
        },
        "semantic_scene_descriptor_instances": {"hssd_ssd_map": "semantics/hssd-hab_semantic_lexicon.json"},
    }
    return written(folder / "hssd-hab.scene_dataset_config.json", config)


def write_replica_cad_dataset(folder: Path, homes: Sequence[Scene]) -> Path:
    """Write stages, objects with numbers of classes, and scene instances that also have an articulated object."""
    classes = sorted({one.category for home in homes for one in home.objects})
    for home in homes:
        instances = []
        for one, part, center in furniture_of(home):
            key = f"frl_{home.name}_{one.name}_thing"  # the name suggests no category
            (folder / "objects").mkdir(parents=True, exist_ok=True)
            save_glb(part, folder / f"objects/{key}.glb")
            facts = {"render_asset": f"../../objects/{key}.glb", "semantic_id": classes.index(one.category) + 1}
            written(folder / f"configs/objects/{key}.object_config.json", facts)
            instances.append({"template_name": f"objects/{key}", "translation": center, "motion_type": "DYNAMIC"})
        (folder / "stages").mkdir(exist_ok=True)
        save_glb(shell_of(home), folder / f"stages/{home.name}.glb")
        stage = {"render_asset": f"../../stages/{home.name}.glb", "up": [0, 1, 0], "front": [0, 0, -1]}
        written(folder / f"configs/stages/{home.name}.stage_config.json", stage)
        instance = {
            "stage_instance": {"template_name": f"stages/{home.name}", "translation_origin": "asset_local"},
            "object_instances": instances,
            "articulated_object_instances": [{"template_name": "fridge", "translation": [0, 0, 0], "fixed_base": True}],
            "default_lighting": "lighting/frl_apartment_stage",
            "semantic_scene_instance": "replicaCAD_semantic",
        }
        written(folder / f"configs/scenes/{home.name}.scene_instance.json", instance)
    lexicon = [{"id": number, "name": name} for number, name in enumerate(classes, 1)]
    written(folder / "configs/ssd/semantic_lexicon.json", {"classes": lexicon})
    config = {
        "stages": {"paths": {".json": ["configs/stages/*"]}},
        "objects": {"paths": {".json": ["configs/objects/*"]}},
        "articulated_objects": {"paths": {".urdf": ["urdf/*/"]}},
        "light_setups": {"paths": {".json": ["configs/lighting/*"]}},
        "scene_instances": {"paths": {".json": ["configs/scenes/*"]}},
        "semantic_scene_descriptor_instances": {"replicaCAD_semantic": "configs/ssd/semantic_lexicon.json"},
    }
    return written(folder / "replicaCAD.scene_dataset_config.json", config)


def lying(home: Scene) -> Scene:
    """The home with z up, as scans for Habitat are."""
    return replace(home, vertices=(home.vertices @ Z_UP).astype(np.float32))


def scan_of(home: Scene) -> Scene:
    """The home as scans are, in one piece."""
    one = np.ones_like(home.triangle_object)
    return replace(home, objects=(SceneObject("mesh", "mesh"),), triangle_object=one, metadata={})


def shell_of(home: Scene) -> Scene:
    """Walls, floors, ceilings, windows and doors."""
    return part_of(home, [number for number, one in enumerate(home.objects, 1) if one.category in SHELL])


def furniture_of(home: Scene) -> list[tuple[SceneObject, Scene, list[float]]]:
    """Every other object, alone and about the centre of its box, and that centre, metres."""
    found = []
    for number, one in enumerate(home.objects, 1):
        if one.category not in SHELL:
            part = part_of(home, [number])
            center = part.bounds.astype(np.float64).mean(axis=0)
            moved = (part.vertices - center).astype(np.float32)
            found.append((one, replace(part, name=one.name, vertices=moved), center.tolist()))
    return found


def part_of(home: Scene, numbers: Iterable[int]) -> Scene:
    """The scene of some objects, by semantic id."""
    numbers = list(numbers)
    mine = np.isin(home.triangle_object, numbers)
    used, triangles = np.unique(home.triangles[mine], return_inverse=True)
    ranks = np.zeros(len(home.objects) + 1, np.int32)
    ranks[numbers] = np.arange(1, len(numbers) + 1)
    return replace(
        home,
        vertices=home.vertices[used],
        triangles=triangles.reshape(-1, 3).astype(np.int32),
        triangle_material=home.triangle_material[mine],
        triangle_object=ranks[home.triangle_object[mine]],
        uvs=None if home.uvs is None else home.uvs[used],
        colors=None if home.colors is None else home.colors[used],
        objects=tuple(home.objects[number - 1] for number in numbers),
        metadata={},
    )


def written(path: Path, document: object) -> Path:
    """Write JSON and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path
