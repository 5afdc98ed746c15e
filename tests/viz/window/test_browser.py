"""The window in a real browser, judged by what it draws. Needs playwright, and chromium on the path."""

# ruff: noqa: E402
import io
import shutil
import threading
import time

import numpy as np
import pytest
from libraries import REQUIRED, require
from PIL import Image
from rooms import box_room

pytest.importorskip("viser", reason="needs the extra [view]")
require("playwright")

from playwright import sync_api

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import ShortestPathAgent
from gym_batchnav.viz.window.server import WindowServer
from gym_batchnav.viz.window.walk import walk_in_window

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None and "playwright" not in REQUIRED, reason="chromium is not installed"),
]

FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
SIZE = {"width": 1100, "height": 800}


class Walking(threading.Thread):
    """A window and the batch that it steps, in the thread to which the batch belongs."""

    def __init__(self, cache):
        super().__init__()
        self.server = WindowServer(port=0)
        self.env = None
        self._cache = cache
        self._end = threading.Event()

    def run(self):
        env = BatchNavEnv(3, scenes=box_room(), sensors=(), episodes=20, renderer="embree")
        self.env = env
        walk_in_window(env, {"follower": ShortestPathAgent()}, self.server, seed=3, size=96, until=self._end.is_set)
        env.close()

    def stop(self):
        self._end.set()
        self.join()
        self.server.close()


@pytest.fixture(scope="module")
def walking(tmp_path_factory):
    made = Walking(tmp_path_factory.mktemp("cache"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def page(browser, walking):
    made = browser.new_page(viewport=SIZE)
    made.goto(walking.server.url)
    made.get_by_text("distance to goal").first.wait_for(timeout=600_000)  # kernels may have to be compiled first
    wait_for(lambda: scene_of(made).std() > 8, "the scene to appear")
    return made


def wait_for(condition, what, seconds=90.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.2)


def scene_of(page):
    """The part of the screen without the panel, [H, W, 3]."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return np.asarray(picture)[:, : SIZE["width"] // 2].astype(float)


def test_keys_move_the_picked_agent_alone(page, walking):
    agents = walking.env.agents
    heading = agents.heading.copy()
    position = agents.position.copy()
    page.mouse.move(300, 400)
    page.keyboard.press("j")
    wait_for(lambda: agents.heading[0] != heading[0], "the turn")
    assert np.degrees(agents.heading[0] - heading[0]) % 360 == pytest.approx(10, abs=1e-3)
    steps = int(walking.env.episodes.num_steps[0])
    page.keyboard.press("i")
    wait_for(lambda: walking.env.episodes.num_steps[0] == steps + 1, "the step")
    np.testing.assert_array_equal(agents.position[1:], position[1:])


def test_the_navmesh_is_drawn_when_it_is_wanted(page):
    before = scene_of(page)
    page.get_by_text("Navmesh", exact=True).first.click()
    wait_for(lambda: np.abs(scene_of(page) - before).max(axis=-1).mean() > 1, "the navmesh")
    green = scene_of(page) - before
    changed = np.abs(green).max(axis=-1) > 20
    assert green[changed][:, 1].mean() > green[changed][:, 0].mean()  # WALKABLE has little red
    page.get_by_text("Navmesh", exact=True).first.click()


def golden(page, place, radius=30):
    """The number of pixels around a place that have the colour of the goal."""
    x, y = place
    red, green, blue = np.moveaxis(scene_of(page)[y - radius : y + radius, x - radius : x + radius], -1, 0)
    return int(((red > 150) & (green > 0.5 * red) & (green < 0.9 * red) & (blue < 0.5 * red)).sum())


def test_a_click_on_the_floor_moves_the_goal_there(page):
    place = (350, 420)
    assert golden(page, place) == 0
    page.mouse.click(*place)
    wait_for(lambda: golden(page, place) > 10, "the goal")
    page.get_by_text("Forget the clicked goal").first.click()
    wait_for(lambda: golden(page, place) == 0, "the goal of the episode")


def test_playing_steps_all_agents_and_a_second_viewer_sees_it(page, browser, walking):
    count = walking.env.episodes.num_steps.copy()
    other = browser.new_page(viewport=SIZE)
    other.goto(walking.server.url)
    other.get_by_text("distance to goal").first.wait_for(timeout=120_000)
    page.mouse.click(20, 700)  # keys are those of the scene after a click on it
    page.keyboard.press("n")
    wait_for(lambda: (walking.env.episodes.num_steps > count).all(), "the step of all")
    expected = f"{walking.env.episodes.num_steps[0]} of 500"
    wait_for(lambda: any(box.input_value() == expected for box in other.locator("input").all()), "the second viewer")
    other.close()
