"""Serializers that need a library of their own: `pip install tidelog[avro]` or `tidelog[protobuf]`."""
