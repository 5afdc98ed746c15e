"""Episodes: sampling on a navmesh, Habitat datasets, and the order in which episodes run."""
