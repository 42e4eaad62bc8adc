"""Rules on work that need not be done: masks built anew, float32 upcast, safe softmax, copies of every kind."""

import json
from typing import Any

import pytest

from profiling.findings.copies import SHOWN_SHARE
from profiling.recording import Recording
from profiling.report import analyze_recording, analyze_trace
from profiling.report_schema import RuleVerdict
from tests.conftest import TRACES, SampleRecording
from tests.unit import trace_builder as tb

Event = dict[str, Any]

FUSED_TRACES = ["efficient", "flash", "cudnn", "flex"]
MATH_RULES = ["mask_rebuilt", "float32_upcast", "safe_softmax"]
COPY_RULES = ["hidden_copy", "cast_copies", "layout_copies", "realign_copies"]
GEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4"
TENSOR_CORE_GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


def bare(name: str) -> bytes:
    return (TRACES / f"{name}.json.gz").read_bytes()


def verdict_in(data: bytes, rule: str) -> RuleVerdict:
    return next(verdict for verdict in analyze_trace(data).report.verdicts if verdict.rule == rule)


def step(events: list[Event], length: float = 1000) -> bytes:
    """One step of ``length`` µs around the events."""
    return tb.write([tb.annotation("ProfilerStep#1", 0, length), *events], deviceProperties=[tb.H200])


def work(correlation: int, ts: float, dur: float, *names: str, kernel: str = "some_kernel", **more: Any) -> list[Event]:
    """Operators one inside the other, the outermost first, and a kernel that the innermost launches."""
    operators = [tb.operator(name, ts + depth, 20 - 2 * depth) for depth, name in enumerate(names)]
    start = ts + len(names)
    return [*operators, tb.launch(correlation, start, 1), tb.device_item(correlation, start + 2, dur, kernel, **more)]


@pytest.mark.parametrize("rule", MATH_RULES)
def test_math_trace_fires_with_numbers_items_and_advice(rule: str) -> None:
    analysis = analyze_trace(bare("math"))
    verdict = next(verdict for verdict in analysis.report.verdicts if verdict.rule == rule)
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "a step" in verdict.explanation
    assert verdict.advice
    assert analysis.trace is not None
    shown = [index for evidence in verdict.evidence for index in evidence.items]
    assert shown
    assert max(shown) < len(analysis.trace.device_items)


@pytest.mark.parametrize("rule", [*MATH_RULES, *COPY_RULES])
@pytest.mark.parametrize("name", FUSED_TRACES)
def test_fused_traces_are_clear(name: str, rule: str) -> None:
    assert verdict_in(bare(name), rule).status == "clear"


@pytest.mark.parametrize("rule", [*MATH_RULES, *COPY_RULES])
def test_without_trace_nothing_is_evaluated(rule: str) -> None:
    report = analyze_recording(Recording()).report
    assert next(verdict for verdict in report.verdicts if verdict.rule == rule).status == "not_evaluated"


@pytest.mark.parametrize("rule", ["mask_rebuilt", *COPY_RULES])
def test_a_trace_without_operators_says_how_to_record_them(rule: str) -> None:
    data = step([tb.launch(1, 10), tb.device_item(1, 20, 30)])
    verdict = verdict_in(data, rule)
    if rule == "mask_rebuilt":  # kernels alone show a triangle, or none
        assert verdict.status == "clear"
        assert verdict_in(tb.write([tb.launch(1, 1)]), rule).status == "not_evaluated"
    else:
        assert verdict.status == "not_evaluated"
        assert "ProfilerActivity.CPU" in verdict.explanation


def test_math_rules_count_what_the_trace_holds() -> None:
    data = bare("math")
    mask = verdict_in(data, "mask_rebuilt")
    # ones, tril, two scalars and where: 1183 + 4289 + 672 + 736 + 4096 ns in the first step.
    assert "5 kernels a step, 25.0\u2009% of all items; 11.0\u2009µs a step" in mask.explanation
    assert "396\u2009µs a step more" in mask.explanation
    upcast = verdict_in(data, "float32_upcast")
    assert "2 matrix products a step in float32 on the CUDA cores: 963\u2009µs a step" in upcast.explanation
    assert "5 casts a step" in upcast.explanation
    softmax = verdict_in(data, "safe_softmax")
    assert "4 kernels a step" in softmax.explanation
    assert "664\u2009µs a step, 25.3\u2009% of device time" in softmax.explanation


def test_mask_built_once_for_several_calls_is_information() -> None:
    events = work(1, 0, 5, "aten::tril", kernel="triu_tril_kernel")
    for number in range(2, 5):
        events += work(number, 40 * number, 50, "aten::scaled_dot_product_attention", kernel="pytorch_flash::flash_fwd")
    once = verdict_in(step(events), "mask_rebuilt")
    assert (once.status, once.severity) == ("fired", "info")
    assert "3 attention calls a step" in once.explanation


def test_mask_of_attention_that_no_operator_shows_is_counted_by_steps() -> None:
    verdict = verdict_in(step(work(1, 0, 5, "aten::tril", kernel="triu_tril_kernel")), "mask_rebuilt")
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "1 mask a step built anew: 1 kernel a step" in verdict.explanation


