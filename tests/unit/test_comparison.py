"""Two runs or traces side by side: rows that add up, matches that say by what, and nothing claimed inside the noise."""

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.workload import DType, MaskSpec
from profiling.cli import main
from profiling.compared_groups import Group, round_quotient, split_evenly
from profiling.comparison import CLOCK_TICK_NS, compare_analyses, compare_groups, judge_difference
from profiling.comparison_schema import ComparedRow, Comparison, parse_comparison, write_comparison
from profiling.comparison_words import describe_change, describe_result
from profiling.recording import Recording
from profiling.report import Analysis, analyze_recording, analyze_trace
from tests.conftest import TRACES, build_sample
from tests.unit.trace_builder import annotation, device_item, launch, operator, two_steps, write

PAIRS = [("naive", "math"), ("flash", "efficient"), ("cudnn", "naive"), ("cpu_flash", "cpu_naive")]
KERNEL_ROLES = ["gemm", "softmax", "copy", "other"]


def compare(before: Analysis, after: Analysis) -> Comparison:
    return compare_analyses(before, after, before_title="before.json", after_title="after.json")


def sample(name: str, **changes: Any) -> Analysis:
    return analyze_recording(replace(build_sample(name), **changes))


def bare(name: str) -> Analysis:
    return analyze_trace((TRACES / f"{name}.json.gz").read_bytes())


def trace_of(*events: dict[str, Any]) -> Analysis:
    return analyze_trace(write(list(events)))


def row_of(comparison: Comparison, name: str) -> ComparedRow:
    for row in comparison.rows:
        if any(name in shown for side in (row.before, row.after) if side for shown in side.short_names):
            return row
    raise AssertionError(f"no row of {name} in {[row.role for row in comparison.rows]}")


def check_sums(comparison: Comparison) -> None:
    assert comparison.total is not None
    for side, total in (("before", comparison.total.before_ns), ("after", comparison.total.after_ns)):
        assert sum(getattr(row, side).time_ns for row in comparison.rows if getattr(row, side)) == total
    assert sum(row.difference_ns for row in comparison.rows) == comparison.total.difference_ns
    assert comparison.total.difference_ns == comparison.total.after_ns - comparison.total.before_ns


# Rows that add up


@given(st.lists(st.integers(-(10**6), 10**15), max_size=30), st.integers(1, 50))
def test_parts_add_up_to_the_rounded_whole_and_each_is_within_one(totals: list[int], steps: int) -> None:
    parts = split_evenly(totals, steps)
    assert sum(parts) == round(Fraction(sum(totals), steps))
    assert all(abs(part - Fraction(total, steps)) < 1 for part, total in zip(parts, totals, strict=True))


@given(st.integers(), st.integers(1, 10**6))
def test_quotient_rounds_as_fractions_do(dividend: int, divisor: int) -> None:
    assert round_quotient(dividend, divisor) == round(Fraction(dividend, divisor))


def groups(steps: int) -> st.SearchStrategy[list[Group]]:
    def build(drawn: Sequence[tuple[str, int, int, list[int]]]) -> list[Group]:
        return [
            Group(
                role=role,  # type: ignore[arg-type]
                name=f"kernel_{short}<{full}>",
                short_name=f"kernel_{short}",
                calls=len(times),
                step_times_ns=tuple(times),
            )
            for role, short, full, times in drawn
        ]

    times = st.lists(st.integers(0, 10**9), min_size=max(1, steps), max_size=max(1, steps))
    one = st.tuples(st.sampled_from(KERNEL_ROLES), st.integers(0, 2), st.integers(0, 2), times)
    return st.lists(one, max_size=8, unique_by=lambda entry: entry[:3]).map(build)


