from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from attention.workload import MaskSpec, Workload
from profiling.observed import build_observed_backend, expected_families
from profiling.recording import Recording
from profiling.trace import read_trace
from profiling.trace.events import DeviceItem, Operator, RuntimeCall, Trace
from tests.conftest import TRACES, SampleRecording


def read(name: str) -> Trace:
    return read_trace((TRACES / f"{name}.json.gz").read_bytes(), label="attn_fwd")


def operator(index: int, name: str, parent: int | None = None) -> Operator:
    return Operator(index=index, name=name, start_ns=index * 10, duration_ns=5, thread=1, parent=parent)


def kernel(index: int, name: str) -> DeviceItem:
    return DeviceItem(
        index=index, kind="kernel", name=name, start_ns=index * 10, duration_ns=5, device=0, stream=7, correlation=index
    )


def launch(index: int) -> RuntimeCall:
    return RuntimeCall(
        index=index,
        name="cudaLaunchKernel",
        category="cuda_runtime",
        start_ns=index * 10,
        duration_ns=2,
        thread=1,
        correlation=index,
        launches_work=True,
    )


@pytest.mark.parametrize(
    ("name", "family", "operator_name", "kernel_name"),
    [
        ("naive", "naive", "aten::masked_fill ", "softmax_warp_forward"),
        ("math", "math", "aten::_scaled_dot_product_attention_math", "softmax_warp_forward"),
        ("efficient", "efficient", "aten::_scaled_dot_product_efficient_attention", "fmha_cutlassF_bf16"),
        ("flash", "flash", "aten::_scaled_dot_product_flash_attention", "pytorch_flash::flash_fwd_kernel"),
        ("cudnn", "cudnn", "aten::_scaled_dot_product_cudnn_attention", "cudnn_generated_fort_native_sdpa"),
        ("flex", "flex", "triton_tem_fused_flex_attention_0", "triton_tem_fused_flex_attention_0"),
    ],
)
def test_gpu_trace_proves_its_family_by_operator_and_kernel(
    name: str, family: str, operator_name: str, kernel_name: str
) -> None:
    observed = build_observed_backend(read(name))
    assert (observed.family, observed.confidence) == (family, "proven")
    assert any(text.startswith("operator ") and operator_name in text for text in observed.evidence)
    assert any(text.startswith("kernel ") and kernel_name in text and "3 calls" in text for text in observed.evidence)


@pytest.mark.parametrize(("name", "family"), [("cpu_flash", "flash"), ("cpu_naive", "naive")])
def test_on_a_cpu_the_operator_is_proof(name: str, family: str) -> None:
    observed = build_observed_backend(read(name))
    assert (observed.family, observed.confidence) == (family, "proven")
    assert not any(text.startswith("kernel") for text in observed.evidence)


def test_operator_whose_kernels_were_lost_is_only_likely() -> None:
    trace = Trace(operators=(operator(0, "aten::_scaled_dot_product_flash_attention"),), launches=(launch(0),))
    observed = build_observed_backend(trace)
    assert (observed.family, observed.confidence) == ("flash", "likely")


def test_kernel_without_operators_is_only_likely() -> None:
    trace = replace(read("cudnn"), operators=())
    observed = build_observed_backend(trace)
    assert (observed.family, observed.confidence) == ("cudnn", "likely")


def test_in_place_masking_is_told_from_out_of_place() -> None:
    names = ("aten::bmm", "aten::masked_fill_", "aten::softmax", "aten::_softmax", "aten::bmm")
    observed = build_observed_backend(Trace(operators=tuple(operator(i, name) for i, name in enumerate(names))))
    assert (observed.family, observed.confidence) == ("naive_inplace", "proven")


def test_without_a_mask_the_evidence_says_what_cannot_be_told() -> None:
    names = ("aten::bmm", "aten::softmax", "aten::bmm")
    observed = build_observed_backend(Trace(operators=tuple(operator(i, name) for i, name in enumerate(names))))
    assert observed.family == "naive"
    assert "naive and naive_inplace run the same operators" in observed.evidence[-1]


def test_the_math_path_is_not_taken_for_a_naive_one() -> None:
    operators = (
        operator(0, "aten::scaled_dot_product_attention"),
        operator(1, "aten::_scaled_dot_product_attention_math", 0),
        operator(2, "aten::bmm", 1),
        operator(3, "aten::_safe_softmax", 1),
        operator(4, "aten::bmm", 1),
    )
    assert build_observed_backend(Trace(operators=operators)).family == "math"


def test_several_families_are_unknown_and_named() -> None:
    operators = (
        operator(0, "aten::_scaled_dot_product_flash_attention"),
        operator(1, "aten::_scaled_dot_product_efficient_attention"),
    )
    observed = build_observed_backend(Trace(operators=operators))
    assert (observed.family, observed.confidence) == ("unknown", "unknown")
    assert "flash, efficient" in observed.evidence[0]


def test_operator_and_kernel_of_different_families_are_unknown() -> None:
    trace = Trace(
        operators=(operator(0, "aten::_scaled_dot_product_flash_attention"),),
        device_items=(kernel(0, "cudnn_generated_fort_native_sdpa_sm90"),),
    )
    assert build_observed_backend(trace).confidence == "unknown"


