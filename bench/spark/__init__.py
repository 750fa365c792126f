"""Our Spark source and sink beside Spark's own Kafka connector. `python -m bench.spark` runs it."""