def test_mask_built_outside_the_steps_is_clear() -> None:
    outside = work(1, 2000, 5, "aten::tril", kernel="triu_tril_kernel")
    inside = work(2, 0, 50, "aten::scaled_dot_product_attention")
    assert verdict_in(step([*inside, *outside]), "mask_rebuilt").status == "clear"


def test_replayed_graph_shows_its_triangle_and_guard_by_kernel_alone() -> None:
    data = step(
        [
            tb.launch(1, 10, name="cudaGraphLaunch"),
            tb.device_item(1, 20, 5, "void triu_tril_kernel<bool, int, true>(bool)"),
            tb.device_item(1, 30, 50, "vectorized_elementwise_kernel<4, at::native::isneginf_kernel_impl>"),
        ]
    )
    assert verdict_in(data, "mask_rebuilt").severity == "warning"
    assert verdict_in(data, "safe_softmax").severity == "warning"


def test_copies_inside_a_replayed_graph_have_no_known_cause() -> None:
    data = step(
        [
            *work(1, 0, 50, "CompiledFxGraph"),
            tb.launch(2, 100, name="cudaGraphLaunch"),
            tb.device_item(2, 120, 50, "Memcpy DtoD (Device -> Device)", cat="gpu_memcpy"),
        ]
    )
    for rule in ("hidden_copy", "cast_copies", "layout_copies"):
        verdict = verdict_in(data, rule)
        assert verdict.status == "not_evaluated"
        assert "without the graph" in verdict.explanation


def test_float32_products_by_request_are_clear(sample_recording: SampleRecording) -> None:
    from dataclasses import replace

    from attention.workload import DType

    recording = sample_recording("math")
    assert recording.workload is not None
    asked = replace(recording, workload=replace(recording.workload, dtype=DType.FLOAT32))
    verdict = next(v for v in analyze_recording(asked).report.verdicts if v.rule == "float32_upcast")
    assert verdict.status == "clear"
    assert "float32 was asked for" in verdict.explanation


def test_float32_products_without_a_cast_are_information() -> None:
    verdict = verdict_in(step(work(1, 0, 100, "aten::bmm", kernel=GEMM)), "float32_upcast")
    assert (verdict.status, verdict.severity) == ("fired", "info")
    assert "seem to be float32" in verdict.explanation
    on_tensor_cores = verdict_in(step(work(1, 0, 100, "aten::bmm", kernel=TENSOR_CORE_GEMM)), "float32_upcast")
    assert on_tensor_cores.status == "clear"


def test_float32_upcast_needs_device_items(sample_recording: SampleRecording) -> None:
    verdict = verdict_in(bare("cpu_naive"), "float32_upcast")
    assert verdict.status == "not_evaluated"
    assert "ProfilerActivity.CUDA" in verdict.explanation


COPIES = {
    "hidden_copy": (("aten::masked_fill", "aten::clone", "aten::copy_"), "Memcpy DtoD (Device -> Device)"),
    "cast_copies": (("aten::to", "aten::_to_copy", "aten::copy_"), "bfloat16_copy_kernel_cuda"),
    "layout_copies": (("aten::contiguous", "aten::clone", "aten::copy_"), "direct_copy_kernel_cuda"),
    "realign_copies": (
        ("aten::scaled_dot_product_attention", "aten::pad", "aten::constant_pad_nd", "aten::copy_"),
        "direct_copy_kernel_cuda",
    ),
}


def with_copy(rule: str, copy_us: float, rest_us: float) -> bytes:
    names, kernel = COPIES[rule]
    more: dict[str, Any] = {"cat": "gpu_memcpy", "bytes": 4096} if kernel.startswith("Memcpy") else {}
    attention = work(9, 500, rest_us, "aten::scaled_dot_product_attention", kernel="pytorch_flash::flash_fwd_kernel")
    return step([*work(1, 0, copy_us, *names, kernel=kernel, **more), *attention])


@pytest.mark.parametrize("rule", COPY_RULES)
def test_a_copy_is_judged_by_its_share_and_by_one_rule_alone(rule: str) -> None:
    verdict = verdict_in(with_copy(rule, 20, 80), rule)
    assert (verdict.status, verdict.severity) == ("fired", "warning")
    assert "20.0\u2009% of device time" in verdict.explanation
    assert verdict.evidence[0].items
    assert COPIES[rule][0][-1] in verdict.evidence[0].text
    others = [verdict_in(with_copy(rule, 20, 80), other).status for other in COPY_RULES if other != rule]
    assert others == ["clear"] * 3
    small = verdict_in(with_copy(rule, 0.5, 399.5), rule)
    assert SHOWN_SHARE > 0.5 / 400
    assert small.status == "clear"
    assert "500\u2009ns a step" in small.explanation


@pytest.mark.parametrize("rule", ["cast_copies", "layout_copies", "realign_copies"])
def test_a_copy_of_three_percent_is_information(rule: str) -> None:
    assert verdict_in(with_copy(rule, 3, 97), rule).severity == "info"


