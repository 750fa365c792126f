"""Committed offsets of groups: commit, fetch, delete, expire, and those that wait for the end of a transaction."""
