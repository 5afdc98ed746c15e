"""Documentation: names exist, links lead to files, and programs run."""

import ast
import dataclasses
import inspect
import re
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rooms import box_room
from typer.main import get_command

import gym_batchnav
from gym_batchnav import BatchNavEnv, Camera, NavMesh, lenses, viz
from gym_batchnav.cli import app
from gym_batchnav.episodes.habitat import write_episodes
from gym_batchnav.episodes.sampling import sample_episodes
from gym_batchnav.evaluation.report import scores_json
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.scene.save import save_glb
from gym_batchnav.state import AgentState, EpisodeState
from gym_batchnav.task import explore, measures, sensors

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/RESULTS.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
LIBRARIES = {
    "jax", "lerobot", "matplotlib", "minari", "pettingzoo", "pufferlib", "ray", "rerun", "rl_games", "skrl",
    "stable_baselines3", "submitit", "tianshou", "torch", "torchrl", "zarr",
}  # fmt: skip  # which programs may need, and which may be missing
MODULES = (gym_batchnav, sensors, measures, explore)  # of the classes that the page names
OBJECTS = {
    "envs": BatchNavEnv, "envs.agents": AgentState, "envs.episodes": EpisodeState, "mesh": NavMesh, "viz": viz,
    "Camera": Camera, "lenses": lenses,
}  # fmt: skip
MAX_ENVS = 8  # of a program that is run here
FEWER = {"1_000_000": "64", 'scenes="apartments"': 'scenes="apartment_0"'}  # steps to learn for, and scenes


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def own_names():
    """The names in the second column of the tables of docs/from_habitat.md."""
    rows = [
        line.split(" | ") for line in (ROOT / "docs" / "from_habitat.md").read_text().splitlines() if line[:1] == "|"
    ]
    return sorted({name for row in rows if len(row) == 3 for name in re.findall(r"`([^`]+)`", row[1])})


def ppo_defaults():
    """Defaults of PPOConfig, read from its source, because importing it needs torch."""
    tree = ast.parse((ROOT / "gym_batchnav" / "train" / "ppo.py").read_text())
    (config,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "PPOConfig")
    return {node.target.id: ast.literal_eval(node.value) for node in config.body if isinstance(node, ast.AnnAssign)}


def defaults_of(name):
    """The defaults of a class by its name."""
    if name == "PPOConfig":
        return ppo_defaults()
    if name == "BatchNavEnv":
        return {key: one.default for key, one in inspect.signature(BatchNavEnv).parameters.items()}
    module = next((one for one in MODULES if hasattr(one, name)), gym_batchnav)
    return {field.name: field.default for field in dataclasses.fields(getattr(module, name))}


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
    """The object of a dotted name."""
    owner, _, attribute = name.rpartition(".")
    return getattr(OBJECTS[owner], attribute)


def check_command(words):
    """Fail unless a command and its options exist."""
    command = get_command(app)
    for word in words:
        if word.startswith("--"):
            assert any(word in parameter.opts for parameter in command.params), word
        else:
            command = command.commands[word]


@pytest.fixture(scope="module")
def info(tmp_path_factory):
    """The infos of a step in which an episode ends."""
    library = SceneLibrary.from_scenes([box_room()])
    env = BatchNavEnv(2, library=library, sensors=(), episodes=5)
    env.reset(seed=0)
    found = env.step(np.zeros(2, int))[4]
    env.close()
    return found


def check_name(name, info):
    """Fail unless a keyword, call, attribute, info or command exists."""
    command = re.match(r"(?:gym-batchnav|torchrun -m gym_batchnav) (.*)", name)
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
        "actions=DiscreteActions(forward_step=0.3)", "slide=True", "Camera(width=63)", "camera=Camera(fov=90)",
        "Sonar()", "PPOConfig(clipping=1)", "mesh.try_step", "envs.reset(seeds=0)", 'info["successes"]',
        "gym-batchnav learn", "gym-batchnav train --output",
    ],
)  # fmt: skip
def test_a_name_that_does_not_exist_is_found(name, info):
    with pytest.raises((AssertionError, KeyError, AttributeError)):
        check_name(name, info)


