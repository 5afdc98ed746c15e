"""Images of agents and scenes, as arrays [H, W, 3] uint8: mosaics, maps, trajectories, clips.

``gym_batchnav.viz.figures`` has Matplotlib figures; it needs the extra ``[viz]`` and is imported by its own name.
"""

from gym_batchnav.viz.clips import batch_map, episode_clip, map_beside_views, trajectory_maps
from gym_batchnav.viz.fields import draw_field, geodesic_field
from gym_batchnav.viz.floors import storeys
from gym_batchnav.viz.maps import (
    OUTLINE,
    TopDownMap,
    draw_agents,
    draw_outline,
    draw_trajectories,
    draw_viewpoints,
    navmesh_map,
    scene_map,
    section_map,
    storey_map,
)
from gym_batchnav.viz.overviews import navmesh_overview, scene_overview
from gym_batchnav.viz.recording import Recording, record_episodes
from gym_batchnav.viz.rerun import EpisodeRecorder, record
from gym_batchnav.viz.sheets import (
    BACKGROUND,
    INK,
    PATH_COLORS,
    captioned,
    comparison,
    depth_picture,
    difference_picture,
    mosaic,
    save_clip,
    save_picture,
    semantic_picture,
    side_by_side,
    stacked,
    titled,
)
from gym_batchnav.viz.views import SKY, draw_for_people
from gym_batchnav.viz.window.watch import Window, serve

__all__ = [
    "BACKGROUND",
    "INK",
    "OUTLINE",
    "PATH_COLORS",
    "SKY",
    "EpisodeRecorder",
    "Recording",
    "TopDownMap",
    "Window",
    "batch_map",
    "captioned",
    "comparison",
    "depth_picture",
    "difference_picture",
    "draw_agents",
    "draw_field",
    "draw_for_people",
    "draw_outline",
    "draw_trajectories",
    "draw_viewpoints",
    "episode_clip",
    "geodesic_field",
    "map_beside_views",
    "mosaic",
    "navmesh_map",
    "navmesh_overview",
    "record",
    "record_episodes",
    "save_clip",
    "save_picture",
    "scene_map",
    "scene_overview",
    "section_map",
    "semantic_picture",
    "serve",
    "side_by_side",
    "stacked",
    "storey_map",
    "storeys",
    "titled",
    "trajectory_maps",
]
