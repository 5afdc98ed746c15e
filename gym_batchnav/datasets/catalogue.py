"""The datasets that users of navigation simulators have, as records.

Layouts, addresses and sizes are those of the documentation of Habitat-Sim and Habitat-Lab (``DATASETS.md`` of both) and
of the datasets' own pages. Nothing is mirrored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_HABITAT_FILES = "https://dl.fbaipublicfiles.com/habitat"


@dataclass(frozen=True, slots=True)
class Files:
    """Files that a dataset has, once or for each scene.

    Attributes:
        pattern: A path in the dataset's folder. ``{scene}`` stands for the name of a scene, ``*`` for part of a name,
            ``**/`` for any folders.
        content: What they hold.
        is_needed: Whether scenes cannot be used without them.
    """

    pattern: str
    content: str
    is_needed: bool = True

    @property
    def is_per_scene(self) -> bool:
        """Whether every scene has such a file."""
        return "{scene}" in self.pattern


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of scenes or of episodes.

    Attributes:
        name: Short name, for ``gym-batchnav data``.
        title: Full name.
        licence: The terms of use in a few words.
        page: Address of the page where access is given, or where the dataset is described.
        access: How to get it, in sentences.
        layout: Its files; the first entry is the one by which scenes, or files of episodes, are found.
        usage: Keywords of an environment that uses it, with ``{folder}`` for the folder of the copy.
        num_scenes: The number of scenes of a complete copy, or of each split; empty if it varies.
        archive: Address of an archive that anybody may download, empty if there is none.
        repository: Name of a dataset repository on Hugging Face that anybody may download, empty if there is none.
    """

    name: str
    title: str
    licence: str
    page: str
    access: str
    layout: tuple[Files, ...]
    usage: str
    num_scenes: Mapping[str, int] | None = None
    archive: str = ""
    repository: str = ""

    @property
    def can_be_downloaded(self) -> bool:
        """Whether it can be downloaded without a form or an account."""
        return bool(self.archive or self.repository)


def _episodes(name: str, title: str, scenes: str, path: str, megabytes: int, task: str = "") -> Dataset:
    """Return a dataset of Habitat's episodes."""
    return Dataset(
        name=name,
        title=title,
        licence=f"derived from the scenes: the terms of {scenes} apply",
        page="https://github.com/facebookresearch/habitat-lab/blob/main/DATASETS.md",
        access=f"An archive of {megabytes:,} MB, without a form. The scenes are not in it: see {scenes}.",
        layout=(
            Files("**/{scene}.json.gz", "episodes of a split, or of a scene in the folder 'content'"),
            Files("**/val/*.json.gz", "episodes of the split val", is_needed=False),
            Files("**/train/*.json.gz", "episodes of the split train", is_needed=False),
        ),
        usage=f'scenes="...", episode_file="{{folder}}/val/val.json.gz"{task}',
        archive=f"{_HABITAT_FILES}/data/datasets/{path}",
    )


