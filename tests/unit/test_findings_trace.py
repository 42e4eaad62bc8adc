"""Rules on what a trace holds: lost kernels, warm-up leak, graphs, fused kernels, occupancy, training and dropout."""

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.workload import Direction
from profiling.findings import RULES, evaluate_rules
from profiling.findings.facts import IN_SDPA, build_facts
from profiling.recording import Delta, Recording, parse_recording
from profiling.report import analyze_recording, analyze_trace, build_report
from profiling.report_schema import RuleVerdict
from profiling.trace import read_trace
from tests.conftest import TRACES, SampleRecording
from tests.unit import trace_builder as tb

Event = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
H200_TRACES = ["naive", "math", "efficient", "flash", "cudnn", "flex"]
TRACE_RULES = [
    "lost_kernels", "warm_up_leak", "cuda_graph", "fused_kernels", "low_occupancy", "in_place_training",
    "dropout_in_inference",
]  # fmt: skip
BACKWARD = "autograd::engine::evaluate_function: SoftmaxBackward0"


def bare(name: str) -> bytes:
    return (TRACES / f"{name}.json.gz").read_bytes()


def recorded(name: str) -> Recording:
    return parse_recording((ROOT / "recordings" / f"tutorial_{name}.recording.json.gz").read_bytes())


def verdict_in(events: list[Event] | bytes, rule: str) -> RuleVerdict:
    data = events if isinstance(events, bytes) else tb.write(events, deviceProperties=[tb.H200])
    return next(verdict for verdict in analyze_trace(data).report.verdicts if verdict.rule == rule)


def verdict_of(recording: Recording, rule: str) -> RuleVerdict:
    return next(verdict for verdict in analyze_recording(recording).report.verdicts if verdict.rule == rule)


@pytest.mark.parametrize("rule", TRACE_RULES)
def test_without_trace_nothing_is_evaluated(rule: str) -> None:
    assert verdict_of(Recording(), rule).explanation == "No trace was recorded."


@pytest.mark.parametrize("name", H200_TRACES)
def test_whole_traces_lost_and_leaked_nothing(name: str) -> None:
    assert [verdict_in(bare(name), rule).status for rule in ("lost_kernels", "warm_up_leak")] == ["clear", "clear"]


def test_launch_without_an_item_is_a_lost_kernel() -> None:
    events = [*tb.two_steps(), tb.operator("aten::mul", 1065, 8), tb.launch(9, 1066)]
    verdict = verdict_in(events, "lost_kernels")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "1 of 5 launches (20.0\u2009%)" in verdict.explanation
    assert "1 of them inside the steps" in verdict.explanation
    assert "aten::mul" in verdict.evidence[0].text
    assert len(verdict.evidence[0].operators) == 1


def test_every_kernel_lost_is_an_error_and_no_launch_is_not_evaluated() -> None:
    assert verdict_in([tb.operator("aten::mul", 1, 9), tb.launch(1, 2)], "lost_kernels").severity == "error"
    verdict = verdict_in(bare("cpu_naive"), "lost_kernels")
    assert verdict.status == "not_evaluated"
    assert "ProfilerActivity.CUDA" in verdict.explanation


def test_work_of_the_warm_up_inside_the_window_leaks() -> None:
    leak = [tb.device_item(77, 990, 30, "warm_up_kernel"), tb.device_item(78, 1021, 5, "warm_up_kernel")]
    analysis = analyze_trace(tb.write([*tb.two_steps(), *leak]))
    verdict = next(verdict for verdict in analysis.report.verdicts if verdict.rule == "warm_up_leak")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "6 items in the window, 4 launched in its steps" in verdict.explanation
    assert verdict.evidence[0].items == (0, 1)
    health = analysis.report.trace_health
    assert health is not None
    assert [problem.count for problem in health.problems if problem.kind == "warm-up leak"] == [2]


def test_warm_up_leak_needs_steps_and_device_items() -> None:
    events = [tb.launch(1, 5), tb.device_item(1, 10, 20)]
    assert "profiler.step()" in verdict_in(events, "warm_up_leak").explanation
    assert "ProfilerActivity.CUDA" in verdict_in(bare("cpu_naive"), "warm_up_leak").explanation


# CUDA graphs and fused kernels, on recordings of an H200.


@pytest.mark.parametrize("name", ["sdpa_cudagraph", "compiled_naive_cudagraph"])
def test_replayed_graphs_are_named(name: str) -> None:
    verdict = verdict_of(recorded(name), "cuda_graph")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert "1 graph launch a step" in verdict.explanation
    assert verdict.evidence[0].items


