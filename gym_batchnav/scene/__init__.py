"""Scenes: textured triangle meshes, their files, and Habitat's scene datasets."""
