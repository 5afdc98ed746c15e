"""``gym-batchnav evaluate``: figures, files and errors."""

import csv
import io
import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from commands import refusal
from furnished import furnished
from PIL import Image
from rich.console import Console
from rooms import box_room

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from gym_batchnav.cli.evaluate import evaluate as evaluate_command  # noqa: E402
from gym_batchnav.cli.evaluate_tables import print_tables, stop_hint, tables  # noqa: E402
from gym_batchnav.episodes.habitat import write_episodes  # noqa: E402
from gym_batchnav.episodes.sampling import sample_episodes  # noqa: E402
from gym_batchnav.evaluation import failures  # noqa: E402
from gym_batchnav.evaluation.comparison import SHIPPED_BLIND, SHIPPED_POLICY, Asked, _baselines, make_comparison  # noqa: E402
from gym_batchnav.evaluation.evaluate import EvaluatedEpisodes  # noqa: E402
from gym_batchnav.evaluation.report import read_scores  # noqa: E402
from gym_batchnav.evaluation.shards import _asked  # noqa: E402
from gym_batchnav.evaluation.world import PolicyAbout  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.sources import assets_dir  # noqa: E402
from gym_batchnav.navmesh.mesh import NavMesh  # noqa: E402
from gym_batchnav.scene.save import save_glb  # noqa: E402
from gym_batchnav.system.extras import MissingExtraError  # noqa: E402
from gym_batchnav.system.nested import finite  # noqa: E402
from gym_batchnav.train.policy import make_policy  # noqa: E402
from gym_batchnav.train.policy_agent import load_agent  # noqa: E402
from gym_batchnav.train.policy_file import save_policy  # noqa: E402
from gym_batchnav.viz.report import spread_episodes  # noqa: E402

AGENTS = ["policy", "blind.safetensors", "random", "follower"]
SCENES = ["first", "second"]
ROOMS = [box_room(), box_room(width=10, depth=7)]
APARTMENTS = ["apartment_0", "apartment_1"]
EPISODES = 6
PICTURES = ("clip.gif", "failures.png", "profiles.png", "trajectories.png")


def evaluate(**options):
    evaluate_command(SimpleNamespace(command=SimpleNamespace(params=[])), **options)


def merge(out, folders, **options):
    evaluate(shards=folders, out=out, **options)


def write_policy(path: Path, kind: str, favourite=0, **changes) -> Path:
    """Write an untrained policy, which prefers an action, since others hardly differ."""
    keywords = {"sensors": () if kind == "blind" else ("depth",), "camera": Camera(16, 16), "forward_step": 0.25}
    keywords |= {"turn_angle_deg": 10.0, "max_episode_steps": 40, "preset": "mine", "frames": 7, "seed": 0}
    about = PolicyAbout(kind, **{**keywords, **changes})
    torch.manual_seed(favourite)
    policy = make_policy(kind, about.observation_space())
    if favourite:
        policy.actor.bias.data[favourite] = 2.0
    save_policy(path, policy, about)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policies")
    return {kind: write_policy(folder / f"{kind}.safetensors", kind) for kind in ("small", "blind")}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """The files of two rooms, which load sooner than apartments."""
    folder = tmp_path_factory.mktemp("scenes")
    paths = [folder / f"{name}.glb" for name in SCENES]
    for room, path in zip(ROOMS, paths, strict=True):
        save_glb(room, path)
    return list(map(str, paths))


@pytest.fixture(scope="module")
def options(files, scenes, tmp_path_factory):
    """The arguments of an evaluation of three policies of the same method."""
    folder = tmp_path_factory.mktemp("seeds")
    seeds = [files["small"], *(write_policy(folder / f"seed_{k}.safetensors", "small", favourite=k) for k in (1, 2))]
    agents = f"{files['blind']},random,follower"
    return {"policy": list(map(str, seeds)), "agents": agents, "scenes": scenes, "episodes": EPISODES, "sample": True}


@pytest.fixture(scope="module")
def reported(options, tmp_path_factory):
    """Run one evaluation and return its folder."""
    out = tmp_path_factory.mktemp("evaluation") / "deep" / "report"
    evaluate(**options, num_envs=5, out=out)
    return out


