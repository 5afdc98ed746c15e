"""Worlds: several agents, people and other moving bodies that share a scene."""
