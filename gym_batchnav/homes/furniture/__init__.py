"""Furniture with recognisable parts.

Every function builds one piece on a builder: standing on y = 0, centred on x = z = 0, its front towards +z, its back
towards the wall. Sizes are in metres. Pieces that hang on a wall are modelled at their height.
"""
