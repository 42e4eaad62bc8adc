"""flash-attn 2, 3 and 4 by rule: what each takes, on any machine, with no package, no network and no torch."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import BACKENDS, Backend, Decision, DeviceFacts
from attention.backends.flash_attn4 import FLASH_ATTN4, VERSION
from attention.backends.flash_attn_rules import translate_mask
from attention.backends.hub import FLASH_ATTN2, FLASH_ATTN3, HUB_FLASH_ATTN2, HUB_FLASH_ATTN3, explain_load_error
from attention.kernel_source import KernelSource, read_packages
from attention.masks import mask_of
from attention.validation import default_fields, parse_workload
from attention.workload import Workload
from profiling.budget import estimate_gpu_seconds
from profiling.eligibility import refuse_by_rule
from profiling.export.report_markdown import write_report_markdown
from profiling.failures import RefusedByRule, build_refusal
from profiling.machine import describe_kernel_source
from profiling.observed import build_observed_backend
from profiling.recording import Environment, Recording, parse_recording, write_recording
from profiling.report import analyze_recording
from profiling.report_schema import parse_report, write_report
from profiling.trace.events import DeviceItem, Operator, Trace
from profiling.trace.kernel_names import read_kernel_name
from profiling.unlocks import NONE_KNOWN, describe_unlocks, find_unlocks
from tests.conftest import H200_FACTS, SampleRecording
from tests.unit.source_tree import ROOT
from ui.panels.environment import render
from ui.view import Origin, RunView

THREE = (HUB_FLASH_ATTN2, HUB_FLASH_ATTN3, FLASH_ATTN4)
H200 = replace(H200_FACTS, packages=(("kernels", "0.17.2"), ("flash-attn-4", VERSION)))


def build(backend: Backend, **fields: Any) -> Workload:
    small = {"batch_size": 2, "num_heads": 4, "kv_heads": 4, "seq_len_q": 64, "seq_len_kv": 64, "mask": "none"}
    return parse_workload(default_fields("cuda") | small | fields | {"backend": backend.slug})


def check(backend: Backend, facts: DeviceFacts = H200, **fields: Any) -> Decision:
    return backend.check(build(backend, **fields), facts)


@pytest.mark.parametrize("backend", THREE, ids=lambda backend: backend.slug)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mask": "causal"},
        {"mask": "causal", "mask_form": "is_causal"},
        {"mask": "causal", "mask_alignment": "lower_right", "seq_len_q": 1},
        {"mask": "causal", "mask_alignment": "lower_right", "seq_len_q": 200},  # rows without a key give zeros
        {"mask": "sliding_window", "mask_window": 7},
        {"mask": "sliding_window", "mask_window": 7, "mask_alignment": "lower_right", "seq_len_kv": 96},
        {"kv_heads": 1, "direction": "forward_backward", "mask": "causal"},
        {"kv_heads": 2, "layout": "transposed"},
        {"dtype": "float16", "head_dim": 256},
        {"scale": 0.5},
    ],
    ids=str,
)
def test_what_all_three_take(backend: Backend, fields: dict[str, Any]) -> None:
    decision = check(backend, **fields)
    assert decision.verdict == "accepted", decision.reason


@pytest.mark.parametrize("backend", THREE, ids=lambda backend: backend.slug)
@pytest.mark.parametrize(
    ("fields", "both_sides"),
    [
        ({"dtype": "float32"}, ("float16 or bfloat16", "float32")),
        ({"dtype": "float64"}, ("float16 or bfloat16", "float64")),
        ({"head_dim": 264}, ("256", "264")),
        ({"mask": "document", "mask_lengths": "32,32"}, ("none, causal and sliding_window", "document")),
        ({"mask": "alibi"}, ("none, causal and sliding_window", "alibi")),
        ({"mask": "causal", "mask_form": "bool"}, ("no mask tensor", "bool")),
        ({"mask": "causal", "mask_form": "additive_float32"}, ("no mask tensor", "additive_float32")),
        (
            {"mask": "causal", "mask_alignment": "upper_left", "seq_len_kv": 96},
            ("lower_right", "upper_left with seq_len_q 64 and seq_len_kv 96"),
        ),
        (
            {"mask": "sliding_window", "mask_window": 3, "mask_alignment": "upper_left", "seq_len_q": 9},
            ("lower_right", "upper_left with seq_len_q 9 and seq_len_kv 64"),
        ),
        ({"batch_size": 65_536}, ("65535", "65536")),
    ],
    ids=str,
)
def test_what_none_of_them_takes(backend: Backend, fields: dict[str, Any], both_sides: tuple[str, str]) -> None:
    decision = check(backend, **fields)
    assert decision.verdict == "rejected"
    assert not decision.remedy
    for side in both_sides:
        assert side in decision.reason


CAPABILITIES = [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1), (13, 0)]


@pytest.mark.parametrize(
    ("backend", "taken"),
    [
        (HUB_FLASH_ATTN2, {(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)}),
        (HUB_FLASH_ATTN3, {(9, 0)}),
        (FLASH_ATTN4, {(9, 0), (10, 0), (10, 3), (11, 0)}),
    ],
    ids=lambda value: getattr(value, "slug", ""),
)
def test_capability_decides_before_anything_is_loaded(backend: Backend, taken: set[tuple[int, int]]) -> None:
    accepted = {
        capability
        for capability in CAPABILITIES
        if check(backend, replace(H200, compute_capability=capability)).verdict == "accepted"
    }
    assert accepted == taken
    refused = check(backend, replace(H200, compute_capability=(7, 5)))
    assert "this is 7.5" in refused.reason
    # The kernel may end the process where it does not fit, so that an unknown device is no yes.
    assert "not known" in check(backend, replace(H200, compute_capability=None)).reason
    assert "needs a CUDA device, this is cpu" in check(backend, DeviceFacts(kind="cpu")).reason
    with pytest.raises(RefusedByRule, match=r"7\.5"):
        refuse_by_rule(backend, refused)


@pytest.mark.parametrize(
    ("backend", "fields", "verdict"),
    [
        # flash-attn 2 pads what is no multiple of 8, and knows one size.
        (HUB_FLASH_ATTN2, {"head_dim": 63}, "accepted"),
        (HUB_FLASH_ATTN2, {"head_dim": 192, "head_dim_v": 128}, "rejected"),
        (HUB_FLASH_ATTN3, {"head_dim": 63}, "rejected"),
        (HUB_FLASH_ATTN3, {"head_dim": 192, "head_dim_v": 128}, "accepted"),
        (HUB_FLASH_ATTN3, {"head_dim": 64, "head_dim_v": 256}, "accepted"),
        (HUB_FLASH_ATTN3, {"head_dim": 128, "head_dim_v": 64}, "rejected"),
        (FLASH_ATTN4, {"head_dim": 63}, "rejected"),
        (FLASH_ATTN4, {"head_dim": 128, "head_dim_v": 64}, "accepted"),
        (FLASH_ATTN4, {"head_dim": 128, "head_dim_v": 60}, "rejected"),
    ],
    ids=str,
)
def test_head_dims(backend: Backend, fields: dict[str, Any], verdict: str) -> None:
    assert check(backend, **fields).verdict == verdict


@pytest.mark.parametrize(
    ("capability", "fields", "verdict"),
    [
        ((10, 0), {"head_dim": 192, "head_dim_v": 128}, "accepted"),
        ((10, 0), {"head_dim": 256}, "accepted"),
        ((10, 0), {"head_dim": 192}, "rejected"),
        ((9, 0), {"head_dim": 192}, "accepted"),
        # Every multiple of 8 was compiled: without a mask these two and no others fail.
        ((9, 0), {"head_dim": 104, "direction": "forward_backward"}, "rejected"),
        ((9, 0), {"head_dim": 112, "direction": "forward_backward"}, "rejected"),
        ((9, 0), {"head_dim": 112, "direction": "forward_backward", "mask": "causal"}, "accepted"),
        ((9, 0), {"head_dim": 120, "direction": "forward_backward"}, "accepted"),
        ((9, 0), {"head_dim": 112}, "accepted"),
        ((10, 0), {"head_dim": 112, "direction": "forward_backward"}, "accepted"),
        ((9, 0), {"head_dim": 64, "head_dim_v": 128}, "rejected"),
        ((10, 0), {"head_dim": 64, "head_dim_v": 128}, "accepted"),
        ((9, 0), {"head_dim": 128, "head_dim_v": 64, "direction": "forward_backward"}, "accepted"),
        ((9, 0), {"head_dim": 224, "head_dim_v": 160, "direction": "forward_backward"}, "rejected"),
        ((9, 0), {"head_dim": 224, "head_dim_v": 160}, "accepted"),
        ((9, 0), {"head_dim": 192, "head_dim_v": 160, "direction": "forward_backward"}, "accepted"),
        ((9, 0), {"head_dim": 224, "head_dim_v": 128, "direction": "forward_backward"}, "accepted"),
        ((9, 0), {"head_dim": 128, "head_dim_v": 64, "direction": "forward_backward", "kv_heads": 2}, "rejected"),
        ((9, 0), {"head_dim": 128, "head_dim_v": 96, "direction": "forward_backward"}, "rejected"),
        ((9, 0), {"head_dim": 128, "head_dim_v": 96}, "accepted"),
        ((9, 0), {"head_dim": 96, "head_dim_v": 64, "direction": "forward_backward"}, "accepted"),
        ((9, 0), {"head_dim": 72, "head_dim_v": 8, "direction": "forward_backward"}, "accepted"),
        ((9, 0), {"head_dim": 192, "head_dim_v": 128, "direction": "forward_backward"}, "accepted"),
    ],
    ids=str,
)
def test_flash_attn4_head_dims_by_generation(capability: tuple[int, int], fields: dict[str, Any], verdict: str) -> None:
    decision = check(FLASH_ATTN4, replace(H200, compute_capability=capability), **fields)
    assert decision.verdict == verdict, decision.reason


@pytest.mark.parametrize(
    ("backend", "version", "verdict"),
    [
        (HUB_FLASH_ATTN2, (2, 9), "rejected"),
        (HUB_FLASH_ATTN2, (2, 14), "accepted"),
        (HUB_FLASH_ATTN3, (2, 8), "rejected"),
        (HUB_FLASH_ATTN3, (2, 9), "accepted"),
    ],
)
def test_builds_need_a_torch(backend: Backend, version: tuple[int, int], verdict: str) -> None:
    assert check(backend, replace(H200, torch_version=version)).verdict == verdict


lengths = st.integers(1, 24)


@given(lengths, lengths, st.integers(1, 30), st.sampled_from(["none", "causal", "sliding_window"]), st.booleans())
def test_the_flags_say_the_mask(rows: int, keys: int, window: int, mask: str, from_lower_right: bool) -> None:
    """flash-attn's own words, cell by cell: keys from i + keys - rows - left to i + keys - rows + right, inclusive."""
    fields: dict[str, Any] = {"mask": mask, "seq_len_q": rows, "seq_len_kv": keys}
    if mask != "none":
        fields["mask_alignment"] = "lower_right" if from_lower_right else "upper_left"
    if mask == "sliding_window":
        fields["mask_window"] = window
    workload = build(HUB_FLASH_ATTN2, **fields)
    if HUB_FLASH_ATTN2.check(workload, H200).verdict == "rejected":
        assert mask != "none"
        assert not from_lower_right
        assert rows != keys
        return
    flags, mask_mod = translate_mask(workload), mask_of(workload).build_mod(workload)
    for row in range(rows):
        for key in range(keys):
            diagonal = row + keys - rows
            said = key <= diagonal if flags.causal or flags.window_left is not None else True
            if flags.window_left is not None:
                said = said and key >= diagonal - flags.window_left
            assert said == (True if mask_mod is None else bool(mask_mod(0, 0, row, key))), (row, key)


