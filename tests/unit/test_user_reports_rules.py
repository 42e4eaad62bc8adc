"""Faults that users of attention reported publicly, as the rules, advisories and words that answer them here.

Each docstring names the report. What needs a call is in tests/torch_cpu/test_user_reports.py and on a GPU in
tests/gpu/test_gpu_reports.py.
"""

import ast
from dataclasses import replace

import pytest

from attention.backends import BACKENDS, Decision, DeviceFacts
from attention.cost import estimate_memory
from attention.known_faults import find_known_faults
from attention.lookup import find
from attention.masks import mask_of
from attention.validation import check_memory, parse_workload, with_backend
from attention.workload import InvalidWorkload, Workload
from profiling.check_records import UnlockMeasurement
from profiling.commands.summary import render_report
from profiling.export.report_markdown import write_report_markdown
from profiling.recording import CapturedWarning, Recording, Samples
from profiling.refusal import explain_message, parse_reasons
from profiling.report import analyze_recording
from profiling.report_schema import RuleVerdict
from profiling.unlocks import find_unlocks
from tests.conftest import build_sample
from tests.unit.source_tree import MODULES, parse
from ui.panels import backends as backends_panel
from ui.panels import environment as environment_panel
from ui.view import Origin, RunView

H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0), torch_version=(2, 11))
B200 = DeviceFacts(kind="cuda", name="NVIDIA B200", compute_capability=(10, 0), torch_version=(2, 11))
A100 = DeviceFacts(kind="cuda", name="NVIDIA A100", compute_capability=(8, 0), torch_version=(2, 11))
T4 = DeviceFacts(kind="cuda", name="Tesla T4", compute_capability=(7, 5), torch_version=(2, 11))
DECODE = {"seq_len_q": 1, "seq_len_kv": 4096, "mask_alignment": "lower_right"}
# pytorch/pytorch#181528's shape.
SILENT_GQA = {"batch_size": 4, "num_heads": 24, "kv_heads": 12, "seq_len_q": 3081, "seq_len_kv": 3081, "head_dim": 64}


def decide(device: DeviceFacts, backend: str, **fields: object) -> Decision:
    workload = parse_workload(fields | {"backend": backend})
    return find(backend, BACKENDS, field="backend").check(workload, device)


def faults(device: DeviceFacts, **fields: object) -> set[str]:
    return {fault.slug for fault in find_known_faults(parse_workload(fields), device)}


def changes(device: DeviceFacts, backend: str, **fields: object) -> list[str]:
    workload = parse_workload(fields)
    return [unlock.sentence for unlock in find_unlocks(workload, decide(device, backend, **fields), device)]


def verdict(recording: Recording, rule: str) -> RuleVerdict:
    return next(entry for entry in analyze_recording(recording).report.verdicts if entry.rule == rule)


def page_text(recording: Recording) -> str:
    view = RunView(analysis=analyze_recording(recording), origin=Origin(kind="opened", title="r.json"))
    return str(backends_panel.render(view))


def test_nan_in_the_gradient_of_query_is_named_before_the_run() -> None:
    """pytorch/pytorch#196678: cuDNN, a mask tensor, L % 128 = 64, very low scores: grad_query alone is NaN."""
    hard = {"seq_len_q": 704, "seq_len_kv": 704, "mask": "random", "mask_density": 1.0, "direction": "forward_backward"}
    assert faults(H200, **hard) == {"cudnn_mask_gradient_nan"}  # auto picks cuDNN here
    assert faults(H200, **hard, backend="sdpa_efficient") == set()
    assert faults(A100, **hard, backend="sdpa_cudnn") == set()
    causal = {"seq_len_q": 704, "seq_len_kv": 704, "mask": "causal", "direction": "forward_backward"}
    assert faults(H200, **causal) == set()  # is_causal and no mask tensor


@pytest.mark.parametrize("torch_version", [(2, 11), (2, 13)])
def test_corrupted_decoding_on_sm_100_is_named_and_auto_says_that_it_is_cudnn(torch_version: tuple[int, int]) -> None:
    """pytorch/pytorch#193893: B200, fewer than 8 key/value heads, SDPA's own choice is cuDNN."""
    device = replace(B200, torch_version=torch_version)
    fields = {**DECODE, "kv_heads": 4, "batch_size": 1}
    assert decide(device, "sdpa_auto", **fields).selects == "sdpa_cudnn"
    assert faults(device, **fields) == {"cudnn_few_kv_heads"}
    assert faults(device, **fields, backend="sdpa_math") == set()
    assert faults(replace(device, compute_capability=(9, 0)), **fields) == set()


