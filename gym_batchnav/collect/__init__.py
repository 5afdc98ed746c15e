"""Collection: run agents and write every episode to a dataset, in shards that survive being killed."""
