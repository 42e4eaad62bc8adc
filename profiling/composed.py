"""What a composed form of a call writes to memory besides its result, in words: what fusing it saves."""

from profiling.format import format_bytes
from profiling.report_schema import Cost


def describe_composed(cost: Cost) -> tuple[tuple[str, str], ...]:
    """Names and sizes; only what this kind of call has."""
    sizes = (
        ("one score matrix in the inputs' dtype", cost.score_matrix_bytes),
        ("intermediates of the eager form, in all", cost.intermediates_bytes),
    )
    return tuple((name, format_bytes(size)) for name, size in sizes if size is not None)
