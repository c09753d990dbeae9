"""How large taupy's own files may be, and of which layout. All else was not written by taupy.

Runs inside the measured process, too: nothing is imported at first.
"""

RECORD_BYTES = 16 << 20
"""Of a record of settings or samples (`values.py`)."""

PART_BYTES = 16 << 30
"""Of a part, or of a trace of GPU activities: 512 chunks of 32 MiB."""

DENSE_BYTES = 64 << 20
EXPANSION = 64
"""A file, or a member of an archive, that is larger than DENSE_BYTES takes at least one
byte on disk for each EXPANSION bytes. Parts of real programs pack five to ten times."""

NESTING = 16
"""Of lists and dictionaries in a record."""

CHUNKS = 512
"""Of a part (CHUNKS_AT_MOST in `_native/part.h`)."""

PART_VERSION = 6
"""Of the layout of parts and of files of folded ones (the same in `_native/part.h`)."""


def file_limit() -> str:
    """How large the kernel lets this process make a file, as text; "" if there is no limit."""
    import resource

    from taupy.units import size

    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft == resource.RLIM_INFINITY:
        return ""
    return f"this process may write files of {size(soft)} at most (RLIMIT_FSIZE, `ulimit -f`)"