@pytest.mark.parametrize(("length", "expected"), [(65_536, set()), (65_537, {"efficient_many_scores"})])
def test_garbage_in_late_rows_of_the_efficient_kernel_is_named(length: int, expected: set[str]) -> None:
    """pytorch/pytorch#187227 and #162588: a mask tensor and more than 2³² scores a head."""
    fields = {"batch_size": 1, "num_heads": 1, "seq_len_q": length, "seq_len_kv": length, "mask_form": "bool"}
    assert faults(A100, **fields, kv_heads=1) == expected  # auto picks efficient for a mask
    assert faults(A100, **(fields | {"mask_form": "auto"}), kv_heads=1, backend="sdpa_efficient") == set()


def test_versions_stand_beside_the_numbers() -> None:
    """pytorch/pytorch#139298, huggingface/diffusers#9768: the same code, another default backend after an upgrade."""
    recording = build_sample("cudnn")
    markdown = write_report_markdown(analyze_recording(recording)).decode()
    view = RunView(analysis=analyze_recording(recording), origin=Origin(kind="opened", title="r.json"))
    environment = str(environment_panel.render(view))
    for text in (markdown, environment):
        assert all(version in text for version in ("2.11.0+cu130", "13.0", "9.19.0", "580.00"))
    old, new = replace(H200, torch_version=(2, 10)), H200
    assert decide(old, "sdpa_auto").selects == "sdpa_flash"
    assert decide(new, "sdpa_auto").selects == "sdpa_cudnn"


def test_no_reference_is_multi_head_attention() -> None:
    """pytorch/pytorch#190486: the fast path of nn.MultiheadAttention gives NaN where SDPA gives zero."""
    used = {
        f"{module}: {name}"
        for module in MODULES
        for node in ast.walk(parse(module))
        for name in [getattr(node, "attr", getattr(node, "id", ""))]
        if name in {"MultiheadAttention", "multi_head_attention_forward", "TransformerEncoderLayer"}
    }
    assert used == set()


@pytest.mark.parametrize("mask", ["causal", "alibi"])
def test_the_causal_corner_is_asked_for_when_lengths_differ(mask: str) -> None:
    """pytorch/pytorch#108108, #144858: is_causal with one query row sees key 0 alone."""
    with pytest.raises(InvalidWorkload, match=r"upper_left .* or lower_right"):
        parse_workload({"mask": mask, "seq_len_q": 1, "seq_len_kv": 16})
    upper = parse_workload({"mask": mask, "seq_len_q": 1, "seq_len_kv": 16, "mask_alignment": "upper_left"})
    lower = parse_workload({"mask": mask, "seq_len_q": 1, "seq_len_kv": 16, "mask_alignment": "lower_right"})
    assert mask_of(upper).count_allowed(upper) == upper.batch_size * 1
    assert mask_of(lower).count_allowed(lower) == lower.batch_size * 16


def test_a_corner_that_is_causal_cannot_say_is_not_passed_as_is_causal() -> None:
    """Dao-AILab/flash-attention#581, #1778: flash-attn is lower right since 2.1, SDPA's is_causal upper left."""
    fields = {"seq_len_q": 4, "seq_len_kv": 16, "mask_alignment": "lower_right"}
    workload = parse_workload(fields)
    assert mask_of(workload).resolve_form(workload) == "bool"
    with pytest.raises(InvalidWorkload, match="upper_left in SDPA"):
        parse_workload(fields | {"mask_form": "is_causal"})
    longer = parse_workload({"seq_len_q": 16, "seq_len_kv": 4, "mask_alignment": "lower_right"})
    assert mask_of(longer).count_dead_rows(longer) == longer.batch_size * 12  # counted before the run


def test_dropout_is_refused_where_answers_are_judged() -> None:
    """pytorch/pytorch#124464: a functional call applies dropout_p in eval mode too."""
    with pytest.raises(InvalidWorkload, match=r"would make the outputs random; choose 0\.0"):
        Workload(dropout_p=0.1)
    assert parse_workload({}).dropout_p == 0.0


def test_the_silent_math_path_is_predicted_and_both_ways_out_are_offered() -> None:
    """pytorch/pytorch#181528: grouped heads in float32 run on math, three times slower, with no hint."""
    fields = {**SILENT_GQA, "dtype": "float32"}
    assert decide(H200, "sdpa_auto", **fields).selects == "sdpa_math"
    assert "dtype → bfloat16" in changes(H200, "sdpa_flash", **fields)
    assert changes(H200, "sdpa_efficient", **fields) == [
        "layout → expanded_kv (key and value repeated for every query head)"
    ]


