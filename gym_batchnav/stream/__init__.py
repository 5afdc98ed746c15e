"""Learning from a simulation while it runs: minibatches of frames or sequences, without files."""
