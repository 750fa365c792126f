# The types with which Cython compiles kernel.py. Python never reads this file.

cimport cython
from libc.string cimport memcpy

cdef inline void copy(
    unsigned char[::1] out,
    long long position,
    const unsigned char[::1] buffer,
    long long start,
    long long length,
) noexcept:
    memcpy(&out[position], &buffer[start], length)

@cython.locals(
    row=cython.longlong,
    body=cython.longlong,
    at=cython.longlong,
    position=cython.longlong,
    limit=cython.longlong,
    count=cython.longlong,
    base_offset=cython.longlong,
    base_timestamp=cython.longlong,
    log_append=cython.longlong,
    append_time=cython.longlong,
    first_row=cython.longlong,
    _=cython.longlong,
    number=cython.longlong,
    shift=cython.int,
    byte=cython.longlong,
    end=cython.longlong,
    wide=cython.ulonglong,
    timestamp_delta=cython.longlong,
    offset=cython.longlong,
    key_start=cython.longlong,
    key_length=cython.longlong,
    value_start=cython.longlong,
    value_length=cython.longlong,
    header_start=cython.longlong,
    header_count=cython.longlong,
    part=cython.longlong,
    takes_offsets=cython.longlong,
    takes_timestamps=cython.longlong,
    takes_keys=cython.longlong,
    takes_values=cython.longlong,
    takes_headers=cython.longlong,
    key_end=cython.longlong,
    value_end=cython.longlong,
)
cpdef long long walk(
    const unsigned char[::1] buffer,
    long long[::1] bodies,
    long long bodies_count,
    long long first_offset,
    long long end_offset,
    long long wanted,
    long long[::1] offsets,
    long long[::1] timestamps,
    unsigned char[::1] keys,
    int[::1] key_bounds,
    unsigned char[::1] key_nulls,
    unsigned char[::1] values,
    int[::1] value_bounds,
    unsigned char[::1] value_nulls,
    long long[::1] header_starts,
    long long[::1] header_counts,
    long long[::1] problem,
)

@cython.locals(
    index=cython.longlong,
    row=cython.longlong,
    position=cython.longlong,
    _=cython.longlong,
    number=cython.longlong,
    shift=cython.int,
    byte=cython.longlong,
)
cpdef walk_headers(
    const unsigned char[::1] buffer,
    long long[::1] header_starts,
    long long[::1] header_counts,
    long long rows,
    long long[::1] key_starts,
    long long[::1] key_lengths,
    long long[::1] value_starts,
    long long[::1] value_lengths,
)

@cython.locals(
    position=cython.longlong,
    room=cython.longlong,
    batch=cython.longlong,
    first=cython.longlong,
    base_timestamp=cython.longlong,
    row=cython.longlong,
    time=cython.ulonglong,
    key_length=cython.longlong,
    value_length=cython.longlong,
    key_bytes=cython.longlong,
    value_bytes=cython.longlong,
    header_bytes=cython.longlong,
    header_count=cython.longlong,
    length=cython.longlong,
    number=cython.ulonglong,
)
cpdef long long write(
    unsigned char[::1] out,
    const long long[::1] bounds,
    long long batches,
    const long long[::1] timestamps,
    const unsigned char[::1] key_data,
    const long long[::1] key_starts,
    const long long[::1] key_lengths,
    const unsigned char[::1] value_data,
    const long long[::1] value_starts,
    const long long[::1] value_lengths,
    const unsigned char[::1] header_data,
    const long long[::1] header_starts,
    const long long[::1] header_lengths,
    const long long[::1] header_counts,
    long long[::1] ends,
)

@cython.locals(
    position=cython.longlong,
    row=cython.longlong,
    length=cython.longlong,
)
cpdef gather(
    const unsigned char[::1] buffer,
    const long long[::1] starts,
    const long long[::1] lengths,
    long long rows,
    int[::1] bounds,
    unsigned char[::1] out,
)

cdef long long failed(long long[::1] problem, long long code, long long body, long long position)
cdef unsigned long long as_wide(unsigned long long byte) noexcept
cdef long long unzigzag(unsigned long long number) noexcept
cdef unsigned long long zigzag(long long number) noexcept
@cython.locals(size=cython.longlong)
cdef long long size_of(unsigned long long number) noexcept
