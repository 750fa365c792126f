"""A Kafka client: producer, consumer and admin client, for asyncio and for programs that block."""
