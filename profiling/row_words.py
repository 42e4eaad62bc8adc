"""The applied mask and the rows that are not finite, in words for the page, the terminal and the report."""

from profiling.check_records import MaskTruth, NonFiniteRows, RowRange
from profiling.format import format_count, format_error, format_share


def describe_truth(truth: MaskTruth) -> str:
    """How many of the pairs that were read back are as asked, with the first that is not; or why none was."""
    if truth.wrong_pairs is None:
        return f"The applied mask was not read: {truth.reason}."
    checked = format_count(truth.pairs_checked)
    if not truth.wrong_pairs:
        return f"All {checked} pairs that were read back are as asked ({truth.method})."
    share = format_share(truth.wrong_pairs / truth.pairs_checked)
    ignored = " Every key weighs the same: the mask was ignored." if truth.ignored else ""
    return (
        f"{format_count(truth.wrong_pairs)} of {checked} pairs that were read back ({share}) are not as asked "
        f"({truth.method}).{ignored} {describe_first_wrong(truth)}"
    )


def describe_first_wrong(truth: MaskTruth) -> str:
    """``First wrong pair: query 0 and key 1 of head 0, …``; empty where there is none."""
    if truth.first_wrong is None:
        return ""
    batch, head, query, key = truth.first_wrong
    applied = "not a finite number" if truth.applied_weight is None else format_error(truth.applied_weight)
    return (
        f"First wrong pair: query {query} and key {key} of head {head}, batch entry {batch}; its weight is {applied}, "
        f"asked is {format_error(truth.asked_weight)}."
    )


def describe_non_finite(rows: NonFiniteRows) -> str:
    """How many values lie in rows that count and how many in rows that may attend to nothing, and which rows."""
    live, dead = format_count(rows.in_live_rows), format_count(rows.in_dead_rows)
    where = "; ".join(map(_describe_range, rows.ranges))
    more = f"; and {format_count(rows.ranges_left_out)} more ranges" if rows.ranges_left_out else ""
    harm = (
        "these spread to whatever reads the tensor"
        if rows.in_live_rows
        else "harmless as long as nothing reads those rows, as padding"
    )
    return (
        f"{live} NaN or infinite values in rows that count, {dead} in rows that may attend to nothing: {harm}. "
        f"Rows: {where}{more}."
    )


def _describe_range(rows: RowRange) -> str:
    span = f"{rows.start}" if rows.stop - rows.start == 1 else f"{rows.start}–{rows.stop - 1}"
    kind = "may attend to nothing" if rows.dead else "counts" if rows.stop - rows.start == 1 else "count"
    return f"{span} of batch entry {rows.batch} ({kind})"