def test_copies_of_a_graphs_inputs_are_told_with_their_size_and_are_no_hidden_copy() -> None:
    recording = recorded("compiled_naive_cudagraph")
    verdict = verdict_of(recording, "cuda_graph")
    # Query, key and value of 16 MiB, and the mask of 1 MiB.
    assert "brought to where the graph reads them by 4 copies a step, 49\u2009MiB in all: 28.9" in verdict.explanation
    assert "28.9\u2009µs a step, 8.1\u2009% of device time" in verdict.explanation
    assert "mark_static_address" in verdict.advice
    assert len(verdict.evidence[1].items) == 12
    assert "masked_fill" not in verdict_of(recording, "hidden_copy").explanation
    assert "brought" not in verdict_of(recorded("sdpa_cudagraph"), "cuda_graph").explanation


@pytest.mark.parametrize(("path", "shown"), [
    (("aten::copy_",), True),
    (("my_region", "aten::_foreach_copy_", "aten::copy_"), True),
    (("aten::clone", "aten::copy_"), False),
])  # fmt: skip
@pytest.mark.parametrize("before_the_graph", [True, False])
def test_only_copies_ahead_of_the_graph_into_what_is_there_bring_its_inputs(
    path: tuple[str, ...], shown: bool, before_the_graph: bool
) -> None:
    replay_us = 30 if before_the_graph else 1
    events = [tb.operator(name, 5 + depth, 20 - 2 * depth) for depth, name in enumerate(path)]
    events += [tb.launch(1, 10, 1), tb.device_item(1, 40, 5, "Memcpy DtoD (Device -> Device)", cat="gpu_memcpy")]
    events += [tb.launch(2, replay_us, 2, name="cudaGraphLaunch"), tb.device_item(2, 50, 20)]
    told = (
        "brought to where the graph reads them by 1 copy in the trace" in verdict_in(events, "cuda_graph").explanation
    )
    assert told == (shown and before_the_graph)


@pytest.mark.parametrize("rule", ["in_place_training", "hidden_copy", "cast_copies", "layout_copies", "realign_copies"])
def test_a_replayed_graph_is_not_told_to_record_operators(rule: str) -> None:
    verdict = verdict_of(recorded("sdpa_cudagraph"), rule)
    assert verdict.status == "not_evaluated"
    assert "CUDA graph" in verdict.explanation
    assert "ProfilerActivity.CPU" not in verdict.explanation


@pytest.mark.parametrize("name", H200_TRACES)
def test_eager_launches_are_no_graph(name: str) -> None:
    assert verdict_in(bare(name), "cuda_graph").status == "clear"


def test_cuda_graph_needs_runtime_calls() -> None:
    assert verdict_in(bare("cpu_naive"), "cuda_graph").status == "not_evaluated"


@pytest.mark.parametrize("name", ["efficient", "flash", "cudnn", "flex"])
def test_fused_attention_says_what_it_fused(name: str) -> None:
    verdict = verdict_in(bare(name), "fused_kernels")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert "QKᵀ, scale, mask, softmax and PV" in verdict.explanation
    assert "1 fused kernel a step" in verdict.explanation


def test_inductor_says_what_it_fused() -> None:
    verdict = verdict_of(recorded("compiled_naive"), "fused_kernels")
    fused = re.search(r"fuses ([\w, ]+)", verdict.explanation)
    assert fused is not None
    assert "_softmax" in fused[1].split(", ")


@pytest.mark.parametrize("name", ["naive", "math"])
def test_composed_attention_is_not_fused(name: str) -> None:
    assert verdict_in(bare(name), "fused_kernels").status == "clear"


def test_what_prepares_or_ends_a_backward_fuses_nothing() -> None:
    traits = "Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, cutlass::bfloat16_t>"
    events = []
    for number, kernel in enumerate(("dot_do_o", "dq_dk_dv_loop_seqk_parallel", "convert_dq"), 1):
        name = f"void pytorch_flash::flash_bwd_{kernel}_kernel<{traits}, false, true>(pytorch_flash::Flash_bwd_params)"
        events += [tb.launch(number, 10 * number, 1), tb.device_item(number, 100 * number, 50, name)]
    verdict = verdict_in(events, "fused_kernels")
    assert "1 fused kernel in the trace, 33.3\u2009% of the device time" in verdict.explanation
    assert [evidence.items for evidence in verdict.evidence] == [(1,)]


def test_fused_kernels_need_device_items() -> None:
    assert verdict_in(bare("cpu_flash"), "fused_kernels").status == "not_evaluated"