def rows_of(folder):
    return list(csv.DictReader((folder / "episodes.csv").read_text().splitlines()))


def test_the_figures_are_those_of_the_episodes_and_several_seeds_are_runs_of_one_agent(reported):
    found = json.loads((reported / "results.json").read_text())
    assert found["episodes"] == EPISODES and found["scenes"] == SCENES and list(found["agents"]) == AGENTS
    rows = rows_of(reported)
    names = [row["agent"] for row in rows[::EPISODES]]
    assert names == ["policy_1", "policy_2", "policy_3", *AGENTS[1:]] and len(found["policies"]) == 3
    assert [(row["scene"], row["episode"]) for row in rows] == [(s, str(e)) for s in SCENES for e in range(3)] * 6
    for agent, figures in found["agents"].items():
        mine = [row for row in rows if row["agent"].startswith(agent)]
        for name in ("spl", "success", "num_steps", "collisions_count"):
            assert figures[name] == pytest.approx(np.mean([float(row[name]) for row in mine]), rel=1e-4)
            low, high = figures[f"{name}_interval"]
            assert low <= figures[name] <= high
    assert found["spl"] == found["agents"]["policy"]["spl"]
    assert found["spl_interval"] == found["agents"]["policy"]["spl_interval"]
    assert found["agents"]["follower"]["soft_spl"] > 0.2 > found["agents"]["random"]["soft_spl"]
    runs = np.array([float(row["soft_spl"]) for row in rows[: 3 * EPISODES]]).reshape(3, EPISODES)
    assert found["soft_spl"] == pytest.approx(runs.mean(), rel=1e-4) and len(np.unique(runs.mean(axis=1))) == 3
    shapes = {agent: scores.shape for agent, scores in read_scores(reported / "scores.json").items()}
    assert shapes == {"policy": (3, 2), **dict.fromkeys(AGENTS[1:], (1, 2))}
    failed = sum(float(row["success"]) == 0 for row in rows[: 3 * EPISODES])
    assert sum(found["failures"]["policy"].values()) == failed


def test_pictures_are_drawn(reported):
    names = ["episodes.csv", "protocol.json", "results.json", "scores.json"]
    assert sorted(path.name for path in reported.iterdir()) == sorted([*names, *PICTURES])
    for name in PICTURES:
        with Image.open(reported / name) as image:
            assert min(image.size) > 300 and np.asarray(image.convert("RGB")).std() > 20, f"{name} is blank"


@pytest.fixture(scope="module")
def shards(options, tmp_path_factory):
    """The folders of two shards of the same evaluation, each with another number of environments."""
    folders = []
    for number in (1, 2):
        folders.append(tmp_path_factory.mktemp("shards") / str(number))
        evaluate(**options, num_envs=(5, 2)[number - 1], out=folders[-1], shard=f"{number}/2")
        assert [path.name for path in folders[-1].iterdir()] == ["shard.json"]
    return folders


def test_merged_shards_are_a_single_run_to_the_bit(reported, shards, tmp_path, capsys):
    merge(tmp_path / "joint", shards[::-1])
    assert f"small.safetensors and 2 more: {EPISODES} episodes in 2 scenes" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "joint").iterdir()} == {path.name for path in reported.iterdir()}
    for file in reported.iterdir():
        assert (tmp_path / "joint" / file.name).read_bytes() == file.read_bytes(), file.name


def edited(folder, tmp_path, edit):
    """Return a copy of a shard's folder whose content ``edit`` has changed."""
    content = json.loads((folder / "shard.json").read_text())
    edit(content)
    (tmp_path / "edited").mkdir(exist_ok=True)
    (tmp_path / "edited" / "shard.json").write_text(json.dumps(content))
    return tmp_path / "edited"


