# The types with which Cython compiles record_walk.py. Python never reads this file.

cimport cython

@cython.locals(
    length_bytes=cython.longlong,
    is_append_time=cython.bint,
    text=cython.p_char,
    records=list,
    position=cython.longlong,
    _=cython.longlong,
    length=cython.longlong,
    end=cython.longlong,
    byte=cython.longlong,
    timestamp_delta=cython.longlong,
    offset_delta=cython.longlong,
    offset=cython.longlong,
)
cpdef list walk_records(
    bytes body,
    long long count,
    long long base_offset,
    long long base_timestamp,
    object append_time,
    long long first_offset,
    object make,
    object topic=*,
    object partition=*,
    object leader_epoch=*,
)

@cython.locals(number=cython.ulonglong, byte=cython.ulonglong, shift=cython.int)
cpdef (long long, long long) read_varint(bytes body, long long position, int bytes_max)