def test_the_silent_math_alarm_names_both_ways_out_with_what_they_cost() -> None:
    """pytorch/pytorch#181528: 23.1 ms on math, 7.5 ms with expanded heads, 0.32 ms in bfloat16."""
    expanded = "layout → expanded_kv (key and value repeated for every query head)"
    refusals = (
        Decision(
            backend="sdpa_flash", verdict="rejected", reason="dtype", unlocked_by=("dtype → bfloat16 (tried: runs)",)
        ),
        Decision(
            backend="sdpa_cudnn", verdict="rejected", reason="dtype", unlocked_by=("dtype → bfloat16 (tried: runs)",)
        ),
        Decision(
            backend="sdpa_efficient", verdict="rejected", reason="heads", unlocked_by=(f"{expanded} (tried: runs)",)
        ),
    )
    clock = Samples(samples_ns=(320_000, 320_000), method="CUDA graph replay (test data)")
    measured = UnlockMeasurement(backend="sdpa_flash", change="dtype → bfloat16", device=clock, within_budget=True)
    workload = parse_workload({**SILENT_GQA, "dtype": "float32"})
    recording = replace(build_sample("math"), workload=workload, decisions=refusals, unlock_measurements=(measured,))
    alarm = verdict(recording, "silent_math")
    assert (alarm.status, alarm.severity) == ("fired", "warning")
    assert alarm.advice.count("dtype → bfloat16") == 1
    assert "320\u2009µs" in alarm.advice
    assert "faster than sdpa_auto as asked" in alarm.advice
    assert f"{expanded} (tried: runs) (unlocks sdpa_efficient)" in alarm.advice


WIDE = {"batch_size": 1, "num_heads": 16, "kv_heads": 8, "seq_len_q": 8192, "seq_len_kv": 8192, "head_dim": 512}


def test_the_score_matrix_of_a_silent_math_path_is_counted_before_the_run() -> None:
    """huggingface/transformers#46960: grouped heads and head_dim 512 build the score matrix and run out of memory."""
    workload = parse_workload({**WIDE, "mask": "none"})
    assert decide(H200, "sdpa_auto", **WIDE, mask="none").selects == "sdpa_math"
    on_math = estimate_memory(with_backend(workload, "sdpa_math"))
    assert on_math.score_matrices_bytes >= 16 * 8192 * 8192 * 4
    with pytest.raises(InvalidWorkload, match=r"on sdpa_math \(.*score matrices") as refusal:
        check_memory(workload, 8 * 2**30, H200)
    assert "choose a fused backend" in str(refusal.value)
    expanded = "layout → expanded_kv (key and value repeated for every query head)"
    assert changes(H200, "sdpa_efficient", **WIDE, mask="none") == [expanded]
    fused = replace(workload, layout="expanded_kv", backend="sdpa_efficient")
    assert estimate_memory(fused).score_matrices_bytes == 0
    check_memory(fused, 8 * 2**30, H200)


@pytest.mark.parametrize("backend", ["sdpa_flash", "sdpa_cudnn"])
def test_head_dim_512_is_refused_with_both_sides_and_256_is_not(backend: str) -> None:
    """Dao-AILab/flash-attention#2427, facebookresearch/xformers#1027: one model mixes 256 and 512."""
    refused = decide(H200, backend, head_dim=512)
    assert refused.verdict == "rejected"
    assert "256" in refused.reason
    assert "512" in refused.reason
    assert decide(H200, backend, head_dim=256).verdict == "accepted"
    assert decide(H200, "sdpa_efficient", head_dim=512).verdict == "accepted"


def test_both_forms_of_a_refusal_say_which_reason_is_whose() -> None:
    """pytorch/pytorch#107884, #177317, #184307: many warnings with C++ places, or one message."""
    place = " (Triggered internally at /pytorch/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp:42.)"
    many = [
        f"Memory efficient kernel not used because:{place}",
        f"Memory Efficient attention has been runtime disabled.{place}",
        f"Flash attention kernel not used because:{place}",
        f"Expected query, key and value to be half, got float.{place}",
        "No available kernel. Aborting execution.",
    ]
    one = [
        "No available kernel.\nRejected backends:\n  Flash attention: Expected query, key and value to be half, got "
        "float.\n  Memory efficient attention: Memory Efficient attention has been runtime disabled."
    ]
    expected = {"sdpa_flash": ("Expected query, key and value to be half, got float.",)}
    assert parse_reasons(many) == parse_reasons(one) == expected