def test_shards_that_are_no_whole_are_refused(options, shards, tmp_path):
    def refused(match, folders, **options):
        with pytest.raises((ValueError, OSError), match=match):
            merge(tmp_path / "out", folders, **options)
        assert not (tmp_path / "out").exists()

    def refused_if(match, edit):
        refused(match, [shards[0], edited(shards[1], tmp_path, edit)])

    refused("missing: 2/2", shards[:1])
    refused("is named twice", [*shards, shards[0]])
    refused("are both shard 2/2", [*shards, edited(shards[1], tmp_path, lambda part: None)])
    refused_if("shards of one run", lambda part: part.update(shard="2/3"))
    refused_if("different evaluations: seed is 0 and 1", lambda part: part["arguments"].update(seed=1))
    refused_if("the file of the agent 'policy_1' is", lambda part: part["checksums"].update(policy_1="0"))
    refused_if("settings.sliding is true and false", lambda part: part["card"]["settings"].update(sliding=False))
    refused_if("versions is ", lambda part: part["card"]["versions"].update(numpy="0.1"))
    refused_if(
        r"policy is .* and \[\"random\"\]: pass shards", lambda part: part["arguments"].update(policies=["random"])
    )
    refused_if(r'scenes is \.\.\..*, "navmesh": "\w+".* and .* "navmesh": "new"', renew_a_navmesh)
    with pytest.raises(ValueError, match=r"policy=\['random'\]: the shards ran \['follower'\]: pass these"):
        _asked(Asked(policies=("follower",)), ["random"], (), None)
    refused_if("the agent 'random' lacks 1 episode", drop_an_episode)
    refused_if("has run twice", lambda part: part["results"]["random"].update(episode_index=[0] * 3))
    refused_if("different lengths", lambda part: part["results"]["random"]["spl"].append(0.5))
    refused_if("numbers of one type", lambda part: part["results"]["random"].update(spl=["0.5"] * 3))
    refused_if("beyond 64 bits", lambda part: part["results"]["random"].update(num_steps=[10**30] * 3))
    refused_if("have other columns", lambda part: part["results"]["random"].pop("spl"))
    refused_if("is not 'gym-batchnav evaluation shard 3'", lambda part: part.update(format="another"))
    refused_if(r"an invalid argument \(scenes=3: expected list", lambda part: part["arguments"].update(scenes=3))
    other = write_policy(tmp_path / "other.safetensors", "small", frames=8)
    others = [str(other), *options["policy"][1:]]
    refused("not the file of the agent 'policy_1' that the shards ran", shards, policy=others)
    (tmp_path / "edited" / "shard.json").write_text("[" * 10**5)
    refused("damaged", [shards[0], tmp_path / "edited"])
    refused("does not exist", [shards[0], tmp_path])


def renew_a_navmesh(part):
    part["card"]["scenes"][1]["navmesh"] = "new"


def drop_an_episode(part):
    results = part["results"]
    results["random"] = {name: values[1:] for name, values in results["random"].items()}


def test_json_is_the_last_line_and_the_table_is_for_people(files, scenes, capsys):
    agents = f"{files['blind']},random,follower"
    evaluate(policy=[str(files["small"])], agents=agents, scenes=scenes[1:], episodes=2, num_envs=2, as_json=True)
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    assert json.loads(line)["agents"]["follower"]["spl_interval"]
    for words in ("small.safetensors: 2 episodes in 1 scene,", "follower", "SoftSPL", "IQM", "from left to right"):
        assert words in captured.err
    for words in ("by STOP", "by geodesic distance", "blind", "40.0-40.0"):
        assert words in captured.err
    shown = [line for line in captured.err.splitlines() if not line.startswith("Compiling")]  # only on busy machines
    assert "…" not in captured.err and max(map(len, shown)) <= 80


