"""Real brokers inside a test or a program."""
