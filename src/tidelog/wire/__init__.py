"""The Kafka protocol as bytes and values. Pure: no sockets, files or clocks."""