def test_what_cannot_be_evaluated_is_refused(files, tmp_path, monkeypatch):
    def refused(match, **keywords):
        with pytest.raises((ValueError, OSError), match=match):
            evaluate(**{"policy": [str(files["small"])], "scenes": APARTMENTS, **keywords})

    refused(r"episodes=7: all 2 scenes have the same weight, .* multiple of 2: pass 6 or 8", episodes=7)
    refused("multiple of 2: pass 2$", episodes=1)
    refused("episodes=0: pass a whole number of at least 1", episodes=0)
    refused("episodes=-3: pass a whole number of at least 1", episodes="-3")
    refused("'val.json': the file does not exist", episodes="val.json")
    refused("'val.json': also pass scenes=", episodes="val.json", scenes=None)
    refused("101 episodes of scene 'apartment_0', which has only 100", episodes=202, num_envs=1, out=tmp_path / "out")
    assert not list(tmp_path.iterdir())
    refused("shard=1/2: also pass out=", shard="1/2")
    small = str(files["small"])
    far = str(write_policy(tmp_path / "far.safetensors", "blind", forward_step=0.5))
    refused("'far.safetensors' cannot act .*forward_step is 0.25, the policy was trained with 0.5", agents=far)
    far = str(write_policy(tmp_path / "far.safetensors", "small", forward_step=0.5))
    refused("was trained with other .* than the policy '.*far.safetensors': forward_step is 0.25", policy=[small, far])
    refused("only policy files, or only named agents", policy=[small, "random"])
    refused("agents.*the name 'random' is taken", agents="random,random")
    refused("protocol='pointnav-2021': a policy file, such as the shipped", protocol="pointnav-2021")
    refused("'blnd' is neither a known name nor a file", agents="blnd")
    refused("missing.safetensors", policy=[str(tmp_path / "missing.safetensors")])
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(files["small"].read_bytes()[:-9])
    refused("damaged", policy=[str(damaged)])
    damaged.write_bytes((assets_dir() / "apartment_4.glb").read_bytes())
    refused("is not a safetensors file: pass a file that gym-batchnav train wrote", policy=[str(damaged)])
    monkeypatch.setattr("gym_batchnav.library.sources.assets_dir", lambda: tmp_path / "nothing")
    refused("ships no policy: pass .*, a file", policy=None)


def test_the_shipped_policies_are_taken_by_default(files, tmp_path, monkeypatch):
    (tmp_path / f"{SHIPPED_POLICY}.safetensors").write_bytes(files["small"].read_bytes())
    (tmp_path / f"{SHIPPED_BLIND}.safetensors").write_bytes(files["blind"].read_bytes())
    monkeypatch.setattr("gym_batchnav.library.sources.assets_dir", lambda: tmp_path)
    room = "procedural:3?area=28&triangles=8000"
    with closing(make_comparison(Asked(scenes=(room,), num_envs=4), load_agent)) as comparison:
        assert comparison.asked.policies == (SHIPPED_POLICY,)  # shards say it on other machines
        assert list(comparison.agents) == ["policy", "blind", *AGENTS[2:]]
        assert comparison.env.num_episodes == comparison.episodes_per_scene == 25


def test_agents_that_cannot_act_are_left_out_or_refused_before_anything_runs(scenes):
    notes = []
    asked = Asked(("explore_scan",), scenes=tuple(scenes[:1]), episodes=1, num_envs=1)
    with closing(make_comparison(asked, load_agent, notes.append)) as comparison:
        assert list(comparison.agents) == ["policy", "random"] and comparison.asked.agents == ("random",)
    assert notes[0].startswith("The blind agent is left out: the policy reads pointgoal_with_gps_compass")
    assert notes[0].endswith("does not have: use the policy's task and sensors")
    assert notes[1] == "The follower is left out: agents of Explore have no goal to go to, which the follower needs"
    with pytest.raises(
        ValueError, match=r"the agent 'mapper' cannot act in these episodes: MapAgent .* pass policy=.mapper"
    ):
        make_comparison(replace(asked, agents=("mapper",)), load_agent)


def test_a_report_shows_episodes_with_near_and_far_goals():
    distance = np.array([5.0, 1, 4, 2, 3])
    episodes = EvaluatedEpisodes(np.zeros(5, int), np.arange(5), *[np.zeros(5)] * 2, distance, measures={})
    assert spread_episodes(episodes, 6, 3).tolist() == [1, 4, 0]


@pytest.fixture
def without_pictures(monkeypatch):
    """Reports without maps and clips, which take seconds and are those of any evaluation."""
    monkeypatch.setattr("gym_batchnav.viz.report._draw_episodes", lambda *given: None)
    monkeypatch.setattr("gym_batchnav.viz.report._draw_failures", lambda *given: False)


