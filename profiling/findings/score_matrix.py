"""Is the score matrix written to memory? Fused kernels keep it on chip; composed ones write and re-read it."""

from attention.workload import DType, Workload
from profiling.findings.facts import HOW_TO_RECORD_SHAPES
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.findings.score_size import find_score_size
from profiling.format import format_bytes, format_ratio
from profiling.observed import COMPOSED_FAMILIES, score_copy
from profiling.report_schema import Cost, Evidence, ObservedBackend, Report
from profiling.trace.events import Trace

# A library's workspace or statistics of the rows may take as much, so less shows no tensor for sure. The caching
# allocator itself leaves up to 1 MiB of a block unsplit. Source: PyTorch, c10/cuda/CUDACachingAllocator (kSmallSize).
SMALLEST_VISIBLE_BYTES = 4 * 2**20


def _judge(report: Report, trace: Trace | None) -> Outcome:
    observed = report.observed_backend
    known = observed is not None and observed.confidence != "unknown"
    if not isinstance(report.workload, Workload) or report.cost is None or report.cost.score_matrix_bytes is None:
        if observed is None or trace is None:
            return NotEvaluated(reason="Neither a trace nor the shape of the call is known.")
        return _judge_bare(report, observed, trace)
    allocated = report.memory.materialized_bytes if report.memory else None
    matrix = report.cost.score_matrix_bytes
    if observed is not None and known:
        if observed.family in COMPOSED_FAMILIES:
            copy = score_copy(observed.family, report.workload)
            return _fired(report, report.workload, report.cost, copy, allocated)
        besides = f" The call allocated {format_bytes(allocated)} besides its output." if allocated is not None else ""
        return Clear(
            explanation=(
                f"{observed.family} keeps the score matrix on chip; a copy would take {format_bytes(matrix)}.{besides}"
            )
        )
    if allocated is None:
        return NotEvaluated(reason="Neither the backend that ran nor the memory of the call is known.")
    if matrix < SMALLEST_VISIBLE_BYTES:
        return NotEvaluated(
            reason=f"One score matrix takes {format_bytes(matrix)}, too little to tell from the allocator's rounding."
        )
    if allocated >= matrix:
        return _fired(report, report.workload, report.cost, (matrix, report.workload.dtype), allocated)
    return Clear(
        explanation=(
            f"The call allocated {format_bytes(allocated)} besides its output, less than one score matrix "
            f"({format_bytes(matrix)})."
        )
    )


def _judge_bare(report: Report, observed: ObservedBackend, trace: Trace) -> Outcome:
    """A trace without its workload: the size is read from what the softmax over the scores was given or launched."""
    if observed.confidence == "unknown":
        return NotEvaluated(reason=f"The trace names no single backend: {observed.evidence[0]}.")
    if observed.family not in COMPOSED_FAMILIES:
        return Clear(explanation=f"{observed.family} keeps the score matrix on chip.")
    size = find_score_size(report, trace)
    if size is None:
        return NotEvaluated(
            reason=(
                f"{observed.family} writes the score matrix to memory, but the trace has no shapes to size it by; "
                f"{HOW_TO_RECORD_SHAPES}."
            )
        )
    matrix = format_bytes(size.bytes)
    return Fired(
        severity="warning" if size.bytes >= SMALLEST_VISIBLE_BYTES else "info",
        explanation=(
            f"{observed.family} writes the score matrix to memory: {size.bound}{matrix} a copy in {size.data_type}, "
            f"by {size.basis}."
        ),
        evidence=(
            Evidence(text=f"{size.bound}{matrix} by {size.basis}", items=size.items, operators=size.operators),
            *(Evidence(text=text) for text in observed.evidence),
        ),
        advice=_ADVICE,
    )


def _fired(report: Report, workload: Workload, cost: Cost, copy: tuple[int, DType], allocated: int | None) -> Outcome:
    copy_bytes, dtype = copy
    # Where the matrix is smaller than the inputs and output together, its traffic does not decide the run.
    outweighs = copy_bytes > cost.bytes_min
    matrix = format_bytes(copy_bytes)
    shape = f"[{workload.batch_size}, {workload.num_heads}, {workload.seq_len_q}, {workload.seq_len_kv}]"
    measured = f" The call allocated {format_bytes(allocated)} besides its output." if allocated is not None else ""
    ratio = format_ratio(copy_bytes / cost.bytes_min)
    names = report.observed_backend.evidence if report.observed_backend else ()
    return Fired(
        severity="warning" if outweighs else "info",
        explanation=(
            f"The score matrix {shape} is written to memory: {matrix} a copy in {dtype}, {ratio} "
            f"query, key, value and output together.{measured}"
        ),
        evidence=(
            *(Evidence(text=text) for text in names),
            Evidence(text=f"score matrix {matrix}, inputs and output {format_bytes(cost.bytes_min)}"),
        ),
        advice=_ADVICE,
    )


_ADVICE = "A fused backend (flash, efficient, cuDNN) computes the same without it; see which of them accept this."

RULE = Rule(
    slug="score_matrix",
    title="Score matrix in memory",
    source="batch_size × num_heads × seq_len_q × seq_len_kv elements; FlashAttention (arXiv:2205.14135) avoids them.",
    judge=_judge,
    of_attention=True,
)