# Occupancy.


@pytest.mark.parametrize(("name", "share"), [("flash", "12.5"), ("efficient", "25.0"), ("cudnn", "18.8")])
def test_low_occupancy_is_by_design(name: str, share: str) -> None:
    verdict = verdict_in(bare(name), "low_occupancy")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert f"{share}\u2009%, by design" in verdict.explanation
    assert verdict.evidence[0].items


def test_low_occupancy_without_its_resources_says_so() -> None:
    occupancy = {"est. achieved occupancy %": 12}
    item = tb.device_item(1, 10, 20, "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", **occupancy)
    verdict = verdict_in([tb.launch(1, 5), item], "low_occupancy")
    assert "by design: the trace does not say its registers" in verdict.explanation


def test_pointwise_work_is_not_judged_by_its_occupancy() -> None:
    item = tb.device_item(1, 10, 20, "vectorized_elementwise_kernel<4, MulFunctor>")
    events = [
        tb.launch(1, 5),
        {**item, "args": {**item["args"], "est. achieved occupancy %": 10}},
    ]
    assert verdict_in(events, "low_occupancy").status == "clear"


def test_low_occupancy_needs_its_resources() -> None:
    events = [tb.launch(1, 5), tb.device_item(1, 10, 20, "pytorch_flash::flash_fwd_kernel")]
    assert verdict_in(events, "low_occupancy").status == "not_evaluated"
    assert verdict_in(bare("cpu_flash"), "low_occupancy").status == "not_evaluated"


# In-place under training.

TRAINING = [
    tb.operator("aten::masked_fill_", 10, 5),
    tb.operator("aten::softmax", 20, 5),
    tb.operator(BACKWARD, 40, 30),
    tb.operator("aten::mul_", 45, 5),
    tb.operator("Optimizer.step#SGD.step", 80, 20),
    tb.operator("aten::add_", 85, 5),
]


def test_in_place_of_a_training_forward_is_information() -> None:
    verdict = verdict_in(TRAINING, "in_place_training")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert "1 operator in the trace in place in a training forward: aten::masked_fill_" in verdict.explanation
    assert verdict.evidence[0].operators == (0,)


def test_in_place_of_inference_or_of_the_optimizer_is_clear() -> None:
    assert verdict_in(bare("cpu_naive"), "in_place_training").status == "clear"
    assert verdict_in(TRAINING[1:], "in_place_training").status == "clear"
    out_of_place = [tb.operator("aten::masked_fill", 8, 9), *TRAINING]
    assert verdict_in(out_of_place, "in_place_training").status == "clear"


def test_in_place_training_needs_operators() -> None:
    events = [tb.launch(1, 5), tb.device_item(1, 10, 20)]
    assert "ProfilerActivity.CPU" in verdict_in(events, "in_place_training").explanation


@pytest.mark.parametrize(("within", "severity"), [(True, "info"), (False, "warning")])
def test_in_place_training_is_judged_by_the_gradients(
    sample_recording: SampleRecording, within: bool, severity: str
) -> None:
    recording = sample_recording("naive")
    output = recording.correctness[0]
    gradient: Delta = replace(output, tensor="grad_query", within_budget=within)
    assert recording.workload is not None
    training = replace(
        recording,
        workload=replace(recording.workload, backend="naive_inplace", direction=Direction.FORWARD_BACKWARD),
        correctness=(output, gradient),
        trace_gz=tb.write(TRAINING),
    )
    assert verdict_of(training, "in_place_training").severity == severity


# Dropout.

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t, "
    "Flash_kernel_traits<64, 128, 128, 4, cutlass::half_t> >, {}>"
)


@pytest.mark.parametrize("name", ["aten::native_dropout", "aten::bernoulli_"])
def test_dropout_without_a_backward_fires(name: str) -> None:
    inference = [tb.operator("aten::dropout", 5, 20), tb.operator(name, 6, 10)]
    verdict = verdict_in(inference, "dropout_in_inference")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert verdict.evidence[0].operators == (1,)
    training = verdict_in([*inference, tb.operator(BACKWARD, 40, 30)], "dropout_in_inference")
    assert training.status == "clear"


def test_a_dropout_that_draws_through_another_operator_counts_once() -> None:
    events = [tb.operator("aten::native_dropout", 5, 20), tb.operator("aten::bernoulli_", 6, 10)]
    verdict = verdict_in(events, "dropout_in_inference")
    assert "1 active dropout in the trace (aten::native_dropout)" in verdict.explanation