def test_anybodys_agent_is_evaluated_by_name(scenes, tmp_path, monkeypatch, without_pictures):
    (tmp_path / "agents_that_stop.py").write_text(
        "import numpy as np\n\ndef stop(observation):\n    assert observation['rgb'].shape[1:] == (64, 64, 3)\n"
        "    return np.zeros(len(observation['rgb']), int)\n\nstop.env_keywords = {'sensors': ('rgb',)}\n"
    )
    monkeypatch.chdir(tmp_path)
    name = "agents_that_stop:stop"
    options = {"policy": [name], "scenes": scenes[:1], "episodes": 2, "num_envs": 2}
    evaluate(**options, agents="random", out=tmp_path / "report")
    found = json.loads((tmp_path / "report" / "results.json").read_text())
    assert found["policies"] == [{"policy": name}] and found["num_steps"] == 1
    card = json.loads((tmp_path / "report" / "protocol.json").read_text())
    assert card["evaluation"]["actions"] == "those of the agent"
    assert found["failures"]["policy"] == {"wrong_stop": 2, "collision": 0, "loop": 0, "time_out": 0}
    assert found["improvement"]["random"]["improvement"] == 0.5  # neither ever succeeds
    evaluate(**options, agents="random", out=tmp_path / "part", shard="1/1")
    with pytest.raises(ValueError, match="the shards ran 'agents_that_stop:stop', which is code"):
        merge(tmp_path / "joint", [tmp_path / "part"])
    merge(tmp_path / "joint", [tmp_path / "part"], policy=[name])
    assert (tmp_path / "joint" / "scores.json").read_bytes() == (tmp_path / "report" / "scores.json").read_bytes()


def test_results_and_tables_are_by_category_of_goals(tmp_path, monkeypatch, without_pictures, capsys):
    save_glb(furnished(), tmp_path / "home.glb")
    (tmp_path / "agents_of_objects.py").write_text(
        "from gym_batchnav import ObjectNav\nfrom gym_batchnav.evaluation.agents import ObjectOracleAgent\n\n"
        "class Oracle(ObjectOracleAgent):\n    env_keywords = {'task': ObjectNav(('crate', 'table'))}\n"
    )
    monkeypatch.chdir(tmp_path)
    evaluate(policy=["agents_of_objects:Oracle"], agents="random", scenes=["home.glb"], episodes=9, out=Path("report"))
    found = json.loads(Path("report/results.json").read_text())["by_category"]
    assert found.keys() == {"policy", "random"}
    assert [row["category"] for row in found["policy"]] == ["crate", "table"]
    assert sum(row["episodes"] for row in found["random"]) == 9
    assert all(row["success"] == 1 for row in found["policy"])
    table = capsys.readouterr().out.partition("SPL by category of the goal")[2]
    assert [line.split()[0] for line in table.splitlines() if line[:1].isalpha()][:3] == ["category", "crate", "table"]


DRIVER = """
import numpy as np

from gym_batchnav import Camera, VelocityActions


class Driver:
    env_keywords = {
        "sensors": ("rgb",),
        "camera": {"left": Camera(20, 10, yaw_deg=90), "right": Camera(20, 10, yaw_deg=-90)},
        "actions": VelocityActions(time_step=0.5, stop_component=True),
        "max_episode_steps": 7,
    }

    def reset(self, env): ...

    def act(self, env, observation, begun):
        assert observation["left/rgb"].shape[1:] == (10, 20, 3) and "left/depth" not in observation
        return np.tile(np.float32([1, 0, -1]), (len(begun), 1))


def walker(observation):
    return np.ones(len(observation["depth"]), int)


walker.env_keywords = {"camera": Camera(30, 20)}


def lost(observation): ...


lost.env_keywords = {"scenes": "apartment_1"}
"""


def test_an_agent_says_in_which_environment_it_acts(files, scenes, tmp_path, monkeypatch, without_pictures):
    (tmp_path / "driving_agents.py").write_text(DRIVER)
    monkeypatch.chdir(tmp_path)
    options = {"scenes": scenes[:1], "episodes": 2, "num_envs": 2}
    evaluate(policy=["driving_agents:Driver"], agents="follower", **options, out=tmp_path / "report")
    assert json.loads((tmp_path / "report" / "results.json").read_text())["num_steps"] == 7
    asked = Asked(("driving_agents:walker",), ("random",), (scenes[0],), 2, 2)
    with closing(make_comparison(asked, load_agent)) as comparison:
        assert comparison.env.single_observation_space["depth"].shape == (20, 30, 1)
    for agents, match in (("walker", "camera is .* the agent needs .*: evaluate it alone"), ("lost", "env_keywords=")):
        with pytest.raises(ValueError, match=match):
            evaluate(policy=[str(files["small"])], agents=f"driving_agents:{agents}", **options)