def anchors_of(page):
    """The anchors of a page's headings, as sites of repositories and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings():
    anchors = {page.resolve(): anchors_of(page) for page in PAGES}
    for page in PAGES:
        text = BLOCK.sub("", page.read_text())
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            target, _, anchor = link.partition("#")
            if "://" in link:
                continue
            place = (page.parent / target if target else page).resolve()
            assert place.exists(), (name_of(page), link)
            assert not anchor or anchor in anchors[place], (name_of(page), link)


def test_links_of_the_readme_are_absolute_and_lead_to_files():
    urls = dict(re.findall(r'^(\w+) = "(https://\S+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    raw = urls["Repository"].replace("github.com", "raw.githubusercontent.com") + "/main/"
    places = {f"{urls['Repository']}/blob/main/": "", urls["Documentation"]: "docs/", raw: ""}
    links = re.findall(r"\]\(([^)\s]+)\)", (ROOT / "README.md").read_text())
    assert len(links) > 20
    for link in links:
        assert "://" in link
        for prefix, folder in places.items():
            if link.startswith(prefix):
                path = folder + link.removeprefix(prefix)
                assert (ROOT / (f"{path.rstrip('/')}.md" if folder else path)).is_file(), link


def test_the_architecture_page_names_files_that_exist():
    names = set(re.findall(r"`([\w/]+(?:\.py|/))`", (ROOT / "docs" / "architecture.md").read_text()))
    homes = [ROOT, ROOT / "gym_batchnav"]
    assert len(names) > 20
    assert [name for name in names if not any((home / name).exists() for home in homes)] == []


def test_programs_compile():
    for page in PAGES:
        for language, text in BLOCK.findall(page.read_text()):
            if language == "python":
                compile(text, name_of(page), "exec")


def modules_of(program):
    """The packages that a program imports."""
    nodes = list(ast.walk(ast.parse(program)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    needs = {"gym_batchnav.train": "torch", "gym_batchnav.viz.figures": "matplotlib"}
    libraries = {"sb3": "stable_baselines3", "sb3_worlds": "stable_baselines3", "rllib": "ray"}
    adapters = [name.removeprefix("gym_batchnav.adapters.") for name in names if "gym_batchnav.adapters." in name]
    needs |= {f"gym_batchnav.adapters.{adapter}": libraries.get(adapter, adapter) for adapter in adapters}
    extras = {extra for name in names for prefix, extra in needs.items() if name.startswith(prefix)}
    return {name.split(".")[0] for name in names} | extras


def is_sketch(program):
    """Tell whether a program leaves something out, as an ellipsis."""
    return any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(ast.parse(program)))


def small(program):
    """A program with few environments and steps; its assertions and names stay the same."""
    for number, fewer in FEWER.items():
        program = program.replace(number, fewer)
    return re.sub(r"num_envs=(\d+)", lambda match: f"num_envs={min(int(match[1]), MAX_ENVS)}", program)


@pytest.fixture
def users_files(tmp_path, monkeypatch):
    """The files that the pages speak of, in an empty folder that is home as well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GYM_BATCHNAV_CACHE", str(tmp_path / "cache"))
    room = box_room()
    save_glb(room, tmp_path / "my_house.glb")
    scenes = Path("data/scene_datasets/gibson")
    episodes = Path("data/datasets/pointnav/gibson/v1/val")
    for folder in (scenes, episodes, Path("homes/street")):
        folder.mkdir(parents=True)
    shutil.copy("my_house.glb", scenes / "Adrian.glb")
    shutil.copy("my_house.glb", "homes/street/one.glb")
    sampled = sample_episodes(NavMesh.build(room.vertices, room.triangles), 20, np.random.default_rng(0))
    write_episodes({"gibson/Adrian.glb": sampled}, episodes / "val.json.gz")
    Path("report").mkdir()
    Path("report/scores.json").write_text(scores_json({"spl": {"policy": np.ones((3, 2))}}, ("one", "two"), (5, 5)))


@pytest.fixture
def opened(monkeypatch):
    """The batches that a program makes, of one apartment unless it names scenes; they are closed in the end."""
    made = []
    make_vec = gym_batchnav.gymnasium.make_vec

    def make_small(name, *args, **keywords):
        if name.startswith("BatchNav/") and "library" not in keywords:
            keywords.setdefault("scenes", "apartment_0")
        made.append(make_vec(name, *args, **keywords))
        return made[-1]

    monkeypatch.setattr("gymnasium.make_vec", make_small)
    yield made
    for env in made:
        env.close()


QUICK = ("README.md", "docs/first_hour.md")  # the pages whose programs every run of the tests tries


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=() if name_of(page) in QUICK else pytest.mark.slow)
        for page in PAGES
        if "```python" in page.read_text()
    ],
)
def test_programs_run(page, users_files, opened):
    """Programs of a page run from top to bottom, like the cells of a notebook; sketches are left out.

    So are those whose libraries are not installed. The test then ends as skipped, and says so.
    """
    names = {"gymnasium": gym_batchnav.gymnasium}
    programs = [text for language, text in BLOCK.findall(page.read_text()) if language == "python"]
    programs = [text for text in programs if not is_sketch(text)]
    assert programs
    runnable = [text for text in programs if all(map(find_spec, modules_of(text)))]
    missing = {name for text in programs for name in modules_of(text) if find_spec(name) is None}
    assert missing <= LIBRARIES
    for program in runnable:
        exec(compile(small(program), name_of(page), "exec"), names)
    if missing:
        pytest.skip(f"ran {len(runnable)} of {len(programs)} programs: {', '.join(sorted(missing))} not installed")
