"""The vocabulary that every layer shares: ids, error codes, settings. Imports nothing of ours."""
