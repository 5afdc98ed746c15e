"""The pages: what they name exists, their links lead somewhere, their programs run or at least compile."""

import ast
import dataclasses
import inspect
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from rooms import box_room
from typer.main import get_command

import gym_batchnav
from gym_batchnav import BatchNavEnv, Camera, NavMesh, NavMeshSettings, PointNav, viz
from gym_batchnav.cli import app
from gym_batchnav.episodes.habitat import write_episodes
from gym_batchnav.episodes.sampling import sample_episodes
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.scene.save import save_glb
from gym_batchnav.state import AgentState, EpisodeState
from gym_batchnav.task.sensors import GPS, Compass, Heading, PreviousAction

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
DATACLASSES = {one.__name__: one for one in (Camera, NavMeshSettings, PointNav, GPS, Compass, Heading, PreviousAction)}
OBJECTS = {"envs": BatchNavEnv, "envs.agents": AgentState, "envs.episodes": EpisodeState, "mesh": NavMesh, "viz": viz}
# Programs that are run, by what they say.
CHEAP = ("NavMesh.build(", "CartPole", "data/scene_datasets", "class StayInTheOpen")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def programs():
    """Every Python block, named by its page and its number there."""
    return [
        pytest.param(text, id=f"{name_of(page)}-{number}")
        for page in PAGES
        for number, (language, text) in enumerate(BLOCK.findall(page.read_text()))
        if language == "python"
    ]


def own_names():
    """What the tables of docs/from_habitat.md say that things are called here: the code in the second column."""
    rows = [
        line.split(" | ") for line in (ROOT / "docs" / "from_habitat.md").read_text().splitlines() if line[:1] == "|"
    ]
    return sorted({name for row in rows if len(row) == 3 for name in re.findall(r"`([^`]+)`", row[1])})


def ppo_defaults():
    """Of PPOConfig, read without importing it, which needs torch."""
    tree = ast.parse((ROOT / "gym_batchnav" / "train" / "ppo.py").read_text())
    (config,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "PPOConfig")
    return {node.target.id: ast.literal_eval(node.value) for node in config.body if isinstance(node, ast.AnnAssign)}


def defaults_of(name):
    """The defaults of a class by its name."""
    if name == "PPOConfig":
        return ppo_defaults()
    if name == "BatchNavEnv":
        return {key: one.default for key, one in inspect.signature(BatchNavEnv).parameters.items()}
    return {field.name: field.default for field in dataclasses.fields(DATACLASSES[name])}


def check_keyword(owner, keyword, value):
    """A keyword exists, and a number or truth value given for it is its default."""
    default = defaults_of(owner)[keyword]
    if isinstance(value, ast.Call):
        check_call(value)
    elif isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and keyword != "num_envs":
        assert value.value == default, f"{owner}({keyword}=) is {default} by default"


def check_call(call):
    """A class is given keywords that it has; a method of an object is."""
    name = ast.unparse(call.func)
    if "." in name:
        assert {one.arg for one in call.keywords} <= set(inspect.signature(look_up(name)).parameters)
        return
    defaults_of(name)
    for one in call.keywords:
        check_keyword(name, one.arg, one.value)


def look_up(name):
    """What a dotted name stands for."""
    owner, _, attribute = name.rpartition(".")
    return getattr(OBJECTS[owner], attribute)


def check_command(words):
    """A command of the command line and its options exist."""
    command = get_command(app)
    for word in words:
        if word.startswith("--"):
            assert any(word in parameter.opts for parameter in command.params), word
        else:
            command = command.commands[word]


@pytest.fixture(scope="module")
def info(tmp_path_factory):
    """What a batch reports where an episode ends."""
    library = SceneLibrary.from_scenes([box_room()])
    with_everything = {"library": library, "sensors": (), "num_episodes": 5}
    env = BatchNavEnv(2, **with_everything, cache_dir=tmp_path_factory.mktemp("cache"))
    env.reset(seed=0)
    found = env.step(np.zeros(2, int))[4]
    env.close()
    return found


def check_name(name, info):
    """Refuse a keyword, call, attribute, info or command that does not exist."""
    command = re.match(r"(?:gym-batchnav|torchrun -m gym_batchnav\.cli) (.*)", name)
    keyword = re.match(r"(\w+)=(.*)", name)
    if command:
        check_command(command[1].split())
    elif keyword:
        check_keyword("BatchNavEnv", keyword[1], ast.parse(keyword[2] or "...", mode="eval").body)
    elif name.startswith("info["):
        assert ast.literal_eval(name[len("info[") : -1]) in info
    elif name.endswith(")"):
        check_call(ast.parse(name, mode="eval").body)
    else:
        look_up(name)


def test_what_the_page_for_habitats_users_names_exists(info):
    names = own_names()
    assert len(names) > 60
    for name in names:
        check_name(name, info)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "forward_step=0.3",
            "slide=True",
            "Camera(width=63)",
            "camera=Camera(fov=90)",
            "PPOConfig(clipping=1)",
            "Sonar()",
        ),
        *("Sonar()", "mesh.try_step", "envs.reset(seeds=0)", 'info["successes"]'),
        *("gym-batchnav learn", "gym-batchnav train --output"),
    ],
)
def test_a_name_that_does_not_exist_is_found(name, info):
    with pytest.raises((AssertionError, KeyError, AttributeError)):
        check_name(name, info)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    text = BLOCK.sub("", page.read_text())
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    missing = [one for one in targets if one and "://" not in one and not (page.parent / one).exists()]
    assert missing == []


@pytest.mark.parametrize("program", programs())
def test_programs_compile(program):
    compile(program, "page", "exec")


@pytest.mark.parametrize("program", [one for one in programs() if any(word in one.values[0] for word in CHEAP)])
def test_cheap_programs_run(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path / "cache"))
    save_glb(box_room(), tmp_path / "my_house.glb")
    scenes, episodes = Path("data/scene_datasets/gibson"), Path("data/datasets/pointnav/gibson/v1/val")
    scenes.mkdir(parents=True)
    episodes.mkdir(parents=True)
    shutil.copy("my_house.glb", scenes / "Adrian.glb")
    room = box_room()
    sampled = sample_episodes(NavMesh.build(room.vertices, room.triangles), 20, np.random.default_rng(0))
    write_episodes({"gibson/Adrian.glb": sampled}, episodes / "val.json.gz")
    names = {"gymnasium": gym_batchnav.gymnasium}
    exec(compile(program, "page", "exec"), names)
    if "envs" in names:
        names["envs"].close()


def sections(page):
    """Headings of the second order and what stands under them."""
    found = re.split(r"^## (.+)$", page.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_every_library_has_a_section_that_nox_can_follow():
    libraries = dict(re.findall(r'"(\w+)": Library\("([^"]+)"', (ROOT / "noxfile.py").read_text()))
    extras = re.findall(r"^([\w-]+) = \[", (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    page = sections(ROOT / "docs" / "libraries.md")
    assert len(libraries) >= 8
    for name, heading in libraries.items():
        (bash,) = (text for language, text in BLOCK.findall(page[heading]) if language == "bash")
        *setup, run = bash.splitlines()
        assert all("pip install " in one for one in setup)
        assert re.fullmatch(r'pip install "\.\[([\w-]+)\]"', setup[-1])[1] in extras
        example = run.split()[1]
        assert run.startswith("python examples/") and (ROOT / example).is_file()
        assert (ROOT / "tests" / "adapters" / f"test_{name}.py").is_file()
        source = (ROOT / example).read_text()
        assert all(f'"{option}"' in source for option in run.split() if option.startswith("--"))