@pytest.mark.parametrize(
    ("backend", "packages", "words"),
    [
        (HUB_FLASH_ATTN2, (), "package kernels, which is not installed"),
        (HUB_FLASH_ATTN3, (("flash-attn-4", VERSION),), "package kernels, which is not installed"),
        (FLASH_ATTN4, (("kernels", "0.17.2"),), "which is not installed"),
        (FLASH_ATTN4, (("flash-attn-4", "4.0.0b1"),), "4.0.0b1 is installed"),
    ],
)
def test_a_missing_package_is_no_fault_of_the_workload(
    backend: Backend, packages: tuple[tuple[str, str], ...], words: str
) -> None:
    facts = replace(H200, packages=packages)
    decision = check(backend, facts)
    assert decision.verdict == "rejected"
    assert words in decision.reason
    assert "pip install" in decision.remedy
    failure = build_refusal(decision)
    assert (failure.kind, failure.hint) == ("unavailable", decision.remedy)
    # No change to the workload would help, and the remedy stands where those would.
    assert find_unlocks(build(backend), decision, facts) == ()
    assert describe_unlocks(decision) == decision.remedy != NONE_KNOWN
    # What the workload lacks is told first, and is a refusal.
    both = check(backend, facts, dtype="float32")
    assert "float32" in both.reason
    assert build_refusal(both).kind == "refused"