NOT_COMPILED = "1Torch was not compiled with flash attention. (Triggered internally at sdp_utils.cpp:455.)"


def test_not_compiled_with_flash_attention_is_answered() -> None:
    """CompVis/stable-diffusion#850, HVision-NKU/StoryDiffusion#26: is it wrong, is it slow?"""
    warning = CapturedWarning(stage="first_call", category="UserWarning", message=NOT_COMPILED)
    recording = replace(build_sample("efficient"), warnings=(warning,))
    analysis = analyze_recording(recording)
    terminal = " ".join(render_report(analysis.report).split())
    markdown = write_report_markdown(analysis).decode()
    for text in (page_text(recording), terminal, markdown):
        assert NOT_COMPILED in text
        assert "Nothing is wrong with the answer" in text
        assert "Here efficient ran in 178" in text  # with the time of the backend that did run
        assert "CUDA graph replay (test data)" in text


def test_a_message_is_answered_without_a_run_and_an_own_word_is_left_alone() -> None:
    report = analyze_recording(replace(build_sample("flash"), trace_gz=None)).report
    answer = explain_message(NOT_COMPILED, report)
    assert answer is not None
    assert "ran in" not in answer
    assert explain_message("some other warning", report) is None
    pinned = "Flash attention has been runtime disabled."
    assert explain_message(pinned, report) is None


@pytest.mark.parametrize(
    "message",
    [
        "FlashAttention only supports Ampere GPUs or newer.",
        "Flash attention only supports gpu architectures in the range [sm80, sm121]. This is a sm 7.5 gpu.",
    ],
)
def test_only_supports_ampere_is_answered_by_capability(message: str) -> None:
    """Dao-AILab/flash-attention#762, #1485: on a Turing GPU, and on an A800 with weights offloaded to the CPU."""
    answer = explain_message(message, analyze_recording(build_sample("math")).report)
    assert answer is not None
    assert "8.0 and newer" in answer
    assert "offloaded" in answer


@pytest.mark.parametrize("name", ["Tesla T4", "Quadro RTX 5000", "NVIDIA A100 by its name"])
def test_the_gate_is_the_compute_capability_and_not_the_name(name: str) -> None:
    """huggingface/transformers#28188: listed by name, a GPU is taken for another."""
    turing = replace(T4, name=name)
    for backend in ("sdpa_flash", "sdpa_cudnn"):
        refused = decide(turing, backend, dtype="float16")
        assert refused.verdict == "rejected"
        assert "8.0" in refused.reason
        assert "7.5" in refused.reason
        assert decide(replace(turing, compute_capability=(8, 6)), backend, dtype="float16").verdict == "accepted"
    assert decide(turing, "sdpa_efficient", dtype="float16").verdict == "accepted"


@pytest.mark.parametrize("slug", ["hub_flash_attn3", "flash_attn4"])
def test_kernels_that_kill_a_worker_of_sm_120_are_refused_before_they_are_loaded(slug: str) -> None:
    """huggingface/skills#186: flash-attn 3 and 4 crash the process on compute capability 12.0."""
    blackwell = DeviceFacts(kind="cuda", name="RTX PRO 6000", compute_capability=(12, 0), torch_version=(2, 11))
    refused = decide(blackwell, slug)
    assert refused.verdict == "rejected"
    assert "12.0" in refused.reason


def test_a_backend_that_was_lost_is_seen_by_kernel_name() -> None:
    """pytorch/pytorch#149725, #155898, #134608: under torch.compile the chosen backend was lost without a word."""
    lost = replace(build_sample("efficient"), workload=parse_workload({"backend": "sdpa_flash"}))
    alarm = verdict(lost, "backend_match")
    assert (alarm.status, alarm.severity) == ("fired", "error")
    assert "efficient (proven)" in alarm.explanation
    assert any("fmha_cutlassF" in evidence.text for evidence in alarm.evidence)
    assert verdict(build_sample("efficient"), "backend_match").status == "clear"


@pytest.mark.parametrize(
    "message",
    [
        "`torch.nn.functional.scaled_dot_product_attention` does not support `output_attentions=True`.",
        "The `output_attentions` attribute is not supported when using the `attn_implementation` set to sdpa.",
    ],
)
def test_why_fused_kernels_cannot_give_weights_is_answered(message: str) -> None:
    """huggingface/transformers#31990, #38750: asking for the weights swaps SDPA for another code path."""
    answer = explain_message(message, analyze_recording(build_sample("flash")).report)
    assert answer is not None
    assert "fused kernels never write" in answer
