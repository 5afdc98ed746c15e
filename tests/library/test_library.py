"""Slots, lanes and rotation: what is where, when it changes, and what a bad scene costs."""

import json
import threading
import time
import weakref
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.loader import Outcome, is_lasting
from gym_batchnav.library.rotation import SETTLE_STEPS, ScenePlan
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.scene.files import SceneError
from gym_batchnav.scene.scene import Scene

SIZE = box_room("one").nbytes


def sources_of(count: int, load=box_room) -> list[SceneSource]:
    return [SceneSource(f"scene_{i}", partial(load, f"scene_{i}")) for i in range(count)]


def names_in_lanes(library: SceneLibrary) -> list[str]:
    return [library.name(slot) for slot in library.active]


class Agents:
    """One agent per lane, which moves over as soon as its lane changes."""

    def __init__(self, library: SceneLibrary) -> None:
        self.library, self.key = library, library.join()
        library.occupy(self.key, library.active)

    def step(self, times: int = 1, settle: bool = True) -> None:
        for _ in range(times):
            self.library.advance(self.key)
            if settle:
                self.library.occupy(self.key, self.library.active)


def test_the_plan_visits_every_scene_before_it_comes_again() -> None:
    plan = ScenePlan(7, 2)
    for seed in (0, 1):
        plan.restart(seed)
        walk = []
        for _ in range(14):
            walk.append(plan.next(()))
            plan.taken(walk[-1])
        assert sorted(walk[:7]) == list(range(7)) and walk[7:] == walk[:7]
    other = ScenePlan(7, 2)
    assert [other.seed, other.next({0, 1, 2, 3, 4, 5})] == [0, 6]
    assert other.next(set(range(7))) is None


def test_lanes_change_in_turn_by_the_plan() -> None:
    library = SceneLibrary(sources_of(6), 2, rotate_every=30, deterministic=True)
    plan = ScenePlan(6, 2)
    walk = []
    for _ in range(6):
        walk.append(f"scene_{plan.next(())}")
        plan.taken(plan.next(()))
    agents = Agents(library)
    assert names_in_lanes(library) == walk[:2]
    agents.step(30 + SETTLE_STEPS - 1)
    assert names_in_lanes(library) == walk[:2]
    agents.step()
    assert names_in_lanes(library) == [walk[2], walk[1]]
    agents.step(30)
    assert names_in_lanes(library) == [walk[2], walk[3]]
    agents.step(30)
    assert names_in_lanes(library) == [walk[4], walk[3]]
    assert library.stats()["swaps"] == 3


def test_a_slot_keeps_its_scene_until_the_last_agent_has_left() -> None:
    library = SceneLibrary(sources_of(4), 1, num_spare_slots=1, rotate_every=5, deterministic=True)
    agents = Agents(library)
    old = library.name(0)
    agents.step(200, settle=False)  # the agent stays
    assert library.active.tolist() == [1] and library.name(0) == old and library.stats()["swaps"] == 1
    agents.step()
    assert library.name(0) == old
    agents.step()
    assert library.source_index[0] == -1 or library.name(0) != old


def test_what_has_left_is_let_go() -> None:
    class Made:
        pass

    library = SceneLibrary(sources_of(5), 1, rotate_every=1, deterministic=True)
    (key,) = library.add_preparers([lambda scene: Made()])
    agents = Agents(library)
    gone = weakref.ref(library.prepared(0, key))
    agents.step(SETTLE_STEPS)
    assert gone() is not None
    agents.step(3)
    assert gone() is None
    assert library.num_held <= 2
    assert all(library.prepared(slot, key) is not None for slot in library.active)


def test_stepping_never_waits_for_the_loader() -> None:
    may_load = threading.Event()

    def slow(name: str) -> Scene:
        if threading.current_thread() is not threading.main_thread():
            assert may_load.wait(600)
        return box_room(name)

    library = SceneLibrary(sources_of(3, slow), 1, rotate_every=1)
    agents = Agents(library)
    agents.step(1000)  # would wait for ten minutes
    assert library.stats()["swaps"] == 0
    may_load.set()
    while not library.stats()["swaps"]:
        agents.step()
        time.sleep(0.01)


