"""The blocking front of the client: the same machines as the asyncio front, on a loop in a thread of its own."""