def test_all_episodes_of_a_dataset_are_run(scenes, tmp_path, without_pictures, capsys):
    """Scenes may have different numbers of them; those of scenes that are not given are left out with a note."""
    rng = np.random.default_rng(0)
    sampled = {}
    for name, room, count in zip(SCENES, ROOMS, (3, 1), strict=True):
        navmesh = NavMesh.build(room.vertices, room.triangles)
        sampled[f"{name}.glb"] = sample_episodes(navmesh, count, rng)
    write_episodes(sampled, tmp_path / "val.json.gz")
    out = tmp_path / "report"
    dataset = str(tmp_path / "val.json.gz")
    evaluate(policy=["random"], agents="follower", scenes=scenes, episodes=dataset, num_envs=3, out=out)
    found = [(row["scene"], float(row["start_distance"])) for row in rows_of(out) if row["agent"] == "follower"]
    expected = [(name, distance) for name in SCENES for distance in sampled[f"{name}.glb"].distance.tolist()]
    assert [scene for scene, _ in found] == [scene for scene, _ in expected]
    np.testing.assert_allclose([one for _, one in found], [one for _, one in expected], atol=1e-3)
    assert "of the 4 episodes" not in capsys.readouterr().out
    evaluate(policy=["random"], agents="follower", scenes=scenes[:1], episodes=dataset, num_envs=3)
    assert "3 of the 4 episodes" in capsys.readouterr().out
    write_episodes(sampled, tmp_path / "split")
    dataset = str(tmp_path / "split/split.json.gz")
    evaluate(policy=["random"], agents="follower", scenes=scenes[:1], episodes=dataset, num_envs=3)
    assert "1 of the 2 scenes" in capsys.readouterr().out


def test_the_mapper_acts_in_the_episodes_of_a_policy(files, scenes, tmp_path, without_pictures):
    policy = str(files["blind"])  # without images of its own
    out = tmp_path / "report"
    (tmp_path / "report").mkdir()
    for name in ("failures.png", "profiles.png"):
        (out / name).write_bytes(b"of an evaluation before")
    evaluate(policy=[policy], agents="mapper,random", scenes=scenes[:1], episodes=2, num_envs=2, out=out)
    found = json.loads((out / "results.json").read_text())["agents"]
    assert list(found) == ["policy", "mapper", "random"]
    assert found["mapper"]["soft_spl"] > found["random"]["soft_spl"]
    assert not (out / "failures.png").exists() and not (out / "profiles.png").exists()


def test_files_of_baselines_may_be_called_policy_something(files, tmp_path):
    file = tmp_path / "policy_best.safetensors"
    file.write_bytes(files["small"].read_bytes())
    assert list(_baselines(Asked(agents=(str(file),)), load_agent)) == [file.name]
    for name in ("policy_2", "random"):
        file = file.rename(tmp_path / name)
        with pytest.raises(ValueError, match=f"the name '{name}' is taken: list each agent once, or rename"):
            _baselines(Asked(agents=(str(file),)), load_agent)


FOUND = {
    "episodes": 3, "scenes": ["hall"], "measure": "spl", "agents": {}, "iqm": {}, "improvement": {},
    "by_distance": {"random": []},
}  # fmt: skip


def columns(number, **found):
    """The headings and cells of one of the tables."""
    table = list(tables({**FOUND, **found}, "policy"))[number]
    return {column.header.replace("\n", " "): list(column.cells) for column in table.columns}


def test_tables_have_the_measures_of_the_task_and_the_causes_of_the_evaluation(monkeypatch):
    cells = {"cells_visited": 12.5, "cells_visited_interval": [11.0, 14.0], "num_steps": 500.0}
    agents = {"policy": {**cells, "num_steps_interval": [500.0, 500.0]}}
    assert list(columns(0, measure="cells_visited", agents=agents)) == ["agent", "cells visited", "steps"]
    monkeypatch.setattr(failures, "CAUSES", {"asleep": "fell asleep", "loop": "loop"})
    iqm = {"random": {"iqm": 0.5, "iqm_interval": [0.4, 0.6]}}
    shown = columns(1, iqm=iqm, failures={"random": {"loop": 4, "asleep": 7}})
    assert shown["fell asleep"] == ["7"] and shown["loop"] == ["4"] and "wrong STOP" not in shown