@pytest.mark.parametrize("backend", THREE, ids=lambda backend: backend.slug)
def test_packages_that_are_not_known_are_not_judged(backend: Backend) -> None:
    assert check(backend, replace(H200, packages=None)).verdict == "accepted"
    assert not backend.is_probed  # a trial would download, or compile


@pytest.mark.parametrize("kernel", [FLASH_ATTN2, FLASH_ATTN3], ids=lambda kernel: kernel.slug)
def test_a_repository_is_pinned_to_a_commit(kernel: Any) -> None:
    assert kernel.repository.startswith("kernels-community/")
    assert len(kernel.revision) == 40
    assert set(kernel.revision) <= set("0123456789abcdef")


class ConnectError(Exception):
    """Of the Hub's client, by its module's name."""

    __module__ = "httpx2"


def unreachable() -> Exception:
    try:
        try:
            raise ConnectError("Name or service not known")
        except ConnectError:
            raise ValueError("Kernel repository 'x' could not verify publisher trust status.")  # noqa: B904  as kernels does
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (FileNotFoundError("Cannot find a build variant for this system in x:\n\n…"), "there is no build of", "torch"),
        (unreachable(), "the Hugging Face Hub did not answer", "connection"),
        (ConnectionError("refused"), "the Hugging Face Hub did not answer", "connection"),
        (ImportError("undefined symbol: _ZN3c10"), "did not load here", "sdpa_flash"),
        (ValueError("Kernel repository 'x' is not from a trusted publisher."), "did not load here", "sdpa_flash"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_what_the_loader_raises_in_our_words(error: Exception, reason: str, remedy: str) -> None:
    refusal = explain_load_error(FLASH_ATTN2, error)
    assert reason in refusal.reason
    assert remedy in refusal.remedy
    assert str(error) in refusal.said
    assert FLASH_ATTN2.revision[:12] in refusal.reason


def test_off_the_hub_on_purpose_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    refusal = explain_load_error(FLASH_ATTN3, FileNotFoundError("Cannot find a local snapshot for x"))
    assert "HF_HUB_OFFLINE" in refusal.reason
    assert "HF_HUB_OFFLINE" in refusal.remedy


def test_rules_import_no_package() -> None:
    script = (
        "import sys; from attention.backends import BACKENDS, DeviceFacts; from attention.workload import Workload;"
        "facts = DeviceFacts(kind='cuda', compute_capability=(9, 0));"
        "[backend.check(Workload(backend=backend.slug), facts) for backend in BACKENDS if backend.read_source];"
        "print(sorted({'kernels', 'huggingface_hub', 'flash_attn', 'cutlass', 'torch'} & set(sys.modules)))"
    )
    probe = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert probe.stdout.strip() == "[]"
    assert sum(backend.read_source is not None for backend in BACKENDS) == len(THREE)


def test_a_first_call_has_its_own_allowance() -> None:
    machine = Environment(device="cuda", device_name="NVIDIA H200", compute_capability=(9, 0))
    known = Workload(backend="sdpa_cudnn")
    for backend in THREE:
        more = estimate_gpu_seconds([replace(known, backend=backend.slug)], machine)
        assert more > estimate_gpu_seconds([known], machine) + 3.3


def test_versions_are_read_without_an_import() -> None:
    found = read_packages(("pytest", "no-such-package-anywhere"))
    assert found["pytest"] == pytest.__version__
    assert found["no-such-package-anywhere"] is None


SOURCE = KernelSource(
    package="kernels",
    package_version="0.17.2",
    origin="hub",
    repository=FLASH_ATTN2.repository,
    revision=FLASH_ATTN2.revision,
    variant="torch-stable-abi210-cu130-x86_64-linux",
    kernel_id="_flash_attn2_cuda_81fb77c",
)


def with_source(recording: Recording, source: KernelSource | None) -> Recording:
    assert recording.environment is not None
    packages = {"kernels": "0.17.2", "flash-attn-4": None}
    environment = replace(recording.environment, packages=packages)
    return replace(recording, environment=environment, kernel_source=source)


def test_the_source_is_in_every_form_of_the_result(sample_recording: SampleRecording) -> None:
    recording = with_source(sample_recording("flash"), SOURCE)
    assert parse_recording(write_recording(recording)) == recording
    analysis = analyze_recording(recording)
    assert analysis.report.kernel_source == SOURCE
    assert parse_report(write_report(analysis.report)).kernel_source == SOURCE
    page = str(render(RunView(analysis=analysis, origin=Origin(kind="live"))))
    text = write_report_markdown(analysis).decode()
    for shown in (page, text):
        for value in (SOURCE.repository, SOURCE.revision, SOURCE.variant, SOURCE.kernel_id, "kernels 0.17.2"):
            assert value is not None
            assert value in shown
        assert "not installed" in shown


def test_a_part_of_torch_has_no_source(sample_recording: SampleRecording) -> None:
    analysis = analyze_recording(with_source(sample_recording("flash"), None))
    assert "Where the kernel came from" not in str(render(RunView(analysis=analysis, origin=Origin(kind="live"))))
    assert "Where the kernel came from" not in write_report_markdown(analysis).decode()


def test_a_folder_in_the_place_of_a_commit_is_told() -> None:
    facts = dict(describe_kernel_source(replace(SOURCE, origin="folder", revision=None)))
    assert "revision" not in facts
    assert "no commit pins it" in facts["loaded from"]


def test_backward_kernels_of_version_4_are_not_taken_for_those_of_2() -> None:
    name = "kernel_cutlass_kernel_flash_attncuteflash_bwd_sm90FlashAttentionBackwardSm90_object_at__tensor0000o_0"
    assert read_kernel_name(name, "kernel", None).family == "flash attention 4"
    name = "kernel_cutlass_kernel_flash_attncuteflash_bwd_preprocessFlashAttentionBackwardPreprocess_object_at__0"
    assert read_kernel_name(name, "kernel", None).family == "flash attention 4"
    assert (
        read_kernel_name("void pytorch_flash::flash_bwd_dq_dk_dv_loop_kernel<x>", "kernel", None).family
        == "flash attention"
    )


def seen(operators: tuple[str, ...], kernel: str) -> tuple[str, str]:
    trace = Trace(
        operators=tuple(
            Operator(index=index, name=name, start_ns=index * 10, duration_ns=5, thread=1, parent=None)
            for index, name in enumerate(operators)
        ),
        device_items=(
            DeviceItem(
                index=0, kind="kernel", name=kernel, start_ns=5, duration_ns=5, device=0, stream=7, correlation=1
            ),
        ),
    )
    observed = build_observed_backend(trace)
    return observed.family, observed.confidence


FA2 = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>"
FA3 = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwd>>>"
FA4 = "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm90FlashAttentionForwardSm90_object_at__tensor0000o11101213_0"
BUNDLED = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::half_t>>"
)


