"""One partition on this broker: leader, waiting requests, role changes."""
