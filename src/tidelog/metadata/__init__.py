"""The cluster as an immutable image, built by replaying metadata records."""
