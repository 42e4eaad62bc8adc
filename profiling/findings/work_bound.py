"""Is the call bound by arithmetic or by memory, by counted work, and how near is it to that ceiling?"""

from profiling.findings.rule import Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_bytes, format_count, format_quantity, format_rate, format_share
from profiling.report_schema import Evidence, Report
from profiling.trace.events import Trace

# On an H200 the fused kernels reach 9.7 to 30 % of the ceiling at the tutorial's shape and 55 to 65 % at long ones;
# composed ones 0.7 to 5.3 % (compiled), since they move bytes that the count leaves out.
FAR_FROM_CEILING = 0.075


def _judge(report: Report, trace: Trace | None) -> Outcome:
    cost, roofline = report.cost, report.roofline
    if cost is None:
        return NotEvaluated(
            reason=(
                "The trace does not say the shapes, mask and dtype of the call, so its work cannot be counted; run it "
                "here, or read achieved rates from a trace recorded with record_shapes=True and with_flops=True."
            )
        )
    if roofline is None:
        return NotEvaluated(reason="Device time was not measured, so no rate can be set against the counted work.")
    if roofline.bound is None or roofline.share_of_ceiling is None:
        return NotEvaluated(
            reason=(
                f"This device's published peaks for this dtype are not known here; achieved "
                f"{format_rate(roofline.achieved_flops_per_s, 'FLOP')} and "
                f"{format_rate(roofline.achieved_bytes_per_s, 'B')}."
            )
        )
    far = roofline.share_of_ceiling < FAR_FROM_CEILING
    intensity = format_quantity(round(cost.arithmetic_intensity, 1), "FLOP/byte")
    return Fired(
        severity="info",
        explanation=(
            f"By counted work the call is {roofline.bound}-bound ({intensity}) and reaches "
            f"{format_share(roofline.share_of_ceiling)} of that ceiling: "
            f"{format_rate(roofline.achieved_flops_per_s, 'FLOP')} and "
            f"{format_rate(roofline.achieved_bytes_per_s, 'B')}."
            + (
                " So far below it, the time goes into work that is not counted: copies, score matrix, launches."
                if far
                else ""
            )
        ),
        evidence=(
            Evidence(
                text=(
                    f"{format_count(cost.flops)} FLOPs and {format_bytes(cost.bytes_min)} at least, over the median "
                    "device time"
                )
            ),
            Evidence(text=f"ceiling: {roofline.ceiling_source}"),
        ),
        advice=(
            "Read the other findings first: what is not counted decides this run."
            if far
            else "Fewer bytes help a memory-bound call, a faster kernel or a smaller dtype a compute-bound one."
        ),
    )


RULE = Rule(
    slug="work_bound",
    title="Memory- or compute-bound",
    source="Williams, Waterman and Patterson, Roofline (CACM 52(4), 2009); peaks from data sheets, not counters.",
    judge=_judge,
)
