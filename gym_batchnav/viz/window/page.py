"""Page: draws snapshots in the browsers of everyone who looks."""

from __future__ import annotations

from threading import Event, Lock
from typing import Any

import numpy as np

from gym_batchnav.scene.scene import Scene
from gym_batchnav.viz.overviews import overlook
from gym_batchnav.viz.sheets import color_of, side_by_side
from gym_batchnav.viz.window.models import LIFT, distance_field, first_hit, navmesh_triangles, scene_model
from gym_batchnav.viz.window.snapshot import SENSORS, Snapshot

MAX_TRAIL = 1000  # positions of the selected agent that are drawn
WALKABLE = (0, 134, 104)
GOAL = (225, 161, 41)
ROUTE = (31, 96, 222)
TRAIL = (166, 17, 5)
_MARK = 0.2  # metres; radius of the goal's ball
_FRUSTUM = 0.35  # metres from the eye of an agent to the picture that it sees
_WIDTH = 0.05  # metres, of lines
_HIGH = 0.05  # metres above the floor at which lines are drawn
_ASIDE = 0.18  # of its width by which a scene is left of the middle at first, because the panel hides the right
_FAR = 1e7  # metres, beyond which clicks are ignored
_LONG = ("state",)  # facts that take two lines
_OPENGL_TO_OPENCV = np.diag([1.0, -1.0, -1.0])


