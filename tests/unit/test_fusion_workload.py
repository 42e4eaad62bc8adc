"""Operations beyond attention without torch: what is accepted, how it reads back, what it costs, what is said of it."""

import pickle
from dataclasses import replace

import gradio as gr
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attention.backends import DeviceFacts
from attention.fusion import OPERATIONS, operation_of
from attention.fusion.backends import FUSION_BACKENDS
from attention.fusion.cost import count_bytes_min, count_flops, estimate_memory, intermediates_bytes
from attention.fusion.workload import FUSION_SIZE_LIMITS, FusionOperation, FusionWorkload
from attention.kinds import kind_of
from attention.validation import (
    WORKLOAD_FIELDS,
    check_memory,
    check_workload,
    complete_fields,
    default_fields,
    flatten_workload,
    parse_workload,
    with_backend,
)
from attention.workload import DType, InvalidWorkload, Workload
from profiling.budget import estimate_gpu_seconds
from profiling.export import EXPORTERS
from profiling.findings import RULES
from profiling.observed import build_observed_backend, expected_families
from profiling.recording import Recording, parse_recording, write_recording
from profiling.report import analyze_recording, build_cost
from profiling.report_schema import parse_report, write_report
from profiling.trace.events import DeviceItem, Operator, Trace
from profiling.workload_flags import write_command
from tests.conftest import CPU_ENVIRONMENT, H200_ENVIRONMENT, build_sample
from ui.panels import PANELS
from ui.presets import PRESETS
from ui.view import Origin, RunView
from ui.workload_form import (
    build_notes,
    control_updates,
    control_values,
    create_controls,
    read_controls,
    show_fields,
    shown_fields,
)

SWIGLU = FusionWorkload(
    operation=FusionOperation.SWIGLU,
    backend="eager",
    tokens=16,
    hidden_size=8,
    intermediate_size=32,
    dtype=DType.FLOAT32,
)
RMS_NORM = FusionWorkload(
    operation=FusionOperation.RESIDUAL_RMS_NORM, backend="compiled", tokens=16, hidden_size=8, dtype=DType.BFLOAT16
)
OPERATION_NAMES = [operation.value for operation in FusionOperation]

workloads = st.builds(
    lambda operation, intermediate, **fields: FusionWorkload(
        operation=operation,
        intermediate_size=intermediate if "intermediate_size" in operation.sizes else None,
        **fields,
    ),
    operation=st.sampled_from(FusionOperation),
    intermediate=st.integers(1, 100_000),
    backend=st.sampled_from([backend.slug for backend in FUSION_BACKENDS]),
    tokens=st.integers(1, 100_000),
    hidden_size=st.integers(1, 30_000),
    dtype=st.sampled_from(DType),
    seed=st.integers(0, 2**63 - 1),
)


# What is accepted


def test_every_operation_has_an_entry_and_a_default_case() -> None:
    assert [operation.slug for operation in OPERATIONS] == OPERATION_NAMES
    for name in OPERATION_NAMES:
        for device in ("cpu", "cuda"):
            workload = parse_workload(complete_fields({"operation": name}, device))
            assert isinstance(workload, FusionWorkload)
            assert (workload.operation, workload.backend) == (name, "eager")
            assert workload.dtype == ("float32" if device == "cpu" else "bfloat16")


def test_attention_stays_what_is_meant_where_no_operation_is_named() -> None:
    assert parse_workload({}) == parse_workload({"operation": "attention"}) == Workload()


