"""Measuring a cluster: what `tidelog perf …` and Kafka's own perf commands share; they differ in what they print."""
