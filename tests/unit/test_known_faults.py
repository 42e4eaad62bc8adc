"""Known faults of libraries: whom they concern, and the finding that names them."""

from dataclasses import replace

import pytest

from attention.backends import DeviceFacts
from attention.known_faults import KNOWN_FAULTS, find_known_faults
from attention.validation import parse_workload
from profiling.report import analyze_recording
from profiling.report_schema import RuleVerdict
from tests.conftest import build_sample

H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0), torch_version=(2, 11))
A100 = DeviceFacts(kind="cuda", name="NVIDIA A100", compute_capability=(8, 0), torch_version=(2, 11))
B200 = DeviceFacts(kind="cuda", name="NVIDIA B200", compute_capability=(10, 0), torch_version=(2, 11))
CPU = DeviceFacts(kind="cpu", torch_version=(2, 14))


def find(device: DeviceFacts, **fields: object) -> set[str]:
    return {fault.slug for fault in find_known_faults(parse_workload(fields), device)}


def verdict(mask_form: str, backend: str = "sdpa_cudnn") -> RuleVerdict:
    workload = parse_workload({"backend": backend, "mask_form": mask_form})
    report = analyze_recording(replace(build_sample("cudnn"), workload=workload)).report
    return next(verdict for verdict in report.verdicts if verdict.rule == "known_fault")


@pytest.mark.parametrize(
    ("device", "fields", "faults"),
    [
        (H200, {}, set()),
        (H200, {"mask_form": "additive_float32"}, {"cudnn_float32_mask"}),
        (H200, {"mask_form": "additive_float32", "backend": "sdpa_math"}, set()),
        (H200, {"mask_form": "additive_float32", "dtype": "float32"}, set()),
        (H200, {"mask_form": "additive"}, set()),
        (A100, {"mask_form": "additive_float32", "backend": "sdpa_cudnn"}, {"cudnn_float32_mask"}),
        (
            H200,
            {"mask": "dead_rows", "mask_count": 3, "direction": "forward_backward"},
            {"cudnn_dead_row_gradients", "cudnn_dead_row_outputs"},
        ),
        (H200, {"mask": "dead_rows", "mask_count": 3}, {"cudnn_dead_row_outputs"}),
        (H200, {"mask": "dead_rows", "mask_count": 3, "backend": "sdpa_efficient"}, set()),
        (
            H200,
            {"mask_form": "bool", "seq_len_q": 704, "seq_len_kv": 704, "direction": "forward_backward"},
            {"cudnn_mask_gradient_nan"},
        ),
        (
            H200,
            {"backend": "flash_attn4", "head_dim": 72, "direction": "forward_backward"},
            {"flash_attn4_gradients"},
        ),
        (H200, {"backend": "flash_attn4", "head_dim": 80, "direction": "forward_backward"}, set()),
        (H200, {"backend": "flash_attn4", "head_dim": 72}, set()),
        (B200, {"kv_heads": 4}, {"cudnn_few_kv_heads"}),
        (B200, {"kv_heads": 8}, set()),
        (
            A100,
            {"backend": "sdpa_efficient", "mask_form": "bool", "seq_len_q": 65_537, "seq_len_kv": 65_537},
            {"efficient_many_scores"},
        ),
        (CPU, {"dtype": "float64", "mask_form": "additive_float32"}, {"cpu_flash_float32_mask"}),
        (CPU, {"dtype": "float32", "mask_form": "additive_float32"}, set()),
        (
            CPU,
            {"backend": "naive_inplace", "mask": "dead_rows", "mask_count": 3, "direction": "forward_backward"},
            {"naive_dead_row_gradients"},
        ),
    ],
    ids=str,
)
def test_whom_a_fault_concerns(device: DeviceFacts, fields: dict[str, object], faults: set[str]) -> None:
    assert find(device, **fields) == faults


def test_every_fault_names_where_it_was_seen_and_what_to_do() -> None:
    assert len({fault.slug for fault in KNOWN_FAULTS}) == len(KNOWN_FAULTS)
    assert all(fault.seen and fault.advice.endswith(".") for fault in KNOWN_FAULTS)


def test_the_finding_fires_and_says_what_this_run_did() -> None:
    fired = verdict("additive_float32")
    assert (fired.status, fired.severity) == ("fired", "warning")
    assert "float32 mask" in fired.explanation
    assert "This run did not meet it." in fired.explanation
    assert "H200" in fired.evidence[0].text


def test_the_finding_is_clear_elsewhere() -> None:
    assert verdict("auto").status == "clear"


def test_the_finding_needs_a_workload() -> None:
    report = analyze_recording(replace(build_sample("cudnn"), workload=None)).report
    assert next(verdict for verdict in report.verdicts if verdict.rule == "known_fault").status == "not_evaluated"