@given(st.data(), st.integers(0, 4), st.integers(0, 4))
def test_differences_of_rows_are_the_difference_of_totals(data: st.DataObject, old_steps: int, new_steps: int) -> None:
    before, after = data.draw(groups(old_steps)), data.draw(groups(new_steps))
    total, rows = compare_groups(before, after, old_steps, new_steps)
    assert sum(row.difference_ns for row in rows) == total.difference_ns == total.after_ns - total.before_ns
    assert total.before_ns == round(Fraction(sum(sum(g.step_times_ns) for g in before), max(1, old_steps)))
    # Every group is in one row, and every row says why its sides belong together.
    for side, given_groups in (("before", before), ("after", after)):
        names = [name for row in rows if getattr(row, side) for name in getattr(row, side).names]
        assert sorted(names) == sorted(group.name for group in given_groups)
    for row in rows:
        assert (row.matched_by is None) == (row.before is None or row.after is None)
        assert (row.change in ("appeared", "vanished")) == (row.matched_by is None)
        assert row.matched_by != "role" or row.role != "other"
    # And the other way round every difference changes its sign alone.
    turned, _ = compare_groups(after, before, new_steps, old_steps)
    assert turned.difference_ns == -total.difference_ns


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_recorded_pairs_add_up_to_the_reports_own_totals(before: str, after: str) -> None:
    first, second = sample(before), sample(after)
    comparison = compare(first, second)
    check_sums(comparison)
    assert comparison.total is not None
    if comparison.measure == "device time":
        assert comparison.total.before_ns == first.report.device_time_per_step_ns
        assert comparison.total.after_ns == second.report.device_time_per_step_ns
    else:
        summed = sum(operator.self_cpu_time_ns for operator in first.report.operators)
        assert comparison.total.before_ns == round(summed / first.report.steps_recorded)
    assert [abs(row.difference_ns) for row in comparison.rows] == sorted(
        (abs(row.difference_ns) for row in comparison.rows), reverse=True
    )


@pytest.mark.parametrize("name", ["naive", "math", "cudnn", "cpu_naive"])
def test_run_against_itself_has_no_difference(name: str) -> None:
    comparison = compare(sample(name), sample(name))
    assert comparison.total is not None
    assert comparison.total.difference_ns == 0
    assert {row.change for row in comparison.rows} == {"unchanged"}
    assert {row.matched_by for row in comparison.rows} <= {"role and name", "name"}
    assert comparison.variables == ()
    assert all(clock.change == "unchanged" for clock in comparison.clocks)
    assert not any(figure.difference for figure in comparison.figures)


# What happened to a kernel


def test_naive_against_math_tells_the_lesson() -> None:
    comparison = compare(sample("naive"), sample("math"))
    assert row_of(comparison, "Memcpy").change == "vanished"
    assert row_of(comparison, "Memcpy").difference_bytes == -(256 * 2**20)
    assert row_of(comparison, "bfloat16_copy").change == "appeared"
    gemm = row_of(comparison, "nvjet")
    assert (gemm.matched_by, gemm.change) == ("role", "slower")
    assert gemm.before is not None
    assert len(gemm.before.names) == 2
    softmax = row_of(comparison, "softmax")
    assert softmax.matched_by == "role and short name"
    figures = {figure.name: figure for figure in comparison.figures}
    assert figures["kernels a step"].difference == 15
    assert figures["score matrix written, one copy"].difference == 256 * 2**20  # float32 instead of bfloat16


def test_a_fused_kernel_takes_the_place_of_five() -> None:
    comparison = compare(sample("naive"), sample("flash"))
    assert row_of(comparison, "flash_fwd").change == "appeared"
    assert {row.change for row in comparison.rows} == {"appeared", "vanished"}
    matrix = next(figure for figure in comparison.figures if figure.name.startswith("score matrix"))
    assert (matrix.before, matrix.after) == (256 * 2**20, 0)


def step(number: int, start: float, *kernels: tuple[str, float]) -> list[dict[str, Any]]:
    """One step of 1000 µs with these kernels, one after the other."""
    events = [annotation(f"ProfilerStep#{number}", start, 1000)]
    at = start + 100
    for place, (name, duration) in enumerate(kernels):
        correlation = number * 100 + place
        events += [launch(correlation, start + 10 + place, 0.5), device_item(correlation, at, duration, name)]
        at += duration + 1
    return events


def steps_of(name: str, *durations: float) -> Analysis:
    return trace_of(*(e for i, d in enumerate(durations) for e in step(i, 1000 + 2000 * i, (name, d))))


def test_a_different_number_of_steps_is_compared_by_the_step() -> None:
    comparison = compare(steps_of("k", 50, 50), steps_of("k", 50, 50, 50, 50, 50))
    assert (comparison.steps_before, comparison.steps_after) == (2, 5)
    assert comparison.total is not None
    assert comparison.total.difference_ns == 0


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ((50, 51, 52), (52, 53, 54), "within_noise"),
        ((50, 51, 52), (60, 61, 62), "slower"),
        ((60, 61, 62), (50, 51, 52), "faster"),
        ((50,), (500,), "not_judged"),
        ((50, 50), (50.02, 50.02), "within_noise"),  # less than a tick of the clock
        ((50, 50), (50.1, 50.1), "slower"),
    ],
)
def test_only_what_exceeds_the_noise_is_slower_or_faster(before, after, change: str) -> None:
    (row,) = compare(steps_of("k", *before), steps_of("k", *after)).rows
    assert row.change == change


