"""The command line: tidelog, and the kafka-* commands people already know."""