def test_deterministic_rotation_does_not_depend_on_the_loader() -> None:
    def run(delay: float) -> list[list[str]]:
        def load(name: str) -> Scene:
            time.sleep(delay * int(name[-1]))
            return box_room(name)

        library = SceneLibrary(sources_of(5, load), 2, rotate_every=3, deterministic=True)
        agents = Agents(library)
        seen = []
        for _ in range(60):
            agents.step()
            seen.append(names_in_lanes(library))
        return seen

    assert run(0.0) == run(0.004)


@pytest.mark.filterwarnings("error")
def test_a_bad_scene_costs_one_scene_and_one_warning() -> None:
    def load(name: str) -> Scene:
        if name == "scene_1":
            raise SceneError(name, "the file is damaged")
        if name == "scene_4":
            raise ValueError("the file is damaged")
        return box_room(name)

    with pytest.warns(UserWarning, match=r"^scene 'scene_[14]' is left out") as warned:
        library = SceneLibrary(sources_of(6, load), 2, rotate_every=1, deterministic=True)
        agents = Agents(library)
        seen = set()
        for _ in range(300):
            agents.step()
            seen |= set(names_in_lanes(library))
    assert seen == {"scene_0", "scene_2", "scene_3", "scene_5"}
    assert library.stats()["refused"] == dict.fromkeys(("scene_1", "scene_4"), "the file is damaged")
    assert len(warned) == 2 and warned[0].filename == __file__  # the user's line, not one of the package
    assert [str(one.message).split(" is left out")[1][:5] for one in warned] == [": the", " like"]


@pytest.mark.parametrize(
    ("error", "told"),
    [(ValueError("the file is damaged"), "the file is damaged"), (OSError(116, "Stale"), "OSError: .* Stale")],
)
def test_without_a_good_scene_there_is_no_library(error: Exception, told: str) -> None:
    def load(name: str) -> Scene:
        raise error

    with pytest.warns(UserWarning), pytest.raises(ValueError, match=rf"none of the 3 scenes .*scene_0.*: {told}$"):
        SceneLibrary(sources_of(3, load))
    if isinstance(error, ValueError):
        with pytest.raises(ValueError, match=r"^the file is damaged$"):
            SceneLibrary(sources_of(1, load))


def test_a_preparers_refusal_costs_one_scene_before_anybody_is_there() -> None:
    def prepare(scene: Scene) -> str:
        if scene.name == "scene_0":
            raise ValueError("nothing to walk on")
        return scene.name

    library = SceneLibrary(sources_of(3))
    with pytest.warns(UserWarning, match="nothing to walk on"):
        (key,) = library.add_preparers([prepare])
    assert names_in_lanes(library) == ["scene_1", "scene_2"]
    assert [library.prepared(slot, key) for slot in library.active] == ["scene_1", "scene_2"]
    library = SceneLibrary(sources_of(3))
    library.join()
    with pytest.raises(ValueError, match="nothing to walk on"):
        library.add_preparers([prepare])
    assert names_in_lanes(library) == ["scene_0", "scene_1", "scene_2"] and not library.stats()["refused"]


def test_a_preparer_that_comes_while_a_scene_loads_is_not_forgotten() -> None:
    started = threading.Event()
    may_load = threading.Event()

    def slow(name: str) -> Scene:
        if threading.current_thread() is not threading.main_thread():
            started.set()
            assert may_load.wait(600)
        return box_room(name)

    library = SceneLibrary(sources_of(3, slow), 1, rotate_every=1, deterministic=True)
    (early,) = library.add_preparers([lambda scene: "early"])
    agents = Agents(library)
    library._request_next()
    assert started.wait(600)
    (late,) = library.add_preparers([lambda scene: "late"])
    library.remove_preparer(early)
    may_load.set()
    agents.step(2)
    new = int(np.flatnonzero(library.source_index >= 0)[-1])
    assert new not in library.active and library.prepared(new, late) == "late" and library.prepared(new, early) is None


@dataclass(frozen=True)
class Takes:
    """A preparer whose results say that they take so many bytes."""

    main: int = 0
    device: int = 0

    def __call__(self, scene: Scene) -> SimpleNamespace:
        return SimpleNamespace(nbytes=self.main, device_nbytes=self.device)


