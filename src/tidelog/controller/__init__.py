"""Brokers, topics, placement and settings: decides which metadata records to write."""
