"""The asyncio edge of the client: connections, the view of a cluster, producer, consumer and admin client."""