@pytest.mark.parametrize("num_scenes", [1, 2, 10, 11])
def test_a_few_scenes_have_a_row_each(num_scenes):
    names = [f"hall_{number}" for number in range(num_scenes)]
    rows = [{"scene": name, "episodes": 2, "spl": 0.5, "spl_interval": [0.4, 0.6]} for name in names]
    found = list(tables({**FOUND, "scenes": names, "by_scene": {"policy": rows}}, "policy"))
    shown = [list(table.columns[0].cells) for table in found if table.columns[0].header == "scene"]
    assert shown == ([names] if 2 <= num_scenes <= 10 else [])


@pytest.mark.parametrize("terminal", [False, True])
def test_no_figure_is_cut_off_where_the_table_is_wider_than_the_terminal(terminal):
    names = ("policy", "a_policy_with_a_long_name.safetensors")
    figures = {"spl": 0.5, "spl_interval": [0.4, 0.6]}
    causes = dict.fromkeys(failures.CAUSES, 1234)
    iqm = {name: {"iqm": 0.5, "iqm_interval": [0.4, 0.6]} for name in names}
    distances = {name: [{"distance": "1-5 m", "episodes": 9, **figures}] for name in (*names, "x" * 60)}
    found = {**FOUND, "agents": dict.fromkeys(names, figures), "iqm": iqm, "by_distance": distances}
    found["failures"] = dict.fromkeys(names, causes)
    text = io.StringIO()
    print_tables(tables(found, "policy"), Console(file=text, width=40, force_terminal=terminal, color_system=None))
    shown = text.getvalue()
    assert "\u2026" not in shown and shown.count("0.40-0.60") == 2 + 2 + 3
    assert names[1] in shown or terminal
    if not terminal:
        assert "time-out" in shown and shown.count(names[1]) == 3


def test_options_that_have_no_effect_on_shards_are_refused():
    failed = refusal("evaluate", "shards/1", "--num-envs", 3, "--out", "report")
    assert "--num-envs has no effect when shards are joined ('shards/1' is taken for the folder of one; quote" in failed


def test_json_has_no_nan():
    found = finite({"spl": float("nan"), "by_scene": [{"a": float("inf"), "b": 0.5}], "count": 3, "name": None})
    assert found == {"spl": None, "by_scene": [{"a": None, "b": 0.5}], "count": 3, "name": None}


def test_a_policy_that_never_stops_gets_a_hint():
    trained = {"policies": [{"policy": "p", "frames": 9}], "timed_out": 1.0, "success": 0.0}
    assert "none of its episodes by STOP" in stop_hint(trained, False) and "--sample" in stop_hint(trained, False)
    assert "longer" in stop_hint(trained, True) and "--sample" not in stop_hint(trained, True)
    assert "only 2.0% of its" in stop_hint({**trained, "timed_out": 0.98}, False)
    assert "longer" not in stop_hint({**trained, "policies": [{"policy": "mine:agent"}]}, False)
    assert stop_hint({**trained, "timed_out": 0.5}, False) is None
    assert stop_hint({**trained, "success": 1.0}, False) is None  # a task in which success needs no STOP
    assert stop_hint({"policies": trained["policies"], "cells_visited": 3.0}, False) is None


@pytest.mark.parametrize("command", ["evaluate", "merge"])
def test_without_the_extra_for_figures_nothing_is_computed(command, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "gym_batchnav.viz.figures", raising=False)
    for name in ("comparison.make_comparison", "shards.merged"):
        monkeypatch.setattr(f"gym_batchnav.evaluation.{name}", lambda *given: pytest.fail("loads scenes"))
    out = tmp_path / "report"
    with pytest.raises(MissingExtraError, match=r'pip install "gym-batchnav\[viz\]"'):
        evaluate(out=out) if command == "evaluate" else merge(out, [tmp_path])
    assert not out.exists()
