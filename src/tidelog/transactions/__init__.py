"""Transactions: the coordinator's state table, its commands, and the delivery of markers. Decides, and does no I/O."""