def test_a_move_between_host_and_device_is_no_cast() -> None:
    move = work(1, 0, 50, "aten::to", "aten::_to_copy", "aten::copy_", kernel="Memcpy HtoD", cat="gpu_memcpy")
    assert verdict_in(step(move), "cast_copies").status == "clear"


def test_copies_inside_the_math_path_are_layout_copies_and_its_casts_the_upcasts() -> None:
    math = ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_attention_math")
    clone = step(work(1, 0, 50, *math, "aten::clone", "aten::copy_", kernel="direct_copy_kernel_cuda"))
    assert verdict_in(clone, "layout_copies").status == "fired"
    assert verdict_in(clone, "realign_copies").status == "clear"
    cast = step(work(1, 0, 50, *math, "aten::_to_copy", "aten::copy_", kernel="bfloat16_copy_kernel_cuda"))
    assert [verdict_in(cast, rule).status for rule in ("cast_copies", "realign_copies")] == ["clear", "clear"]


def test_a_clone_that_nobody_but_the_caller_asks_for_is_no_layout_copy() -> None:
    for around in ((), ("torch::autograd::AccumulateGrad",)):
        events = work(1, 0, 50, *around, "aten::clone", "aten::copy_", kernel="direct_copy_kernel_cuda")
        assert verdict_in(step(events), "layout_copies").status == "clear"


def test_the_advice_names_the_in_place_form_of_what_ran() -> None:
    events = work(1, 0, 50, "aten::index_put", "aten::clone", kernel="Memcpy DtoD", cat="gpu_memcpy")
    advice = verdict_in(step(events), "hidden_copy").advice
    assert "index_put_" in advice
    assert "masked_fill_" not in advice


def test_sdpa_that_is_not_called_by_its_own_name_is_not_said_to_be_absent() -> None:
    compiled = verdict_in(step(work(1, 0, 50, "aten::_scaled_dot_product_cudnn_attention")), "realign_copies")
    assert "aten::scaled_dot_product_attention was not called" in compiled.explanation


def test_clone_that_autograd_makes_is_not_hidden_in_the_callers_code() -> None:
    engine = "autograd::engine::evaluate_function: MaskedFillBackward0"
    events = work(1, 0, 50, engine, "aten::masked_fill", "aten::clone", kernel="Memcpy DtoD", cat="gpu_memcpy")
    assert verdict_in(step(events), "hidden_copy").status == "clear"


def test_score_matrix_of_a_bare_trace_is_sized_by_the_softmax_launch() -> None:
    naive, math = (verdict_in(bare(name), "score_matrix") for name in ("naive", "math"))
    assert (naive.severity, math.severity) == ("warning", "warning")
    assert "up to 256\u2009MiB a copy in bfloat16" in naive.explanation
    assert "up to 512\u2009MiB a copy in float32" in math.explanation
    assert "131,072 rows of at most 1,024 elements" in math.explanation
    assert all(verdict_in(bare(name), "score_matrix").status == "clear" for name in FUSED_TRACES)


def test_score_matrix_of_a_bare_cpu_trace_needs_recorded_shapes() -> None:
    blind = verdict_in(bare("cpu_naive"), "score_matrix")
    assert blind.status == "not_evaluated"
    assert "record_shapes=True" in blind.explanation
    shape = [2, 16, 2048, 2048]
    events = [
        tb.operator("aten::bmm", 0, 10),
        tb.operator("aten::_softmax", 20, 10, args={"Input Dims": [shape, [], []]}),
        tb.operator("aten::softmax", 19, 15),
        tb.operator("aten::bmm", 40, 10),
    ]
    shaped = verdict_in(json.dumps({"traceEvents": events}).encode(), "score_matrix")
    assert (shaped.status, shaped.severity) == ("fired", "warning")
    assert "at least 256\u2009MiB" in shaped.explanation
    assert shaped.evidence[0].operators


@pytest.mark.parametrize(("grid", "kernel", "size"), [
    ((64, 1, 1), "softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 7, false, false>", "up to 128\u2009KiB"),
    ((64, 1, 1), "softmax_warp_forward<float, float, float, 8, false, false>", "up to 256\u2009KiB"),
    ((64, 1, 1), "cunn_SoftMaxForward<8, float, float, float, SoftMaxForwardEpilogue>", "at least 256\u2009KiB"),
])  # fmt: skip
def test_score_size_by_rows_a_block(grid: tuple[int, int, int], kernel: str, size: str) -> None:
    softmax = work(2, 40, 9, "aten::softmax", "aten::_softmax", kernel=kernel, grid=list(grid), block=[32, 4, 1])
    products = [*work(1, 0, 9, "aten::bmm", kernel=GEMM), *work(3, 80, 9, "aten::bmm", kernel=GEMM)]
    verdict = verdict_in(step([*softmax, *products]), "score_matrix")
    assert verdict.severity == "info"  # below what an allocator could round to
    assert f"{size} a copy" in verdict.explanation