_ALL = (
    Dataset(
        name="hm3d",
        title="Habitat-Matterport 3D, version 0.2, with semantics",
        licence="Matterport's terms for academic use",
        page="https://matterport.com/habitat-matterport-3d-research-dataset",
        access=(
            "Ask for access on the page, then make an API token in the settings of your Matterport account under "
            "developer tools. The archives are "
            "https://api.matterport.com/resources/habitat/hm3d-SPLIT-habitat-v0.2.tar (scenes and navmeshes), "
            "hm3d-SPLIT-semantic-annots-v0.2.tar and hm3d-SPLIT-semantic-configs-v0.2.tar (semantics), with SPLIT "
            "minival, val or train; the token's id and secret are user name and password: "
            "curl --location --user ID:SECRET --continue-at - --remote-name ADDRESS."
        ),
        layout=(
            Files("**/{scene}.basis.glb", "textured mesh"),
            Files("**/{scene}.basis.navmesh", "navmesh; built if it is missing", is_needed=False),
            Files("**/{scene}.semantic.glb", "annotated mesh, for categories of objects", is_needed=False),
            Files("**/{scene}.semantic.txt", "annotations, for categories of objects", is_needed=False),
            Files("hm3d_annotated_basis.scene_dataset_config.json", "list of all scenes", is_needed=False),
        ),
        usage='scenes="{folder}/val/*/*.basis.glb"',
        num_scenes={"minival": 10, "val": 100, "train": 800},
    ),
    Dataset(
        name="gibson",
        title="Gibson",
        licence="Gibson's terms for academic use",
        page="https://github.com/StanfordVL/GibsonEnv#database",
        access="Fill in the form that the page names and choose the files for Habitat (1.5 GB for the split 4+).",
        layout=(
            Files("{scene}.glb", "textured mesh"),
            Files("{scene}.navmesh", "navmesh; built if it is missing", is_needed=False),
        ),
        usage='scenes="{folder}/*.glb"',
    ),
    Dataset(
        name="mp3d",
        title="Matterport3D, for Habitat",
        licence="Matterport3D's terms for academic use",
        page="https://niessner.github.io/Matterport/",
        access=(
            "Send the signed terms as the page says; its script then downloads the scenes (15 GB): "
            "python2.7 download_mp.py --task habitat -o FOLDER."
        ),
        layout=(
            Files("**/{scene}/{scene}.glb", "textured mesh"),
            Files("**/{scene}/{scene}.navmesh", "navmesh; built if it is missing", is_needed=False),
            Files("**/{scene}/{scene}.house", "annotations, for categories of objects", is_needed=False),
            Files("**/{scene}/{scene}_semantic.ply", "annotated mesh, for categories of objects", is_needed=False),
        ),
        usage='scenes="{folder}/*/*.glb"',
        num_scenes={"": 90},
    ),
    Dataset(
        name="hssd",
        title="Habitat Synthetic Scenes Dataset, hssd-hab",
        licence="CC BY-NC 4.0",
        page="https://huggingface.co/datasets/hssd/hssd-hab",
        access=(
            "Sign in on the page and accept its conditions if it asks for that, then run hf download hssd/hssd-hab "
            "--repo-type dataset --local-dir hssd-hab."
        ),
        layout=(
            Files("**/{scene}.scene_instance.json", "places of a scene's objects"),
            Files("hssd-hab.scene_dataset_config.json", "list of all scenes"),
            Files("**/stages/**/*.glb", "rooms"),
            Files("**/objects/**/*.glb", "furniture"),
            Files("**/semantics/**/*.csv", "categories of objects", is_needed=False),
        ),
        usage='scenes="{folder}/hssd-hab.scene_dataset_config.json"',
    ),
    Dataset(
        name="ai2thor-hab",
        title="AI2-THOR and ProcTHOR homes for Habitat",
        licence="that of its page",
        page="https://huggingface.co/datasets/hssd/ai2thor-hab",
        access=(
            "Sign in on the page and accept its conditions, then run hf download hssd/ai2thor-hab --repo-type dataset "
            "--local-dir ai2thor-hab."
        ),
        layout=(
            Files("**/{scene}.scene_instance.json", "places of a scene's objects"),
            Files("ai2thor-hab*.scene_dataset_config.json", "list of all scenes"),
            Files("**/stages/**/*.glb", "rooms", is_needed=False),
            Files("**/objects/**/*.glb", "furniture", is_needed=False),
        ),
        usage='scenes="{folder}/ai2thor-hab.scene_dataset_config.json"',
    ),
    Dataset(
        name="replica-cad",
        title="ReplicaCAD",
        licence="CC BY 4.0",
        page="https://huggingface.co/datasets/ai-habitat/ReplicaCAD_dataset",
        access="A repository on Hugging Face, without a form.",
        layout=(
            Files("**/{scene}.scene_instance.json", "places of a scene's objects"),
            Files("replicaCAD.scene_dataset_config.json", "list of all scenes"),
            Files("**/stages/*.glb", "rooms"),
            Files("**/objects/*.glb", "furniture"),
            Files("**/urdf/**/*.urdf", "articulated furniture, which is left out", is_needed=False),
        ),
        usage='scenes="{folder}/replicaCAD.scene_dataset_config.json"',
        repository="ai-habitat/ReplicaCAD_dataset",
    ),
    Dataset(
        name="replica",
        title="Replica",
        licence="Replica's terms for research",
        page="https://github.com/facebookresearch/Replica-Dataset",
        access="Run the script download.sh of the page.",
        layout=(
            Files("{scene}/mesh.ply", "mesh with colours of vertices"),
            Files("{scene}/habitat/mesh_semantic.ply", "annotated mesh", is_needed=False),
            Files("{scene}/habitat/info_semantic.json", "annotations", is_needed=False),
        ),
        usage='scenes="{folder}/*/mesh.ply"',
        num_scenes={"": 18},
    ),
    Dataset(
        name="habitat-test-scenes",
        title="Habitat's three test scenes",
        licence="that of the archive",
        page="https://github.com/facebookresearch/habitat-sim/blob/main/DATASETS.md#habitat-test-scenes",
        access="An archive of 89 MB, without a form.",
        layout=(
            Files("**/{scene}.glb", "textured mesh"),
            Files("**/{scene}.navmesh", "navmesh; built if it is missing", is_needed=False),
            Files("**/skokloster-castle.glb", "the castle"),
        ),
        usage='scenes="{folder}/*.glb"',
        num_scenes={"": 3},
        archive=f"{_HABITAT_FILES}/habitat-test-scenes_v1.0.zip",
    ),
    Dataset(
        name="molmospaces",
        title="MolmoSpaces: iTHOR, ProcTHOR and Holodeck homes as MuJoCo XML",
        licence="CC BY 4.0 and ODC-BY",
        page="https://allenai.github.io/molmospaces/",
        access="Install the package molmospaces, whose resource manager downloads scenes and objects: see the page.",
        layout=(
            Files("**/scenes/**/{scene}.xml", "home"),
            Files("**/*.obj", "meshes of the furniture", is_needed=False),
            Files("**/*.png", "textures", is_needed=False),
        ),
        usage='scenes="{folder}/scenes/**/*.xml"',
    ),
    _episodes("pointnav-gibson-v1", "PointNav in Gibson", "gibson", "pointnav/gibson/v1/pointnav_gibson_v1.zip", 385),
    _episodes(
        "pointnav-gibson-v2",
        "PointNav in Gibson, for a LoCoBot",
        "gibson",
        "pointnav/gibson/v2/pointnav_gibson_v2.zip",
        274,
    ),
    _episodes("pointnav-mp3d-v1", "PointNav in Matterport3D", "mp3d", "pointnav/mp3d/v1/pointnav_mp3d_v1.zip", 400),
    _episodes("pointnav-hm3d-v1", "PointNav in HM3D", "hm3d", "pointnav/hm3d/v1/pointnav_hm3d_v1.zip", 992),
    _episodes(
        "objectnav-mp3d-v1",
        "ObjectNav in Matterport3D",
        "mp3d",
        "objectnav/m3d/v1/objectnav_mp3d_v1.zip",
        170,
        ", task=ObjectNav()",
    ),
    _episodes(
        "objectnav-hm3d-v1",
        "ObjectNav in HM3D, semantics 0.1",
        "hm3d",
        "objectnav/hm3d/v1/objectnav_hm3d_v1.zip",
        154,
        ", task=ObjectNav()",
    ),
    _episodes(
        "objectnav-hm3d-v2",
        "ObjectNav in HM3D, semantics 0.2",
        "hm3d",
        "objectnav/hm3d/v2/objectnav_hm3d_v2.zip",
        245,
        ", task=ObjectNav()",
    ),
)

DATASETS: Mapping[str, Dataset] = {one.name: one for one in _ALL}
"""All known datasets by name."""


def dataset_named(name: str) -> Dataset:
    """Return a dataset by its name.

    Raises:
        ValueError: If there is none; the message lists the names.
    """
    if name not in DATASETS:
        raise ValueError(f"no dataset is called {name!r}: choose one of {', '.join(DATASETS)}")
    return DATASETS[name]