@given(
    st.lists(st.integers(0, 10**7), min_size=2, max_size=30), st.lists(st.integers(0, 10**7), min_size=2, max_size=30)
)
def test_steps_that_overlap_in_the_middle_are_never_told_apart(old: list[int], new: list[int]) -> None:
    means = [round(sum(times) / len(times)) for times in (old, new)]
    change = judge_difference(*means, old, new)
    opposite = judge_difference(*reversed(means), new, old)
    assert {"slower": "faster", "faster": "slower"}.get(change, change) == opposite
    if change == "slower":
        assert means[1] > means[0] + CLOCK_TICK_NS
        if max(len(old), len(new)) < 9:
            assert max(old) < min(new) or means[1] - means[0] > max(old) - min(old)


@given(st.integers(1, 10**12), st.integers(1, 10**12))
def test_no_ratio_is_ever_below_one(before_ns: int, after_ns: int) -> None:
    words = describe_change("faster" if after_ns < before_ns else "slower", before_ns, after_ns)
    ratio, times, _ = words.partition("×")
    assert not times or float(ratio) > 1
    assert ("faster" in words) == (after_ns < before_ns)


def test_unknown_kernels_are_not_taken_for_each_other() -> None:
    comparison = compare(steps_of("mystery_a", 50, 50), steps_of("mystery_b", 50, 50))
    assert [row.change for row in comparison.rows] == ["vanished", "appeared"] or [
        row.change for row in comparison.rows
    ] == ["appeared", "vanished"]


# What cannot be compared, and what cannot be attributed


def test_steps_against_no_steps_is_not_comparable() -> None:
    loose = trace_of(launch(1, 10), device_item(1, 20, 40))
    comparison = compare(trace_of(*two_steps()), loose)
    assert comparison.total is None
    assert comparison.rows == ()
    assert "before.json has 2 steps and after.json has none" in comparison.reasons[0]
    assert "step()" in comparison.reasons[0]
    assert describe_result(comparison) == "Not comparable."


def test_two_traces_without_steps_are_compared_whole() -> None:
    one, two = (trace_of(launch(1, 10), device_item(1, 20, duration)) for duration in (40, 90))
    comparison = compare(one, two)
    assert comparison.basis == "trace"
    assert comparison.rows[0].change == "not_judged"
    assert comparison.rows[0].difference_ns == 50_000


@pytest.mark.parametrize("turned", [False, True])
def test_device_against_host_is_not_comparable(turned: bool) -> None:
    pair = [bare("flash"), bare("cpu_flash")]
    comparison = compare(*(reversed(pair) if turned else pair))
    assert len(comparison.reasons) == 1
    assert "has device items" in comparison.reasons[0]


def test_run_without_a_trace_keeps_its_clocks() -> None:
    comparison = compare(sample("naive", trace_gz=None), sample("math"))
    assert comparison.reasons == ("before.json holds no trace; record it with the profile stage.",)
    assert comparison.clocks[0].change == "slower"


def with_workload(recording: Recording, **changes: Any) -> Analysis:
    assert recording.workload is not None
    return analyze_recording(replace(recording, workload=replace(recording.workload, **changes)))


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"backend": "sdpa_math"}, ["backend"]),
        ({"seq_len_q": 2048, "seq_len_kv": 2048}, ["seq_len_q"]),  # a self-attention call has one length
        ({"seq_len_kv": 2048, "mask": MaskSpec(name="none")}, ["seq_len_kv", "mask"]),
        ({"mask": MaskSpec(name="sliding_window", parameters={"window": 7})}, ["mask"]),
        ({"dtype": DType.FLOAT16, "seed": 3}, ["dtype", "seed"]),
        ({"num_heads": 32, "kv_heads": 32}, ["num_heads"]),
        ({"num_heads": 32}, ["num_heads"]),
    ],
)
def test_variables_are_counted(changes: dict[str, Any], names: list[str]) -> None:
    comparison = compare(sample("naive"), with_workload(build_sample("naive"), **changes))
    assert [variable.name for variable in comparison.variables] == names
    said = {0: "No recorded variable differs", 1: "One recorded variable differs"}.get(len(names), "Cannot attribute")
    assert comparison.attribution.startswith(said)
    for name in names:
        assert name in comparison.attribution