@pytest.mark.parametrize("name", FUSION_SIZE_LIMITS)
@pytest.mark.parametrize("value", [0, -1, 10**9, 1.5, "wide", True])
def test_a_wrong_size_names_field_value_and_range(name: str, value: object) -> None:
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({"operation": "swiglu", name: value})
    assert caught.value.field == name
    assert str(caught.value).startswith(f"{name}=")
    assert f"choose 1 to {FUSION_SIZE_LIMITS[name]}" in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"operation": "swiglu", "head_dim": 64}, "head_dim=64 is not a parameter of swiglu; leave it out."),
        ({"operation": "swiglu", "mask": "causal"}, "mask='causal' is not a parameter of swiglu; leave it out."),
        (
            {"operation": "residual_rms_norm", "intermediate_size": 8},
            "intermediate_size=8 is not a parameter of residual_rms_norm; leave it out.",
        ),
        ({"tokens": 8}, "tokens=8 is not a parameter of attention; leave it out."),
        (
            {"operation": "swiglu", "backend": "sdpa_flash"},
            "backend='sdpa_flash' is not a backend of swiglu; choose one of eager, compiled.",
        ),
        (
            {"operation": "swiglu", "backend": "eagre"},
            "backend='eagre' is not known; did you mean eager? choose one of eager, compiled.",
        ),
        (
            {"operation": "swiglu", "direction": "forward_backward"},
            "direction='forward_backward' is not offered for swiglu, which is measured without gradients; "
            "choose forward.",
        ),
    ],
)
def test_what_does_not_belong_is_an_error_with_a_remedy(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload(fields)
    assert str(caught.value) == message


def test_attention_refuses_the_other_backends_and_names_its_own() -> None:
    with pytest.raises(InvalidWorkload, match="backend='eager' is not a backend of attention; choose one of naive, "):
        parse_workload({"backend": "eager"})


def test_an_unknown_operation_names_the_nearest() -> None:
    with pytest.raises(InvalidWorkload, match="operation='swiglo' is not known; did you mean swiglu"):
        parse_workload(complete_fields({"operation": "swiglo"}, "cpu"))


def test_a_size_that_is_missing_or_belongs_to_another_operation_cannot_be_built() -> None:
    with pytest.raises(InvalidWorkload, match="intermediate_size=None is missing, and swiglu needs it"):
        replace(SWIGLU, intermediate_size=None)
    with pytest.raises(InvalidWorkload, match="is not a parameter of residual_rms_norm"):
        replace(RMS_NORM, intermediate_size=4)
    with pytest.raises(InvalidWorkload, match="backend='naive' is not known"):
        check_workload(replace(SWIGLU, backend="naive"))


# How it reads back


@given(workloads)
def test_a_workload_reads_back_from_its_fields(workload: FusionWorkload) -> None:
    fields = flatten_workload(workload)
    assert parse_workload(fields) == workload
    assert parse_workload({name: None if value is None else str(value) for name, value in fields.items()}) == workload
    assert set(fields) == {field.name for field in WORKLOAD_FIELDS if workload.operation in field.operations}


@given(workloads)
def test_a_recording_and_a_report_keep_the_workload(workload: FusionWorkload) -> None:
    recording = Recording(workload=workload)
    assert parse_recording(write_recording(recording)) == recording
    assert pickle.loads(pickle.dumps(recording)) == recording
    report = analyze_recording(recording).report
    assert parse_report(write_report(report)) == report


def test_a_recording_of_attention_stays_one() -> None:
    recording = build_sample("flash")
    assert isinstance(parse_recording(write_recording(recording)).workload, Workload)


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"operation": "swiglu", "backend": "eager", "tokens": "many"}, "workload.tokens is wrong"),
        ({"operation": "gelu", "backend": "eager", "tokens": 1, "hidden_size": 1}, "workload.operation is wrong"),
        (
            {"operation": "swiglu", "backend": "naive", "tokens": 1, "hidden_size": 1, "intermediate_size": 1},
            "backend='naive' is not known",
        ),
        ({"operation": "swiglu", "backend": "eager", "tokens": 0, "hidden_size": 1}, "tokens=0 is out of range"),
    ],
)
def test_a_wrong_workload_in_a_recording_is_refused_by_what_is_wrong(workload: dict[str, object], message: str) -> None:
    import json

    with pytest.raises(ValueError, match=message):
        parse_recording(json.dumps({"format_version": 1, "workload": workload}).encode())


