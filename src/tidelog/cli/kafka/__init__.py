"""The commands of Apache Kafka's `bin/`, with the same flags and output. One module for each."""
