"""Was the mask applied that was asked for? Its pairs are read back from the backend's outputs, one by one."""

from attention.workload import Workload
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, Rule
from profiling.format import format_count, format_share
from profiling.report_schema import Evidence, Report
from profiling.row_words import describe_first_wrong
from profiling.trace.events import Trace


def _judge(report: Report, trace: Trace | None) -> Outcome:
    if not isinstance(report.workload, Workload):
        return NotEvaluated(reason="A trace alone does not say which mask was asked for.")
    if report.workload.mask.name == "none":
        return NotEvaluated(reason="No mask was asked for.")
    truth = report.mask_truth
    if truth is None:
        return NotEvaluated(reason="The applied mask was not read from the outputs of this run.")
    if truth.wrong_pairs is None:
        return NotEvaluated(reason=f"The applied mask was not read: {truth.reason}.")
    checked = format_count(truth.pairs_checked)
    if not truth.wrong_pairs:
        return Clear(
            explanation=f"All {checked} pairs that were read back are as mask {report.workload.mask.name} asks."
        )
    share = format_share(truth.wrong_pairs / truth.pairs_checked)
    how = "attends to every key alike: the mask was ignored" if truth.ignored else "applied another mask"
    return Fired(
        severity="error",
        explanation=(
            f"{report.workload.backend} {how}. {format_count(truth.wrong_pairs)} of {checked} pairs ({share}) differ "
            f"from mask {report.workload.mask.name}."
        ),
        evidence=(Evidence(text=describe_first_wrong(truth)), Evidence(text=f"read with {truth.method}")),
        advice=(
            "Do not use this answer. Check the mask's polarity (True means may attend in SDPA), the causal corner and "
            "whether this backend takes a mask at all."
        ),
    )


RULE = Rule(
    slug="mask_applied",
    title="Mask that was applied",
    source="Weights read back with query = 0 and one-hot values; huggingface/diffusers#12605: a mask was ignored.",
    judge=_judge,
    of_attention=True,
)