def test_scenes_that_do_not_fit_are_not_resident() -> None:
    with pytest.raises(ValueError, match=rf"no scene fits into max_bytes={SIZE - 1}: increase it"):
        SceneLibrary(sources_of(4), 3, max_bytes=SIZE - 1)
    for count, words in ((1, "only 1 scene at"), (2, "only 2 scenes at")):
        with pytest.warns(UserWarning, match=words):
            assert SceneLibrary(sources_of(4), 3, max_bytes=count * SIZE).num_held == count
    with pytest.warns(UserWarning, match="only 2 scenes of 4, always the same, since"):
        assert SceneLibrary(sources_of(4), max_bytes=2 * SIZE).num_held == 2


def test_a_scene_that_is_too_large_is_passed_over_while_others_fill_the_lanes(recwarn: pytest.WarningsRecorder) -> None:
    def load(name: str) -> Scene:
        room = box_room(name)
        return replace(room, textures=(np.zeros((64, 64, 4), np.uint8),)) if name == first else room

    first = names_in_lanes(SceneLibrary(sources_of(3), 2))[0]
    library = SceneLibrary(sources_of(3, load), 2, max_bytes=2 * SIZE)
    assert first not in names_in_lanes(library) and library.num_held == 2
    (warned,) = recwarn
    assert f"'{first}' is passed over: it does not fit into max_bytes" in str(warned.message)
    assert library.stats()["passed_over"] == 1


def test_a_scene_that_does_not_fit_beside_the_others_is_passed_over() -> None:
    library = SceneLibrary(sources_of(4), 2, rotate_every=1, max_bytes=2 * SIZE, deterministic=True)
    agents = Agents(library)
    with pytest.warns(UserWarning, match=rf"passed over.*max_bytes={2 * SIZE} in addition to the 2 scenes") as warned:
        agents.step(50)
    assert len(warned) == 1 and library.stats()["passed_over"] > 10
    assert library.stats()["swaps"] == 0 and library.nbytes == 2 * SIZE == library.stats()["bytes"]
    roomy = SceneLibrary(sources_of(4), 2, rotate_every=1, max_bytes=3 * SIZE, deterministic=True)
    Agents(roomy).step(50)
    assert roomy.stats()["swaps"] > 0 and roomy.stats()["passed_over"] == 0


@pytest.mark.parametrize("where", ["main", "device"])
def test_what_is_made_of_scenes_counts_in_either_memory(where: str) -> None:
    """Room for five scenes, of which what is made of each takes the room of another."""
    takes = Takes(SIZE) if where == "main" else Takes(device=2 * SIZE)
    library = SceneLibrary(sources_of(6), 3, rotate_every=1, max_bytes=5 * SIZE, deterministic=True)
    with pytest.warns(UserWarning, match="only 2 scenes at a time"):
        (key,) = library.add_preparers([takes])
    assert library.num_held == len(library.active) == 2 and library.prepared(1, key) is not None
    stats = library.stats()
    assert (stats["bytes"], stats["device_bytes"]) == ((4 * SIZE, 0) if where == "main" else (2 * SIZE, 4 * SIZE))
    with pytest.warns(UserWarning, match="passed over"):
        Agents(library).step(50)
    assert library.stats()["swaps"] == 0


