"""Work that many machines share, on a Ray cluster."""