@pytest.mark.parametrize(("flags", "status"), [("true, false", "fired"), ("false, true", "clear")])
def test_flash_kernel_names_its_dropout(flags: str, status: str) -> None:
    events = [tb.launch(1, 5), tb.device_item(1, 10, 20, FLASH.format(flags))]
    assert verdict_in(events, "dropout_in_inference").status == status


@pytest.mark.parametrize("name", [*H200_TRACES, "cpu_flash", "cpu_naive"])
def test_healthy_traces_draw_no_dropout(name: str) -> None:
    assert verdict_in(bare(name), "dropout_in_inference").status == "clear"


def test_module_in_evaluation_mode_is_clear_and_an_empty_trace_not_evaluated() -> None:
    assert verdict_in([tb.operator("aten::dropout", 5, 20)], "dropout_in_inference").status == "clear"
    assert verdict_in([tb.launch(1, 1)], "dropout_in_inference").status == "not_evaluated"


# All rules together.


def test_facts_reach_every_counted_event_once() -> None:
    trace = read_trace(bare("math"))
    facts = build_facts(trace)
    assert sum(map(len, facts.operators_by_name.values())) == len(trace.operators)
    roots = [operator for operator in trace.operators if operator.parent is None]
    assert [item.index for item in facts.items_under(roots)] == [item.index for item in facts.items]
    assert facts.device_time_ns == sum(item.duration_ns for item in trace.device_items)
    inside = {op.name for op in trace.operators if facts.is_in(op, IN_SDPA)}
    assert {"aten::tril", "aten::_safe_softmax"} <= inside


@given(st.permutations([0, 1, 2, 3]), st.integers(0, 10**9))
def test_verdicts_know_neither_the_order_of_events_nor_the_clock(order: list[int], shift_us: int) -> None:
    events = tb.two_steps()
    quarters = [events[number::4] for number in order]
    moved = [{**event, "ts": event["ts"] + shift_us} for quarter in quarters for event in quarter]
    shifted, plain = analyze_trace(tb.write(moved)).report, analyze_trace(tb.write(events)).report
    assert [(v.rule, v.status, v.severity) for v in shifted.verdicts] == [
        (v.rule, v.status, v.severity) for v in plain.verdicts
    ]


def many_steps(count: int) -> bytes:
    """Steps of nested operators, copies, tiny kernels and gaps: every rule that walks finds something to walk."""
    events: list[Event] = []
    for number in range(count):
        begin = number * 200.0
        events.append(tb.annotation(f"ProfilerStep#{number}", begin, 199))
        events.append(tb.operator("aten::masked_fill", begin + 1, 190))
        for position in range(8):
            start, correlation = begin + 5 + 20 * position, 8 * number + position + 1
            events.append(tb.operator("aten::clone", start, 15))
            events.append(tb.operator("aten::tril", start + 1, 13))
            events.append(tb.launch(correlation, start + 2))
            events.append(tb.device_item(correlation, start + 8, 3, "vectorized_elementwise_kernel<4, MulFunctor>"))
    return tb.write(events)


def test_findings_grow_with_the_trace_and_not_faster() -> None:
    def best_s(count: int) -> float:
        trace = read_trace(many_steps(count))
        report = build_report(Recording(), trace)
        times = []
        for _ in range(3):
            begun = time.process_time()
            evaluate_rules(report, trace)
            times.append(time.process_time() - begun)
        return min(times)

    small, large = best_s(250), best_s(2000)
    # Eight times the events; a quadratic rule would take 64 times as long.
    assert large < 24 * small + 0.02, f"{small:.4f} s for 250 steps, {large:.4f} s for 2,000"


def test_evidence_points_into_the_trace() -> None:
    for name in [*H200_TRACES, "cpu_flash", "cpu_naive"]:
        analysis = analyze_trace(bare(name))
        assert analysis.trace is not None
        for verdict in analysis.report.verdicts:
            for evidence in verdict.evidence:
                assert all(0 <= index < len(analysis.trace.device_items) for index in evidence.items), verdict.rule
                assert all(0 <= index < len(analysis.trace.operators) for index in evidence.operators), verdict.rule


def test_no_two_rules_share_a_title_and_each_text_is_whole() -> None:
    assert len({rule.title for rule in RULES}) == len(RULES)
    for name in H200_TRACES:
        for verdict in analyze_trace(bare(name)).report.verdicts:
            assert verdict.explanation.endswith("."), verdict
            assert not re.search(r"\bNone\b(?! of)|  ", verdict.explanation), verdict