def test_where_agents_may_be_too_much_is_refused() -> None:
    library = SceneLibrary(sources_of(3), max_bytes=4 * SIZE)
    library.join()
    before = library.get_state()
    with pytest.raises(ValueError, match=rf"3 scenes would take {6 * SIZE:,} bytes of main memory, more than max_"):
        library.add_preparers([Takes(SIZE)])
    both = rf"take {6 * SIZE:,} bytes of main memory and {9 * SIZE:,} bytes of the graphics device, more than max_bytes"
    with pytest.raises(ValueError, match=both):
        library.add_preparers([Takes(SIZE, 3 * SIZE)])
    assert library.get_state() == before and library.nbytes == 3 * SIZE and library.device_nbytes == 0
    library.add_preparers([Takes(SIZE // 3, SIZE)])
    assert library.device_nbytes == 3 * SIZE


def test_stats_tell_who_comes_and_who_leaves() -> None:
    library = SceneLibrary(sources_of(4), 2, num_spare_slots=2, rotate_every=5, deterministic=True)
    first, second = names_in_lanes(library)
    agents = Agents(library)

    def parts() -> tuple[tuple[str, ...], ...]:
        stats = library.stats()
        return stats["resident"], stats["arriving"], stats["leaving"]

    assert parts() == ((first, second), (), ())
    agents.step(5, settle=False)
    ((third,),) = parts()[1:2]
    assert third not in (first, second) and parts()[0] == (first, second) and parts()[2] == ()
    agents.step(SETTLE_STEPS, settle=False)
    assert (set(parts()[0]), parts()[1], parts()[2]) == ({second, third}, (), (first,))
    library.put(3, box_room("mine"))  # by hand: nobody takes it away
    agents.step(2)
    assert "mine" in parts()[0] and parts()[2] == () and first not in parts()[0]


def test_what_may_pass_is_tried_again_at_the_next_turn() -> None:
    error = OSError(116, "Stale file handle")
    faulty = {"scene_2"}

    def load(name: str) -> Scene:
        if name in faulty and threading.current_thread() is not threading.main_thread():
            raise error
        return box_room(name)

    library = SceneLibrary(sources_of(4, load), 1, rotate_every=1, deterministic=True)
    agents = Agents(library)
    with pytest.warns(UserWarning, match="'scene_2' could not be loaded .*retried at its next turn") as warned:
        agents.step(10 * SETTLE_STEPS)
    assert len(warned) == 1 and library.stats()["refused"] == {}
    assert type(error).__name__ in library.stats()["failed"]["scene_2"]
    faulty.clear()
    plan = ScenePlan(4, 1)
    seed = 0
    while plan.next(()) != 2:
        plan.restart(seed := seed + 1)
    library.restart(agents.key, seed)
    assert names_in_lanes(library) == ["scene_2"] and library.stats()["failed"] == {}
    seen = set()
    for _ in range(10 * SETTLE_STEPS):
        agents.step()
        seen |= set(names_in_lanes(library))
    assert seen == set(library.names) and library.stats()["failed"] == {}


def test_without_rotation_what_may_pass_is_left_out() -> None:
    def load(name: str) -> Scene:
        if name == "scene_1":
            raise OSError(116, "Stale file handle")
        return box_room(name)

    with pytest.warns(UserWarning, match="'scene_1' could not be loaded .*it is left out"):
        assert SceneLibrary(sources_of(3, load)).num_held == 2


@pytest.mark.parametrize(
    ("cause", "lasting"),
    [(None, True), (FileNotFoundError(2, "gone"), True), (OSError(116, "Stale file handle"), False),
     (OSError("damaged picture"), True), (MemoryError(), False), (KeyError("name"), True)],
)  # fmt: skip
def test_the_cause_of_an_error_tells_whether_it_may_pass(cause: Exception | None, lasting: bool) -> None:
    error = ValueError("it cannot be read")
    error.__cause__ = cause
    assert is_lasting(error) == lasting
    assert not is_lasting(OSError(5, "Input/output error"))


@pytest.mark.filterwarnings("ignore:scene .* is left out")
def test_refused_scenes_are_part_of_the_state() -> None:
    def load(name: str) -> Scene:
        if name == "scene_1" and is_damaged:
            raise ValueError("cut short")
        return box_room(name)

    is_damaged = True
    library = SceneLibrary(sources_of(4, load), 1, rotate_every=1, deterministic=True)
    agents = Agents(library)
    agents.step(10 * SETTLE_STEPS)
    assert library.stats()["refused"] == {"scene_1": "cut short"}
    is_damaged = False
    state = json.loads(json.dumps(library.get_state()))
    other = SceneLibrary(sources_of(4, load), 1, rotate_every=1, deterministic=True)
    others = Agents(other)
    other.set_state(others.key, state)
    assert other.stats()["refused"] == {"scene_1": "cut short"}
    other.occupy(others.key, other.active)
    for _ in range(10 * SETTLE_STEPS):
        agents.step()
        others.step()
        assert names_in_lanes(library) == names_in_lanes(other)
    for damaged in ({}, {**state, "refused": {"9": "?"}}, {**state, "refused": 7}):
        with pytest.raises(ValueError, match=r"are missing|not listed|pass the result"):
            other.set_state(others.key, damaged)


def test_the_first_scenes_are_prepared_together() -> None:
    asked: list[tuple[list[str], int]] = []

    def prepare_ahead(sources, niceness, abandoned):
        asked.append(([source.name for source in sources], niceness))
        return [Outcome(ValueError("no floor") if one.name == bad else None, ()) for one in sources]

    first = [f"scene_{index}" for index in np.random.default_rng([0, 6]).permutation(6)]
    bad = first[1]
    with pytest.warns(UserWarning, match=f"'{bad}' is left out: no floor"):
        library = SceneLibrary(sources_of(6), 3, prepare_ahead=prepare_ahead)
    assert asked == [(first[:3], 0), (first[3:4], 0)]
    assert names_in_lanes(library) == [first[0], first[2], first[3]]
    library.restart(library.join(), 1)
    assert len(asked) > 2


def test_equal_preparers_share_their_results() -> None:
    @dataclass(frozen=True)
    class Count:
        what: str

        def __call__(self, scene: Scene) -> list:
            return [len(scene.triangles)]

    library = SceneLibrary(sources_of(2))
    ((one,), (same,), (other,)) = (library.add_preparers([Count(what)]) for what in ("t", "t", "u"))
    assert one == same != other
    library.remove_preparer(one)
    assert library.prepared(0, same) == [len(library.scene(0).triangles)]
    library.remove_preparer(same)
    assert library.prepared(0, one) is None and library.prepared(0, other) is not None
    library.remove_preparer(same)


def test_scenes_by_hand() -> None:
    library = SceneLibrary(sources_of(2), num_spare_slots=1)
    key = library.join()
    library.occupy(key, np.array([0]))
    with pytest.raises(ValueError, match="agents are in it"):
        library.put(0, box_room("mine"))
    library.put(2, box_room("mine"))
    state = library.get_state()
    library.set_state(key, state)
    assert library.name(2) == "mine"
    library.put(2, None)
    with pytest.raises(ValueError, match="first place it there with put"):
        library.set_state(key, state)


def test_a_scene_listed_twice_is_known_by_its_place_in_the_list() -> None:
    scene = box_room("same")
    library = SceneLibrary([SceneSource("same", lambda: scene)] * 3, 1, deterministic=True)
    agents = Agents(library)
    plan = ScenePlan(3, 1)
    firsts = []
    for seed in range(6):
        library.restart(agents.key, seed)
        plan.restart(seed)
        firsts.append(plan.next(()))
        assert library.source_index[0] == firsts[-1] == library.get_state()["source_index"][0]
        agents.step()
    assert set(firsts) == {0, 1, 2}


def test_several_users_keep_their_slots() -> None:
    library = SceneLibrary(sources_of(5), 1, num_spare_slots=2, rotate_every=1, deterministic=True)
    first = Agents(library)
    second = Agents(library)
    old = library.name(0)
    state = library.get_state()
    first.step(100)
    assert library.name(0) == old and library.active[0] != 0
    with pytest.raises(ValueError, match="another environment"):  # the second user's agents are in slot 0 still
        other = (state["source_index"][0] + 1) % 5
        held = {"source_index": [other, -1, -1], "names": [library.names[other], None, None]}
        first.library.set_state(first.key, {**state, **held})
    library.restart(first.key, 7)
    assert library.name(0) == old
    swaps = library.stats()["swaps"]
    second.step(90)  # moves over; only who has made most steps drives the rotation
    assert library.stats()["swaps"] == swaps
    first.step()
    assert library.source_index[0] == -1 or library.name(0) != old
    second.step(100)
    assert library.stats()["swaps"] > swaps
    library.leave(second.key)
    library.leave(first.key)
    library.leave(first.key)


@pytest.mark.parametrize("behind", [0, 100])
def test_scenes_go_on_changing_when_the_user_ahead_leaves(behind: int) -> None:
    library = SceneLibrary(sources_of(5), 1, num_spare_slots=2, rotate_every=10, deterministic=True)
    ahead = Agents(library)
    middle = Agents(library)
    last = Agents(library)
    middle.step(behind)
    ahead.step(200)
    library.leave(ahead.key)
    left = library.source_index[0]
    swaps = library.stats()["swaps"]
    assert library.active[0] != 0
    library.occupy(last.key, library.active)
    middle.step(2)  # the last two agents move over
    assert library.source_index[0] != left
    middle.step(2 * (10 + SETTLE_STEPS))
    assert library.stats()["swaps"] >= swaps + 2
    swaps = library.stats()["swaps"]
    last.step(behind)  # still as far behind the one now ahead
    assert library.stats()["swaps"] == swaps
