"""Flight: agents that are spheres in the free space of a scene.

Surfaces are a scene's triangles in a uniform grid, against which spheres collide. Voxels are cubes of space with the
distance from their centres to the triangles. The air of a scene is the connected part of its free space indoors, with
the shortest paths to some goals.
"""
