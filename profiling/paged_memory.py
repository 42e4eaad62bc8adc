"""The block table's facts in words: one wording for the page and for markdown."""

from attention.paging import Paging
from profiling.format import format_bytes, format_count, format_share

PAGING_METHOD = (
    "counted from the block table that the call read; the cache was filled before the first call and counts in the peak"
)
NO_NEIGHBOURS = "no two blocks follow each other"


def describe_paging(paging: Paging) -> tuple[tuple[str, str], ...]:
    """Names and values, for a reader."""
    scattered = paging.share_of_scattered_blocks
    return (
        ("sequences", format_count(paging.sequences)),
        (f"blocks of {paging.block_size} tokens", format_count(paging.blocks)),
        ("cache of keys and values", format_bytes(paging.cache_bytes)),
        ("block table, as this backend keeps it", format_bytes(paging.table_bytes)),
        ("internal fragmentation: slots that hold no token", format_share(paging.share_of_empty_slots)),
        (
            "consecutive blocks that are no neighbours in memory",
            NO_NEIGHBOURS if scattered is None else format_share(scattered),
        ),
        ("written and read again by gathering, each call", format_bytes(paging.gather_extra_bytes)),
    )


def describe_copies(paging: Paging) -> str:
    """What the call allocates for its blocks, in a sentence."""
    if paging.gather_extra_bytes:
        size = format_bytes(paging.gather_extra_bytes // 2)
        return f"Each call gathers the blocks into contiguous copies of {size}, and reads these again."
    return "The call reads the blocks where they lie: nothing is gathered."
