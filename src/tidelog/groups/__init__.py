"""Consumer groups, classic and KIP-848, and committed offsets: decides what to write to `__consumer_offsets`."""
