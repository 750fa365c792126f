"""A Kafka client: admin, produce, fetch."""
