"""The applied mask and the rows that are not finite: the finding, the tab, the report and the terminal."""

from dataclasses import replace

import pytest

from attention.workload import MaskSpec, Workload
from profiling.check_records import MaskTruth, NonFiniteRows, RowRange
from profiling.export.report_markdown import write_report_markdown
from profiling.recording import Recording, parse_recording, write_recording
from profiling.report import analyze_recording
from profiling.report_schema import RuleVerdict, parse_report, write_report
from profiling.row_words import describe_non_finite
from tests.conftest import SampleRecording, build_sample
from ui.panels import correctness
from ui.view import Origin, RunView

METHOD = "query = 0 and one-hot values (test data)"
RIGHT = MaskTruth(
    pairs_checked=1_048_576,
    wrong_pairs=0,
    ignored=False,
    asked_picture=((1.0, 0.0), (1.0, 1.0)),
    applied_picture=((1.0, 0.0), (1.0, 1.0)),
    method=METHOD,
)
IGNORED = replace(
    RIGHT,
    wrong_pairs=523_776,
    ignored=True,
    first_wrong=(0, 3, 0, 1),
    asked_weight=0.0,
    applied_weight=0.0009765625,
    applied_picture=((1.0, 1.0), (1.0, 1.0)),
)
UNREAD = MaskTruth(reason="one call takes 3 s")


def with_truth(truth: MaskTruth | None) -> Recording:
    return replace(build_sample("cudnn"), mask_truth=truth)


def judge(recording: Recording) -> RuleVerdict:
    return next(v for v in analyze_recording(recording).report.verdicts if v.rule == "mask_applied")


def panel(recording: Recording) -> str:
    view = RunView(analysis=analyze_recording(recording), origin=Origin(kind="opened", title="r.json"))
    return str(correctness.render(view))


def test_an_ignored_mask_is_an_error_with_the_numbers() -> None:
    verdict = judge(with_truth(IGNORED))
    assert (verdict.status, verdict.severity) == ("fired", "error")
    assert "the mask was ignored" in verdict.explanation
    assert "523,776 of 1.05\u2009M pairs (50.0\u2009%)" in verdict.explanation
    assert "query 0 and key 1 of head 3, batch entry 0" in verdict.evidence[0].text
    assert "9.77e-4, asked is 0" in verdict.evidence[0].text
    assert METHOD in verdict.evidence[1].text


def test_another_mask_is_an_error_and_nan_has_no_weight() -> None:
    verdict = judge(with_truth(replace(IGNORED, ignored=False, applied_weight=None)))
    assert (verdict.status, verdict.severity) == ("fired", "error")
    assert "applied another mask" in verdict.explanation
    assert "not a finite number" in verdict.evidence[0].text


def test_a_right_mask_is_clear_with_what_was_looked_at() -> None:
    verdict = judge(with_truth(RIGHT))
    assert verdict.status == "clear"
    assert "1.05\u2009M pairs" in verdict.explanation


@pytest.mark.parametrize(
    ("recording", "why"),
    [
        (with_truth(UNREAD), "one call takes 3 s"),
        (with_truth(None), "not read from the outputs"),
        (replace(with_truth(RIGHT), workload=None), "trace alone"),
        (replace(with_truth(None), workload=Workload(mask=MaskSpec())), "No mask was asked for"),
    ],
    ids=["not read", "no record", "trace alone", "no mask"],
)
def test_what_was_not_read_is_not_evaluated(recording: Recording, why: str) -> None:
    verdict = judge(recording)
    assert verdict.status == "not_evaluated"
    assert why in verdict.explanation


def test_the_tab_draws_the_asked_and_the_applied_mask() -> None:
    shown = panel(with_truth(IGNORED))
    assert "The mask that was applied" in shown
    assert "■ 523,776 of" in shown
    assert shown.count("mask-picture") == 2
    assert shown.count("mask-blocked") == 1  # of the asked one
    right = panel(with_truth(RIGHT))
    assert "✓ All 1.05" in right
    assert right.count("mask-blocked") == 2


def test_the_tab_says_why_nothing_was_read_and_nothing_without_a_mask() -> None:
    shown = panel(with_truth(UNREAD))
    assert "The applied mask was not read: one call takes 3 s." in shown
    assert "mask-picture" not in shown
    assert "The mask that was applied" not in panel(with_truth(None))


HARMLESS = NonFiniteRows(
    tensor="output", in_live_rows=0, in_dead_rows=1024, ranges=(RowRange(batch=0, start=0, stop=16, dead=True),)
)
HARMFUL = NonFiniteRows(
    tensor="grad_query",
    in_live_rows=64,
    in_dead_rows=0,
    ranges=(RowRange(batch=1, start=7, stop=8, dead=False),),
    ranges_left_out=3,
)


def test_nan_of_padded_rows_is_told_from_nan_that_counts() -> None:
    """huggingface/transformers#32390: NaN of padding is harmless until the next layer reads it."""
    assert describe_non_finite(HARMLESS) == (
        "0 NaN or infinite values in rows that count, 1,024 in rows that may attend to nothing: harmless as long as "
        "nothing reads those rows, as padding. Rows: 0–15 of batch entry 0 (may attend to nothing)."
    )
    assert describe_non_finite(HARMFUL) == (
        "64 NaN or infinite values in rows that count, 0 in rows that may attend to nothing: these spread to whatever "
        "reads the tensor. Rows: 7 of batch entry 1 (counts); and 3 more ranges."
    )


def test_every_place_shows_where_nan_lies_and_the_applied_mask() -> None:
    recording = replace(with_truth(IGNORED), non_finite=(HARMLESS, HARMFUL))
    analysis = analyze_recording(recording)
    markdown = write_report_markdown(analysis).decode()
    for text in (panel(recording), markdown):
        assert "1,024 in rows that may attend to nothing" in text
        assert "these spread to whatever reads the tensor" in text
        assert "523,776 of" in text


def test_both_records_travel_through_the_files(sample_recording: SampleRecording) -> None:
    recording = replace(sample_recording("flash"), mask_truth=IGNORED, non_finite=(HARMLESS, HARMFUL))
    assert parse_recording(write_recording(recording)) == recording
    report = analyze_recording(recording).report
    assert (report.mask_truth, report.non_finite) == (IGNORED, (HARMLESS, HARMFUL))
    assert parse_report(write_report(report)) == report
