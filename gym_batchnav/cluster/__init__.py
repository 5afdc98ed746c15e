"""Shards of evaluations, collections and preparations as tasks of a Ray cluster."""