class Page:
    """A scene in 3-D with agents, goal and paths, panes with what the selected agent sees, and a table of facts.

    All viewers share it. ``show`` may be called by any one thread.
    """

    def __init__(self, server: Any, num_agents: int) -> None:
        self.wake = Event()  # set when a viewer asks for something: another agent, or another part of the scene
        self._server = server
        self._num_agents = num_agents
        self._lock = Lock()
        self._num_viewers = 0
        self._scene: Scene | None = None
        self._model: list[Any] = []  # viser's nodes of the scene: below the cut, and overhead
        self._navmesh: Any = None
        self._agents: dict[int, Any] = {}
        self.shown: Snapshot | None = None  # the last one that was drawn
        self._click: tuple[np.ndarray, np.ndarray] | None = None  # origin and direction of a ray
        self._target: np.ndarray | None = None  # where a viewer has clicked
        self._field_of: tuple[int, bytes] | None = None
        self._trail: list[np.ndarray] = []
        server.scene.set_up_direction("+y")
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._add_panel()
        server.scene.on_click()(self._note_click)
        server.on_client_connect(lambda _: self._count(1))
        server.on_client_disconnect(lambda _: self._count(-1))

    @property
    def picked(self) -> int:
        """The agent that viewers follow; a client may send any number."""
        return min(max(int(self._pick.value), 0), self._num_agents - 1)

    @property
    def num_viewers(self) -> int:
        """The number of browsers that look."""
        return self._num_viewers

    def show(self, snapshot: Snapshot) -> None:
        """Draw a snapshot."""
        loads = snapshot.scene is not self._scene
        if loads:
            self._loading.visible = True
        with self._server.atomic():
            self._show_scene(snapshot)
            self._show_agents(snapshot)
            self._show_trail(snapshot)
            self._show_way(snapshot)
            self._show_panel(snapshot)
        if loads:
            self._loading.visible = False  # browsers are told so after the scene
        self.shown = snapshot

    def show_again(self) -> None:
        """Draw the last snapshot again, with other parts of the scene."""
        if self.shown is not None:
            self.show(self.shown)

    def _add_panel(self) -> None:
        gui = self._server.gui
        self._loading = gui.add_markdown("Loading the scene...")
        self._pick = gui.add_number("Agent", 0, min=0, max=self._num_agents - 1, step=1)
        self._pick.on_update(lambda _: self.wake.set())
        blank = np.zeros((8, 8, 3), np.uint8)
        self._pane = gui.add_image(blank, label=SENSORS[0], format="png")
        self._small_panes = gui.add_image(blank, label=", ".join(SENSORS[1:]), format="png")
        self._facts: dict[str, Any] = {}
        self._table = gui.add_folder("Episode")
        with gui.add_folder("Show"):
            shown = {"Ceilings": False, "Navmesh": False, "Distance field": False, "Other agents": True, "Paths": True}
            self._choices = {name: gui.add_checkbox(name, initial_value=on) for name, on in shown.items()}
            clear = gui.add_button("Forget the clicked goal")
        for choice in self._choices.values():
            choice.on_update(lambda _: self.wake.set())
        clear.on_click(lambda _: self._forget_target())
        gui.add_markdown("Click on a floor to see the shortest path to it.")

    def _show_scene(self, snapshot: Snapshot) -> None:
        """Draw scene and navmesh, once per scene, and hide the parts that are not chosen."""
        if snapshot.scene is not self._scene:
            self._load_scene(snapshot)
        for node, choice in ((self._model[1], "Ceilings"), (self._navmesh, "Navmesh")):
            if node is not None and node.visible != self._choices[choice].value:
                node.visible = self._choices[choice].value

    def _load_scene(self, snapshot: Snapshot) -> None:
        scene = self._server.scene
        for node in (*self._model, self._navmesh, *self._agents.values()):
            if node is not None:
                node.remove()
        self._agents = {}
        self._target = None
        parts = dict(zip(("/scene", "/overhead"), scene_model(snapshot.scene, snapshot.navmesh), strict=True))
        self._model = [None if data is None else scene.add_glb(name, data) for name, data in parts.items()]
        vertices, triangles = navmesh_triangles(snapshot.navmesh)
        self._navmesh = scene.add_mesh_simple(
            "/navmesh", vertices + np.array([0, LIFT, 0], np.float32), triangles, color=WALKABLE, opacity=0.4,
            side="double", cast_shadow=False, receive_shadow=False,
        )  # fmt: skip
        eye, target = overlook(snapshot.scene.bounds, _ASIDE)
        self._server.initial_camera.position = tuple(eye)
        self._server.initial_camera.look_at = tuple(target)
        self._scene = snapshot.scene

    def _show_agents(self, snapshot: Snapshot) -> None:
        """Draw the agents as the frusta of their cameras, the selected one with what it sees."""
        from viser.transforms import SO3

        wanted = snapshot.indices.tolist() if self._choices["Other agents"].value else [snapshot.picked]
        kept = wanted if self.shown is None or self.shown.picked == snapshot.picked else []
        # Only the selected agent has a picture, so all are drawn anew when another one is selected.
        for index in [index for index in self._agents if index not in kept]:
            self._agents.pop(index).remove()
        for index, pose in zip(wanted, snapshot.poses, strict=False):
            if index not in self._agents:
                self._agents[index] = self._server.scene.add_camera_frustum(
                    f"/agents/{index}", snapshot.fov, snapshot.aspect, scale=_FRUSTUM, color=color_of(index + 1),
                    cast_shadow=False, receive_shadow=False,
                )  # fmt: skip
            node = self._agents[index]
            node.wxyz = SO3.from_matrix(pose[:3, :3].astype(np.float64) @ _OPENGL_TO_OPENCV).wxyz
            node.position = tuple(float(value) for value in pose[:3, 3])
        self._agents[snapshot.picked].image = snapshot.pictures["rgb"]

    def _show_trail(self, snapshot: Snapshot) -> None:
        """Draw where the selected agent has walked since its episode began or it was selected."""
        last = self.shown
        same = last is not None and (last.picked, last.episode) == (snapshot.picked, snapshot.episode)
        if not same or last is None or last.scene is not snapshot.scene:
            self._trail = []
        if not self._trail or not np.array_equal(self._trail[-1], snapshot.position):
            self._trail = [*self._trail[1 - MAX_TRAIL :], snapshot.position]
        self._draw_line("/trail", np.array(self._trail), TRAIL)

    def _show_way(self, snapshot: Snapshot) -> None:
        """Draw the goal, or the place that a viewer has clicked, the shortest path to it, and distances to it."""
        self._find_target(snapshot)
        goal = snapshot.goal if self._target is None else self._target
        self._server.scene.add_icosphere(
            "/goal", _MARK, color=GOAL, position=tuple(float(value) for value in goal), cast_shadow=False
        )
        path = np.zeros((0, 3), np.float32)
        if self._choices["Paths"].value:
            path = snapshot.navigation.shortest_path(snapshot.position, goal)
        self._draw_line("/path", path, ROUTE)
        self._show_field(snapshot, goal)

    def _show_field(self, snapshot: Snapshot, goal: np.ndarray) -> None:
        """Draw distances to the goal on the floors, computed when they are first wanted."""
        key = (id(snapshot.scene), goal.tobytes()) if self._choices["Distance field"].value else None
        if key == self._field_of:
            return
        self._field_of = key
        self._server.scene.remove_by_name("/field")
        if key is None:
            return
        try:
            field = distance_field(snapshot.navmesh, goal)
        except ValueError:  # a goal in the air
            return
        reached = np.isfinite(field.metres)
        points = field.points[reached] + np.array([0, LIFT, 0], np.float32)
        self._server.scene.add_point_cloud(
            "/field", points, field.colors[reached], point_size=0.5 * field.spacing,
            point_shape="circle", precision="float32",
        )  # fmt: skip

    def _show_panel(self, snapshot: Snapshot) -> None:
        first, *others = (snapshot.pictures[sensor] for sensor in SENSORS)
        self._pane.image = first
        self._small_panes.image = side_by_side(others)
        for name, text in snapshot.facts.items():
            if name not in self._facts:
                with self._table:
                    self._facts[name] = self._server.gui.add_text(name, text, multiline=name in _LONG, disabled=True)
            elif self._facts[name].value != text:
                self._facts[name].value = text

    def _draw_line(self, name: str, points: np.ndarray, color: tuple[int, int, int]) -> None:
        """Draw a line through points [M, 3], or none through fewer than two."""
        if len(points) < 2:
            points = np.zeros((2, 3), np.float32)
        raised = points + np.array([0, _HIGH, 0], np.float32)
        pieces = np.stack([raised[:-1], raised[1:]], axis=1)
        self._server.scene.add_line_segments(name, pieces, color, thickness=_WIDTH)

    def _find_target(self, snapshot: Snapshot) -> None:
        """Find the place on the floor that a viewer has clicked."""
        with self._lock:
            click, self._click = self._click, None
        if click is None:
            return
        point = first_hit(*navmesh_triangles(snapshot.navmesh), *click)
        if np.isfinite(point).all():
            self._target = point.astype(np.float32)

    def _note_click(self, event: Any) -> None:
        """Remember the ray of a click, which the thread that draws follows."""
        ray = np.array([event.ray_origin, event.ray_direction], np.float64)  # whatever a client has sent
        if ray.shape == (2, 3) and np.isfinite(ray).all() and np.abs(ray).max() < _FAR:
            with self._lock:
                self._click = ray[0], ray[1]
            self.wake.set()

    def _forget_target(self) -> None:
        self._target = None
        self.wake.set()

    def _count(self, change: int) -> None:
        with self._lock:
            self._num_viewers += change
        self.wake.set()
