"""Record batches as Arrow columns and back, with no Python object for a record.

`decode.py` and `encode.py` are what the client calls. Everything here needs `tidelog[arrow]`; nothing else in `wire`
imports it, so that a broker loads neither numpy nor pyarrow.
"""
