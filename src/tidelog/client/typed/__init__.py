"""Values of records as typed columns: JSON, Avro or Protocol Buffers in, an Arrow struct out, bad rows named.

Spark's source and `tidelog sql` call `decoding.decode_values`. Needs `tidelog[arrow]`, and for two of the formats
`tidelog[avro]` or `tidelog[protobuf]`.
"""