def test_the_written_command_leaves_the_other_operations_fields_out() -> None:
    command = write_command(RMS_NORM, device="cpu")
    assert "--operation residual_rms_norm --backend compiled --tokens 16 --hidden-size 8" in command
    assert "intermediate" not in command
    assert "mask" not in command


# What it costs, by hand


def test_swiglu_costs_three_products_and_four_wide_intermediates() -> None:
    assert count_flops(SWIGLU) == 3 * 2 * 16 * 8 * 32
    # x, three weights and the output, each element once.
    assert count_bytes_min(SWIGLU) == 4 * (16 * 8 + 3 * 8 * 32 + 16 * 8)
    assert intermediates_bytes(SWIGLU) == 4 * 4 * 16 * 32


def test_rms_norm_costs_five_operations_an_element_and_no_product() -> None:
    assert count_flops(RMS_NORM) == 5 * 16 * 8
    assert count_bytes_min(RMS_NORM) == 2 * (3 * 16 * 8 + 8)
    # y and the rows cast back in bfloat16; y raised, its squares and the normalised rows in float32.
    assert intermediates_bytes(RMS_NORM) == 16 * 8 * (2 * 2 + 3 * 4)
    assert intermediates_bytes(replace(RMS_NORM, dtype=DType.FLOAT32)) == 16 * 8 * 3 * 4
    assert intermediates_bytes(replace(RMS_NORM, dtype=DType.FLOAT64)) == 16 * 8 * 3 * 8


@given(workloads, st.sampled_from(["tokens", "hidden_size", "intermediate_size"]))
# Twice the width leaves room for less than half of the rows.
@example(
    FusionWorkload(
        operation=FusionOperation.SWIGLU,
        backend="eager",
        tokens=83,
        hidden_size=1,
        intermediate_size=99_865,
        dtype=DType.FLOAT64,
    ),
    "intermediate_size",
)
def test_more_work_never_costs_less(workload: FusionWorkload, size: str) -> None:
    if size not in workload.operation.sizes:
        return
    doubled = replace(workload, **{size: 2 * getattr(workload, size)})
    assert count_flops(doubled) == 2 * count_flops(workload)
    assert count_bytes_min(doubled) > count_bytes_min(workload)
    assert intermediates_bytes(doubled) >= intermediates_bytes(workload)
    assert estimate_memory(doubled).total_bytes > estimate_memory(workload).total_bytes
    for environment in (None, H200_ENVIRONMENT, CPU_ENVIRONMENT):
        assert estimate_gpu_seconds([doubled], environment) > estimate_gpu_seconds([workload], environment)


@given(workloads)
def test_the_estimate_holds_every_part_of_the_call(workload: FusionWorkload) -> None:
    estimate = estimate_memory(workload)
    assert estimate.inputs_bytes + estimate.output_bytes == count_bytes_min(workload)
    assert estimate.total_bytes >= estimate.inputs_bytes + estimate.call_bytes
    assert estimate.call_bytes >= estimate.output_bytes
    assert estimate.total_bytes <= sum(estimate.parts.values()) + estimate.output_bytes


def test_what_cannot_fit_is_refused_with_the_numbers() -> None:
    facts = DeviceFacts(kind="cuda", name="a small GPU")
    with pytest.raises(InvalidWorkload, match=r"GiB on eager \(inputs .* a small GPU has 0\.00 GiB free; lower tokens"):
        check_memory(SWIGLU, 1000, facts)
    check_memory(SWIGLU, 2**40, facts)


def test_the_report_counts_no_score_matrix() -> None:
    cost = build_cost(SWIGLU)
    assert cost.score_matrix_bytes is None
    assert cost.intermediates_bytes == intermediates_bytes(SWIGLU)
    assert build_cost(Workload()).intermediates_bytes is None


# What is said of it


