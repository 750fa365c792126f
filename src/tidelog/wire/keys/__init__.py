"""The keys of whole batches at once, with no Python object for a record: what compaction does to every record of a log.

`kernel.py` is compiled where there is a C compiler (`hatch_build.py`). Unlike `wire/columns` it needs no numpy, so that
a broker may use it.
"""
