"""Episodes: sampled on a navmesh or read from a Habitat dataset, and the order in which they run."""