@pytest.mark.parametrize(
    ("operators", "kernel", "family", "confidence"),
    [
        (("FlashAttnFunc", "_flash_attn2_cuda_81fb77c::_flash_attn_forward"), FA2, "flash_attn2", "proven"),
        (("FlashAttnFunc", "_flash_attn2_cuda_81fb77c::fwd"), FA2, "flash_attn2", "proven"),
        (("flash_attn::_flash_attn_forward",), FA2, "flash_attn2", "proven"),  # the package
        (("FlashAttnFunc", "_flash_attn3_cuda_8a730d9::fwd"), FA3, "flash_attn3", "proven"),
        (("flash_attn_3::fwd",), FA3, "flash_attn3", "proven"),  # the package
        (("FlashAttnFunc",), FA4, "flash_attn4", "proven"),
        (("aten::empty",), FA4, "flash_attn4", "likely"),
        (("aten::_flash_attention_forward",), BUNDLED, "flash", "proven"),
        # The function alone belongs to any version.
        (("FlashAttnFunc",), "some_other_kernel", "unknown", "unknown"),
        (("_flash_attn2_cuda_81fb77c::fwd",), FA3, "unknown", "unknown"),
        (("aten::_flash_attention_forward",), FA2, "unknown", "unknown"),
    ],
)
def test_versions_are_told_apart_in_a_trace(
    operators: tuple[str, ...], kernel: str, family: str, confidence: str
) -> None:
    assert seen(operators, kernel) == (family, confidence)