def operator(index: int, name: str) -> Operator:
    return Operator(index=index, name=name, start_ns=index * 10, duration_ns=5, thread=1)


def kernel(index: int, name: str) -> DeviceItem:
    return DeviceItem(
        index=index, kind="kernel", name=name, start_ns=index * 10, duration_ns=5, device=0, stream=7, correlation=index
    )


SILU_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::silu_kernel("
    "at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#6}>"
)
RSQRT_KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::rsqrt_kernel_cuda(at::TensorIteratorBase&)::"
    "{lambda()#2}::operator()() const::{lambda()#2}>"
)


@pytest.mark.parametrize(
    ("operators", "kernels", "family", "confidence"),
    [
        (["aten::mm", "aten::silu", "aten::mul"], ["nvjet_tst_128x256", SILU_KERNEL], "eager", "proven"),
        (["aten::add", "aten::rsqrt", "aten::mul"], [RSQRT_KERNEL], "eager", "proven"),
        (["aten::mm", "aten::silu", "aten::mul"], [], "eager", "proven"),
        (["aten::mm", "triton_poi_fused_mul_silu_0"], ["nvjet", "triton_poi_fused_mul_silu_0"], "compiled", "proven"),
        (
            ["triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0"],
            ["triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0"],
            "compiled",
            "proven",
        ),
        (["graph_0_cpp_fused_mul_silu_0", "aten::mm"], [], "compiled", "proven"),
        ([], ["triton_per_fused_add_mean_mul_pow_rsqrt_0"], "compiled", "likely"),
        (["aten::silu"], ["triton_poi_fused_mul_silu_0"], "unknown", "unknown"),
        (["aten::mm", "aten::mul"], ["nvjet"], "unknown", "unknown"),
    ],
)
def test_what_ran_is_read_off_the_names(operators: list[str], kernels: list[str], family: str, confidence: str) -> None:
    trace = Trace(
        operators=tuple(operator(index, name) for index, name in enumerate(operators)),
        device_items=tuple(kernel(index, name) for index, name in enumerate(kernels)),
    )
    observed = build_observed_backend(trace)
    assert (observed.family, observed.confidence) == (family, confidence)


def test_attention_in_a_trace_comes_before_the_rest_of_a_model() -> None:
    names = ["aten::_scaled_dot_product_flash_attention", "aten::silu", "aten::rsqrt"]
    trace = Trace(operators=tuple(operator(index, name) for index, name in enumerate(names)))
    assert build_observed_backend(trace).family == "flash"


def test_each_backend_expects_its_own_family() -> None:
    assert expected_families(SWIGLU) == {"eager"}
    assert expected_families(RMS_NORM) == {"compiled"}


def test_compiled_is_judged_by_what_the_device_can_compile() -> None:
    old = DeviceFacts(kind="cuda", compute_capability=(6, 1))
    eager, compiled = (backend.check(SWIGLU, old) for backend in FUSION_BACKENDS)
    assert (eager.verdict, compiled.verdict) == ("accepted", "rejected")
    assert "needs compute capability 7.0 or newer, this is 6.1" in compiled.reason


@pytest.fixture
def view() -> RunView:
    """A CPU run's clocks and deltas around a workload beyond attention, without a trace."""
    sample = replace(build_sample("cpu_naive"), workload=SWIGLU, decisions=(), trace_gz=None)
    return RunView(analysis=analyze_recording(sample), origin=Origin(kind="live"))


def test_rules_about_attention_are_not_evaluated_and_say_why(view: RunView) -> None:
    report = view.analysis.report
    said = {verdict.rule: verdict for verdict in report.verdicts}
    about_attention = [rule.slug for rule in RULES if rule.of_attention]
    assert {"score_matrix", "silent_math", "known_fault"} <= set(about_attention)
    for slug in about_attention:
        assert said[slug].status == "not_evaluated"
        assert "swiglu" in said[slug].explanation


