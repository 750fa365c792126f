# The types with which Cython compiles kernel.py, and what C does by itself. Python never reads this file.

cimport cython
from libc.string cimport memcpy

cdef inline unsigned long long wrap(unsigned long long number) noexcept nogil:
    return number

cdef inline unsigned long long as_wide(unsigned long long number) noexcept nogil:
    return number

cdef inline long long as_signed(unsigned long long number) noexcept nogil:
    return <long long>number

cdef inline long long unzigzag(unsigned long long number) noexcept nogil:
    return <long long>((number >> 1) ^ (0 - (number & 1)))

cdef inline unsigned long long zigzag(long long number) noexcept nogil:
    return (<unsigned long long>number << 1) ^ <unsigned long long>(number >> 63)

cdef inline void move(
    const unsigned char[::1] source, long long start, long long length, unsigned char[::1] target, long long position
) noexcept nogil:
    memcpy(&target[position], &source[start], length)

@cython.locals(result=cython.longlong, count=cython.longlong)
cpdef long long note(
    const unsigned char[::1] buffer,
    long long[::1] bodies,
    long long bodies_count,
    long long[::1] walk,
    long long[::1] rows,
    long long rows_max,
    unsigned long long[::1] hashes,
    const unsigned long long[::1] secret,
    unsigned long long[::1] table,
    unsigned long long slots,
    long long entries,
)

@cython.locals(result=cython.longlong, count=cython.longlong)
cpdef long long keep(
    const unsigned char[::1] buffer,
    long long[::1] bodies,
    long long bodies_count,
    long long[::1] walk,
    long long[::1] rows,
    long long rows_max,
    unsigned long long[::1] hashes,
    const unsigned long long[::1] secret,
    const unsigned long long[::1] table,
    unsigned long long slots,
    const unsigned char[::1] marks,
    long long marks_first,
    long long marks_count,
    unsigned char[::1] out,
)

@cython.locals(
    row=cython.longlong,
    body=cython.longlong,
    position=cython.longlong,
    done=cython.longlong,
    at=cython.longlong,
    limit=cython.longlong,
    count=cython.longlong,
    base_offset=cython.longlong,
    start=cython.longlong,
    number=cython.longlong,
    shift=cython.int,
    byte=cython.longlong,
    end=cython.longlong,
    wide=cython.ulonglong,
    timestamp_delta=cython.longlong,
    offset=cython.longlong,
    key_start=cython.longlong,
    key_length=cython.longlong,
    place=cython.longlong,
)
cdef long long locate(
    const unsigned char[::1] buffer,
    long long[::1] bodies,
    long long bodies_count,
    long long[::1] walk,
    long long[::1] rows,
    long long rows_max,
) noexcept nogil

@cython.locals(
    row=cython.longlong,
    place=cython.longlong,
    length=cython.longlong,
    position=cython.longlong,
    words=cython.longlong,
    v0=cython.ulonglong,
    v1=cython.ulonglong,
    v2=cython.ulonglong,
    v3=cython.ulonglong,
    step=cython.longlong,
    word=cython.ulonglong,
    rounds=cython.int,
    index=cython.longlong,
    _=cython.int,
)
cdef void hash_rows(
    const unsigned char[::1] buffer,
    long long[::1] bodies,
    long long[::1] rows,
    long long count,
    const unsigned long long[::1] secret,
    unsigned long long[::1] hashes,
    int skip_marked,
) noexcept nogil

@cython.locals(
    row=cython.longlong,
    place=cython.longlong,
    first=cython.ulonglong,
    second=cython.ulonglong,
    number=cython.ulonglong,
    slot=cython.ulonglong,
    at=cython.ulonglong,
)
cdef long long insert(
    unsigned long long[::1] table,
    unsigned long long slots,
    long long[::1] rows,
    long long count,
    unsigned long long[::1] hashes,
    long long entries,
) noexcept nogil

@cython.locals(
    run_start=cython.longlong,
    run_end=cython.longlong,
    row=cython.longlong,
    place=cython.longlong,
    at_body=cython.longlong,
    flags=cython.longlong,
    offset=cython.longlong,
    stays=cython.int,
    bit=cython.longlong,
    first=cython.ulonglong,
    second=cython.ulonglong,
    slot=cython.ulonglong,
    at=cython.ulonglong,
)
cdef long long copy(
    const unsigned char[::1] buffer,
    long long[::1] bodies,
    long long[::1] rows,
    long long count,
    unsigned long long[::1] hashes,
    const unsigned long long[::1] table,
    unsigned long long slots,
    const unsigned char[::1] marks,
    long long marks_first,
    long long marks_count,
    unsigned char[::1] out,
    long long position,
) noexcept nogil

@cython.locals(at=cython.longlong, slot=cython.ulonglong, number=cython.ulonglong, offset=cython.longlong)
cpdef mark(
    const unsigned long long[::1] table,
    unsigned long long slots,
    long long first_offset,
    unsigned char[::1] marks,
    long long marks_count,
)

@cython.locals(result=cython.int, at=cython.longlong)
cpdef bint is_any_marked(const unsigned char[::1] marks, long long first, long long last)

@cython.locals(
    position=cython.longlong,
    written=cython.longlong,
    size=cython.longlong,
    number=cython.longlong,
    shift=cython.int,
    byte=cython.longlong,
    end=cython.longlong,
    attributes=cython.longlong,
    wide=cython.ulonglong,
    rest=cython.ulonglong,
    delta=cython.longlong,
    length=cython.longlong,
)
cpdef long long rebase(const unsigned char[::1] records, long long shift_ms, bint is_fixed, unsigned char[::1] out)