def test_another_machine_is_a_variable() -> None:
    recording = build_sample("naive")
    assert recording.environment is not None
    flags = {"test data": False}
    other = replace(recording.environment, device_name="NVIDIA A100", torch="2.8.0", flags=flags, sm_clock_mhz=1410)
    comparison = compare(analyze_recording(recording), analyze_recording(replace(recording, environment=other)))
    assert [variable.name for variable in comparison.variables] == ["device", "torch", "flag test data"]
    assert "Cannot attribute: the runs differ in 3 variables (device, torch, flag test data)" in comparison.attribution


def test_bare_traces_attribute_nothing() -> None:
    comparison = compare(bare("naive"), sample("naive"))
    assert comparison.attribution.startswith("Cannot attribute: a trace alone does not say which call was run.")


def test_clocks_of_different_methods_are_not_compared() -> None:
    recording = build_sample("flash")
    assert recording.latency.device is not None
    device = replace(recording.latency.device, l2="flushed")
    other = replace(recording, latency=replace(recording.latency, device=device))
    clock = compare(analyze_recording(recording), analyze_recording(other)).clocks[0]
    assert (clock.change, clock.difference_ns, clock.reason) == (None, None, "taken by different methods")


def test_device_clocks_of_one_method_compare_whatever_number_of_calls_a_replay_holds() -> None:
    one, two = (build_latency_with(f"CUDA graph replay, {calls} calls a replay, CUDA events") for calls in (1, 2))
    row = build_latency_with("2 calls in a row, each a replay of the backend's own CUDA graph, CUDA events")
    assert compare(one, two).clocks[0].difference_ns == 0
    assert compare(one, row).clocks[0].reason == "taken by different methods"


def build_latency_with(method: str) -> Analysis:
    recording = build_sample("flash")
    assert recording.latency.device is not None
    device = replace(recording.latency.device, method=method)
    return analyze_recording(replace(recording, latency=replace(recording.latency, device=device)))


def test_suspect_trace_warns_above_the_numbers() -> None:
    events = [
        event for event in two_steps() if event.get("args", {}).get("correlation") != 4 or event["cat"] != "kernel"
    ]
    comparison = compare(trace_of(*events), trace_of(*two_steps()))
    (warning,) = comparison.warnings
    assert warning.startswith("before.json: The trace is suspect.")


# Doors


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_comparison_comes_back_from_json(before: str, after: str) -> None:
    comparison = compare(sample(before), sample(after))
    assert parse_comparison(write_comparison(comparison)) == comparison


def test_command_prints_the_comparison(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = [str(TRACES / f"{name}.json.gz") for name in ("naive", "math")]
    assert main(["analyze", paths[1], "--against", paths[0]]) == 0
    out = capsys.readouterr().out
    assert out.index(f"before  {paths[0]}") < out.index(f"after   {paths[1]}")
    for words in (
        "vanished",
        "appeared",
        "slower",
        "role and short name",
        "−256\u2009MiB",
        "total",
        "Cannot attribute",
    ):
        assert words in out
    written = tmp_path / "comparison.json"
    command = ["analyze", paths[1], "--against", paths[0], "--json", str(written), "--bundle", str(tmp_path)]
    assert main(command) == 0
    capsys.readouterr()
    assert (tmp_path / "kernels.csv").exists()
    assert main(["analyze", paths[1], "--against", paths[0], "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(written.read_text())


def test_command_says_why_two_traces_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(TRACES / "flash.json.gz"), "--against", str(TRACES / "cpu_flash.json.gz")]) == 1
    assert "NOT COMPARABLE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--against", "/nowhere.json"], "against='/nowhere.json' cannot be read: No such file"),
        (["--against", ""], "against='' is empty"),
        (["--against", __file__], "is neither a trace nor a recording"),
        (["--label", " "], "label='' is empty"),
    ],
)
def test_wrong_argument_gets_one_line(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["analyze", str(TRACES / "flash.json.gz"), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_control_characters_of_a_trace_stay_out_of_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(write([operator("x", 0, 90), launch(1, 10), device_item(1, 20, 40, "k\x1b[31mred\u202e")]))
    main(["analyze", str(path), "--against", str(path)])
    out = capsys.readouterr().out
    assert "red" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
