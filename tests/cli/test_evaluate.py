"""``gym-batchnav evaluate``: figures, files and errors."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

from gym_batchnav.cli.evaluate import evaluate  # noqa: E402
from gym_batchnav.geometry import Camera  # noqa: E402
from gym_batchnav.library.sources import assets_dir  # noqa: E402
from gym_batchnav.train.comparison import SHIPPED_BLIND, SHIPPED_POLICY, make_comparison  # noqa: E402
from gym_batchnav.train.policy import make_policy  # noqa: E402
from gym_batchnav.train.policy_file import PolicyAbout, save_policy  # noqa: E402

AGENTS = ["policy", "blind", "random", "shortest_path"]
SCENES = ["apartment_0", "apartment_1"]
EPISODES = 6


def write_policy(path: Path, kind: str, **changes) -> Path:
    keywords = {"sensors": () if kind == "blind" else ("depth",), "camera": Camera(16, 16), "forward_step": 0.25}
    keywords |= {"turn_angle_deg": 10.0, "max_episode_steps": 40, "preset": "mine", "frames": 7, "seed": 0}
    about = PolicyAbout(kind, **{**keywords, **changes})
    torch.manual_seed(0)
    save_policy(path, make_policy(kind, about.observation_space()), about)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policies")
    return {kind: write_policy(folder / f"{kind}.safetensors", kind) for kind in ("small", "blind")}


@pytest.fixture(scope="module")
def reported(files, tmp_path_factory):
    """Run one evaluation and return its folder."""
    out = tmp_path_factory.mktemp("evaluation") / "deep" / "report"
    evaluate(
        policy=files["small"], blind=files["blind"], scenes=SCENES, episodes=EPISODES, num_envs=5, out=out, sample=True
    )
    return out


def test_the_figures_are_those_of_the_episodes(reported):
    figures = json.loads((reported / "results.json").read_text())
    assert figures["episodes"] == EPISODES and figures["scenes"] == SCENES and list(figures["agents"]) == AGENTS
    rows = list(csv.DictReader((reported / "episodes.csv").read_text().splitlines()))
    assert len(rows) == EPISODES * len(AGENTS)
    for agent, found in figures["agents"].items():
        mine = [row for row in rows if row["agent"] == agent]
        assert [(row["scene"], row["episode"]) for row in mine] == [(s, str(e)) for s in SCENES for e in range(3)]
        for name in ("spl", "success", "num_steps", "collisions_count"):
            assert found[name] == pytest.approx(np.mean([float(row[name]) for row in mine]), rel=1e-4)
            low, high = found[f"{name}_interval"]
            assert low <= found[name] <= high
    assert figures["spl"] == figures["agents"]["policy"]["spl"]
    assert figures["spl_interval"] == figures["agents"]["policy"]["spl_interval"]
    assert figures["agents"]["shortest_path"]["soft_spl"] > 0.2 > figures["agents"]["random"]["soft_spl"]


def test_pictures_are_drawn(reported):
    names = ["clip.gif", "episodes.csv", "protocol.json", "results.json", "trajectories.png"]
    assert sorted(path.name for path in reported.iterdir()) == names
    for name in ("clip.gif", "trajectories.png"):
        with Image.open(reported / name) as image:
            assert min(image.size) > 300 and np.asarray(image.convert("RGB")).std() > 20, f"{name} is blank"


def test_json_is_the_last_line_and_the_table_is_for_people(files, capsys):
    keywords = {"policy": files["small"], "blind": files["blind"], "scenes": ["apartment_1"], "episodes": 2}
    evaluate(**keywords, num_envs=2, as_json=True)
    captured = capsys.readouterr()
    (line,) = captured.out.splitlines()
    assert json.loads(line)["agents"]["shortest_path"]["spl_interval"]
    for words in ("small.safetensors: 2 episodes in 1 scene,", "shortest path", "SoftSPL", "blind", "40.0-40.0"):
        assert words in captured.err
    assert "…" not in captured.err and max(map(len, captured.err.splitlines())) <= 80


def test_what_cannot_be_evaluated_is_refused(files, tmp_path, monkeypatch):
    def refused(match, **keywords):
        with pytest.raises((ValueError, OSError), match=match):
            evaluate(**{"policy": files["small"], "scenes": SCENES, **keywords})

    refused(r"--episodes 7: all 2 scenes have the same weight, .* multiple of 2: pass 6 or 8", episodes=7)
    refused("multiple of 2: pass 2$", episodes=1)
    refused("202 episodes|101 episodes of scene 'apartment_0', which has only 100", episodes=202, num_envs=1)
    refused("kind 'small'; pass one of kind 'blind'", blind=files["small"])
    other = write_policy(tmp_path / "far.safetensors", "blind", forward_step=0.5)
    refused("forward_step is 0.25, the policy was trained with 0.5.*--allow-mismatch", blind=other)
    refused("missing.safetensors", policy=tmp_path / "missing.safetensors")
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(files["small"].read_bytes()[:-9])
    refused("damaged", policy=damaged)
    damaged.write_bytes((assets_dir() / "apartment_4.glb").read_bytes())
    refused("is not a safetensors file: pass a file that gym-batchnav train wrote", policy=damaged)
    monkeypatch.setattr("gym_batchnav.train.comparison.assets_dir", lambda: tmp_path / "nothing")
    refused("ships no policy: pass --policy, a file", policy=None)


def test_the_shipped_policies_are_taken_by_default(files, tmp_path, monkeypatch):
    (tmp_path / SHIPPED_POLICY).write_bytes(files["small"].read_bytes())
    (tmp_path / SHIPPED_BLIND).write_bytes(files["blind"].read_bytes())
    monkeypatch.setattr("gym_batchnav.train.comparison.assets_dir", lambda: tmp_path)
    room = "procedural:3?area=28&triangles=8000"
    comparison = make_comparison(scenes=[room], num_envs=4)
    try:
        assert comparison.policy_file == tmp_path / SHIPPED_POLICY and list(comparison.agents) == AGENTS
        assert comparison.env.num_episodes == comparison.episodes_per_scene == 25
    finally:
        comparison.close()
