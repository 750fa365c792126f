"""One partition's bytes on disk: segments, indexes, producer state, leader epochs, recovery."""