SOFTMAX = "triton_per_fused__softmax_masked_fill_mul_0"


@pytest.mark.parametrize("softmax", [SOFTMAX, "triton_red_fused_mul_prepare_softmax_online_1"])
def test_a_compiled_formula_is_known_by_its_generated_softmax(softmax: str) -> None:
    names = ("Torch-Compiled Region: 0/0", "aten::bmm", softmax, "aten::bmm")
    trace = Trace(
        operators=tuple(operator(i, name) for i, name in enumerate(names)),
        device_items=(kernel(0, "nvjet_tst_128x64"), kernel(1, softmax), kernel(2, "nvjet_tst_64x64")),
    )
    observed = build_observed_backend(trace)
    assert (observed.family, observed.confidence) == ("compiled_naive", "proven")
    assert any(text.startswith(f"operator {softmax}") for text in observed.evidence)


def test_a_generated_kernel_without_a_softmax_proves_nothing() -> None:
    names = ("Torch-Compiled Region: 0/0", "triton_poi_fused_mul_0", "graph_0_cpp_fused_mul_0")
    observed = build_observed_backend(Trace(operators=tuple(operator(i, name) for i, name in enumerate(names))))
    assert observed.family == "unknown"


def test_compiled_code_of_a_cpu_is_named_by_its_operators_alone() -> None:
    names = ("aten::bmm", "graph_0_cpp_fused__softmax_masked_fill_mul_view_0", "aten::bmm")
    observed = build_observed_backend(Trace(operators=tuple(operator(i, name) for i, name in enumerate(names))))
    assert (observed.family, observed.confidence) == ("compiled_naive", "proven")


def test_the_nameless_flex_kernel_of_a_cpu_is_only_likely() -> None:
    observed = build_observed_backend(Trace(operators=(operator(0, "graph_0_kernel"),)))
    assert (observed.family, observed.confidence) == ("flex", "likely")
    assert "no name of its own" in observed.evidence[-1]


def test_eager_flex_is_told_from_naive_by_the_logarithm_it_gives_back() -> None:
    names = ("aten::bmm", "aten::logsumexp", "aten::masked_fill_", "aten::_safe_softmax", "aten::softmax", "aten::bmm")
    observed = build_observed_backend(Trace(operators=tuple(operator(i, name) for i, name in enumerate(names))))
    assert (observed.family, observed.confidence) == ("flex_eager", "proven")


@pytest.mark.parametrize(
    ("kernels", "family"),
    [
        (("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits>",), "flash"),
        (("cudnn_generated_fort_native_sdpa_sm90_flash_fprop",), "cudnn"),
        (("sgemm", "softmax_warp_forward", "isneginf_kernel_impl", "sgemm"), "math"),
        (("nvjet_tst_128x64", SOFTMAX, "nvjet_tst_64x64"), "compiled_naive"),
    ],
)
def test_a_replayed_graph_is_proven_by_its_launch_and_its_kernels(kernels: tuple[str, ...], family: str) -> None:
    trace = Trace(
        launches=(structs.replace(launch(0), name="cudaGraphLaunch"),),
        device_items=tuple(kernel(index, name) for index, name in enumerate(kernels)),
    )
    observed = build_observed_backend(trace)
    assert (observed.family, observed.confidence) == (family, "proven")
    assert "launch cudaGraphLaunch (1 call)" in observed.evidence


def test_a_replayed_softmax_alone_is_no_family() -> None:
    trace = Trace(
        launches=(structs.replace(launch(0), name="cudaGraphLaunch"),),
        device_items=(kernel(0, "softmax_warp_forward"),),
    )
    assert build_observed_backend(trace).family == "unknown"


@given(st.lists(st.sampled_from(["aten::add", "aten::mm", "aten::linear", "aten::softmax"]), max_size=6))
def test_operators_that_are_no_attention_prove_nothing(names: list[str]) -> None:
    observed = build_observed_backend(Trace(operators=tuple(operator(i, name) for i, name in enumerate(names))))
    assert (observed.family, observed.confidence) == ("unknown", "unknown")
    assert observed.evidence


def test_what_ran_outside_the_steps_is_not_counted() -> None:
    trace = read("flash")
    stray = structs.replace(trace.operators[0], name="aten::_scaled_dot_product_efficient_attention", step=None)
    assert build_observed_backend(replace(trace, operators=(stray, *trace.operators[1:]))).family == "flash"


def test_expected_families_of_the_naive_variants_depend_on_the_mask() -> None:
    masked, plain = MaskSpec(name="causal"), MaskSpec(name="none")
    assert expected_families(Workload(backend="naive_inplace", mask=masked)) == {"naive_inplace"}
    assert expected_families(Workload(backend="naive_inplace", mask=plain)) == {"naive", "naive_inplace"}
    assert expected_families(Workload(backend="sdpa_flash", mask=plain)) == {"flash"}
    assert expected_families(Workload(backend="of_a_later_release")) == frozenset()


def test_requested_backend_plays_no_part(sample_recording: SampleRecording) -> None:
    recording: Recording = sample_recording("math")
    assert recording.trace_gz is not None
    assert build_observed_backend(read_trace(recording.trace_gz, label=recording.label)).family == "math"
