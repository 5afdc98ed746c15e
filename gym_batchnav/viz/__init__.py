"""Pictures of what happens, as arrays [H, W, 3] uint8: mosaics, maps from above, trajectories, clips."""

from gym_batchnav.viz.maps import (
    OUTLINE,
    WALKABLE,
    TopDownMap,
    draw_agents,
    draw_outline,
    draw_trajectories,
    draw_viewpoints,
    navmesh_map,
    scene_map,
)
from gym_batchnav.viz.marks import BACKGROUND, INK, PATH_COLORS
from gym_batchnav.viz.save import check_picture_path, save_clip, save_picture
from gym_batchnav.viz.sheets import (
    comparison,
    depth_picture,
    difference_picture,
    framed,
    mosaic,
    numbered,
    semantic_picture,
    side_by_side,
    titled,
)
from gym_batchnav.viz.views import SKY, drawn

__all__ = [
    "BACKGROUND",
    "INK",
    "OUTLINE",
    "PATH_COLORS",
    "SKY",
    "WALKABLE",
    "TopDownMap",
    "check_picture_path",
    "comparison",
    "depth_picture",
    "difference_picture",
    "draw_agents",
    "draw_outline",
    "draw_trajectories",
    "draw_viewpoints",
    "drawn",
    "framed",
    "mosaic",
    "navmesh_map",
    "numbered",
    "save_clip",
    "save_picture",
    "scene_map",
    "semantic_picture",
    "side_by_side",
    "titled",
]