def test_every_panel_and_file_is_made_and_speaks_of_no_score_matrix(view: RunView) -> None:
    words = ("score matrix", "batch_size, heads", "query, key", "may attend to and the softmax")
    for panel in PANELS:
        shown = str(panel.render(view))
        assert not [word for word in words if word in shown], panel.slug
    for exporter in EXPORTERS:
        data = exporter.write(view.analysis)
        if data is not None and exporter.media_type.startswith("text/"):
            text = data.decode()
            assert not [word for word in words if word in text], exporter.slug
    markdown = next(entry for entry in EXPORTERS if entry.slug == "report_markdown").write(view.analysis)
    assert markdown is not None
    assert b"intermediates of the eager form" in markdown


# The form


@pytest.mark.parametrize("operation", ["attention", *OPERATION_NAMES])
def test_the_form_shows_the_chosen_operations_fields_alone(operation: str) -> None:
    fields = default_fields("cuda", operation)
    with gr.Blocks():
        controls = create_controls(fields)
    shown = {name for name, control in controls.by_field.items() if control.visible}
    own = {field.name for field in WORKLOAD_FIELDS if operation in field.operations}
    assert shown == shown_fields(fields)
    assert shown <= own
    assert {name for name in own if not name.startswith("mask_")} <= shown
    backends = [value for _, value in controls.by_field["backend"].choices]
    assert backends == [backend.slug for backend in kind_of(parse_workload(fields)).backends]


def test_another_operation_brings_a_backend_that_it_takes() -> None:
    backend = [field.name for field in WORKLOAD_FIELDS].index("backend")
    update = control_updates(default_fields("cuda", "swiglu"))[backend]
    assert update == gr.update(choices=["eager", "compiled"], value="eager")
    half_filled = default_fields("cuda") | {"operation": "swiglu"}
    assert show_fields(control_values(half_filled))[-1] == gr.update(choices=["eager", "compiled"])


def test_what_hidden_controls_hold_is_no_part_of_the_experiment() -> None:
    attention = dict(zip(default_fields("cuda"), control_values(default_fields("cuda")), strict=True))
    chosen = attention | {"operation": "swiglu", "backend": "compiled", "tokens": 64}
    workload = parse_workload(read_controls(list(chosen.values())))
    assert isinstance(workload, FusionWorkload)
    assert (workload.tokens, workload.backend) == (64, "compiled")


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if "operation" in preset.changes])
def test_a_preset_fills_the_form_with_its_experiment(preset: object) -> None:
    fields = preset.fields()  # type: ignore[attr-defined]
    values = control_values(fields)
    assert parse_workload(read_controls(values)) == parse_workload(fields)
    names = [field.name for field in WORKLOAD_FIELDS]
    update = control_updates(fields)[names.index("backend")]
    assert (update["value"], update["choices"]) == (fields["backend"], ["eager", "compiled"])
    # A hidden number box keeps a number, so that choosing attention again starts from a case that runs.
    attention = read_controls(
        [("attention" if name == "operation" else value) for name, value in zip(names, values, strict=True)]
    )
    assert parse_workload(attention | {"backend": None}) == parse_workload({"dtype": fields["dtype"]})


def test_the_notes_have_chips_and_an_estimate_and_no_picture() -> None:
    notes = build_notes(control_values(default_fields("cuda", "swiglu")), H200_ENVIRONMENT)
    assert notes.workload == with_backend(parse_workload(default_fields("cuda", "swiglu")), "eager")
    assert notes.picture == ""
    assert notes.chips.count("✓") == 2
    assert "of memory, estimated" in notes.estimate


def test_every_operation_names_its_operands_for_the_formula() -> None:
    for workload in (SWIGLU, RMS_NORM):
        operands = operation_of(workload).operands
        assert operation_of(workload).summed in {operand.name for operand in operands}
        assert operands[0].per_token
        assert operands[0].shape(workload) == (16, 8)
