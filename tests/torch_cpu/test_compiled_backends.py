"""The compiled backends on a CPU: right answers, one compilation a run, and what the report says of it."""

import contextlib
import io
import runpy
import shutil
import sys

import pytest

from attention.backends import BACKENDS
from attention.backends.compiled import fresh_compiler
from attention.call import build_call
from attention.inputs import build_inputs
from attention.lookup import find
from attention.validation import parse_workload
from profiling.correctness import check_results
from profiling.export.replay_script import EXPORTER
from profiling.recorder import record
from profiling.recording import Recording, RunRequest, parse_recording, write_recording
from profiling.report import analyze_recording

BASE = {
    "batch_size": 2,
    "num_heads": 4,
    "kv_heads": 4,
    "seq_len_q": 80,
    "seq_len_kv": 80,
    "head_dim": 16,
    "dtype": "float32",
}
CAUSAL, NONE, GROUPED = {"mask": "causal"}, {"mask": "none"}, {"mask": "causal", "kv_heads": 2}
WINDOW = {"mask": "sliding_window", "mask_window": 9}
LATE_ALIBI = {"mask": "alibi", "seq_len_q": 7, "mask_alignment": "lower_right"}

pytestmark = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("g++", "clang++", "c++")),
    reason="Inductor needs a C++ compiler, and this machine has none",
)


def build(backend, **fields):
    return parse_workload(BASE | fields | {"backend": backend})


def run(*workloads):
    items = record(RunRequest(workloads=workloads, device="cpu"))
    return [item for item in items if isinstance(item, Recording)]


@pytest.fixture(scope="module")
def recordings():
    """One whole run of each backend that compiles on a CPU, in one entry."""
    slugs = ("flex", "flex_eager", "compiled_naive", "compiled_sdpa")
    return dict(zip(slugs, run(*(build(slug, **CAUSAL) for slug in slugs)), strict=True))


@pytest.mark.parametrize(
    ("backend", "fields"),
    [
        ("flex", NONE),
        ("flex", WINDOW | {"kv_heads": 2}),
        ("flex", LATE_ALIBI | {"dtype": "bfloat16"}),
        ("flex_eager", NONE),
        ("flex_eager", WINDOW),
        ("flex_eager", GROUPED),
        ("flex_eager", CAUSAL | {"dtype": "float64"}),
        ("flex_eager", {"mask": "alibi", "dtype": "bfloat16"}),
        ("compiled_naive", NONE),
        ("compiled_naive", WINDOW),
        ("compiled_naive", GROUPED | {"dtype": "bfloat16"}),
        ("compiled_naive", GROUPED | {"direction": "forward_backward"}),
        ("compiled_sdpa", NONE),
        ("compiled_sdpa", WINDOW),
        ("compiled_sdpa", GROUPED),
        ("compiled_sdpa", CAUSAL | {"direction": "forward_backward"}),
    ],
    ids=str,
)
def test_outputs_and_gradients_are_within_budget(backend, fields):
    workload = build(backend, **fields)
    inputs = build_inputs(workload, "cpu")
    with build_call(find(backend, BACKENDS, field="backend"), workload, inputs) as call:
        call()
        # The second call: the first one's memory may have been used again.
        deltas = check_results(workload, inputs, call())
    assert deltas
    assert all(delta.within_budget for delta in deltas), deltas


def test_a_large_block_mask_is_searched_by_compiled_code_and_is_the_same(monkeypatch):
    import torch

    from attention.backends import flex

    workload = build("flex", **WINDOW)
    with fresh_compiler(), torch.no_grad():
        dense = flex.build_block_mask(workload, "cpu")
        monkeypatch.setattr(flex, "_DENSE_SEARCH_MOST", 1)
        compiled = flex.build_block_mask(workload, "cpu")
    assert (dense.to_dense() == compiled.to_dense()).all()
    assert (dense.kv_num_blocks == compiled.kv_num_blocks).all()


@pytest.mark.parametrize("backend", ["flex", "compiled_naive", "compiled_sdpa"])
def test_the_first_call_compiles_and_no_later_one_does(recordings, backend):
    recording = recordings[backend]
    assert recording.failures == ()
    compilation = recording.compilation
    assert compilation.mode == "default"
    assert (compilation.graph_breaks, compilation.recompiles) == (0, 0)
    assert 0 < compilation.compile_ns <= recording.latency.first_call_ns
    later = sorted(recording.latency.wall.samples_ns)
    assert recording.latency.first_call_ns > 5 * later[len(later) // 2]
    assert recording.correctness[0].within_budget


def test_flex_eager_generates_no_code_and_reports_none(recordings):
    recording = recordings["flex_eager"]
    assert recording.failures == ()
    assert recording.compilation is None
    assert recording.correctness[0].within_budget


@pytest.mark.parametrize(
    ("backend", "family", "confidence", "evidence"),
    [
        ("flex", "flex", "likely", "graph_"),
        ("flex_eager", "flex_eager", "proven", "aten::logsumexp"),
        ("compiled_naive", "compiled_naive", "proven", "cpp_fused__softmax"),
        ("compiled_sdpa", "flash", "proven", "aten::_scaled_dot_product_flash_attention_for_cpu"),
    ],
)
def test_observed_from_the_trace(recordings, backend, family, confidence, evidence):
    observed = analyze_recording(recordings[backend]).report.observed_backend
    assert (observed.family, observed.confidence) == (family, confidence), observed
    assert any(evidence in text for text in observed.evidence)


def test_inductor_may_replace_an_unmasked_formula_by_sdpa_and_the_trace_says_so():
    (recording,) = run(build("compiled_naive", **NONE))
    report = analyze_recording(recording).report
    assert report.observed_backend.family == "flash"
    verdict = next(verdict for verdict in report.verdicts if verdict.rule == "backend_match")
    assert verdict.status == "clear"


def test_a_second_run_compiles_again_and_may_read_the_code_from_disk(recordings):
    (again,) = run(build("compiled_sdpa", **CAUSAL))
    assert again.compilation.compile_ns > 0
    assert again.compilation.cached_graphs in (0, 1)


def test_backends_that_compile_are_judged_by_rule_unless_asked_for(recordings):
    decisions = {decision.backend: decision for decision in recordings["compiled_naive"].decisions}
    bases = {backend.slug: decisions[backend.slug].basis for backend in BACKENDS if backend.compiles}
    assert bases.pop("compiled_naive") == "probe"
    assert set(bases.values()) == {"rule"}
    assert decisions["sdpa_cudagraph"].verdict == "rejected"


@pytest.mark.parametrize(
    ("backend", "fields", "reason"),
    [
        ("compiled_naive_cudagraph", {}, "needs a CUDA device for its graph, this is cpu"),
        ("sdpa_cudagraph", {}, "needs a CUDA device for its graph, this is cpu"),
        ("flex", {"dtype": "float64"}, "takes float32, float16 or bfloat16, this is float64"),
        ("flex_eager", {"direction": "forward_backward"}, "takes no backward pass on a cpu"),
    ],
)
def test_what_the_rule_rejects_is_refused_without_a_trial(backend, fields, reason):
    (recording,) = run(build(backend, **CAUSAL, **fields))
    (failure,) = recording.failures
    assert (failure.stage, failure.kind) == ("first_call", "refused")
    assert reason.lower() in failure.message.lower()
    decision = next(decision for decision in recording.decisions if decision.backend == backend)
    assert (decision.verdict, decision.basis, decision.raw_message) == ("rejected", "rule", "")
    assert EXPORTER.write(analyze_recording(recording)) is None


def test_the_rules_refusal_of_float64_is_what_torch_says_too():
    workload = build("flex", dtype="float64")
    inputs = build_inputs(workload, "cpu")
    with (
        build_call(find("flex", BACKENDS, field="backend"), workload, inputs) as call,
        pytest.raises(RuntimeError, match=r"torch\.float64"),
    ):
        call()


def test_without_a_compiler_the_run_is_refused_in_torchs_words():
    import torch._inductor.config
    import torch._inductor.cpp_builder

    torch._inductor.cpp_builder.cpp_compiler_search.cache_clear()
    with torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler"), "force_disable_caches": True}):
        (recording,) = run(build("compiled_naive", **CAUSAL))
    (failure,) = recording.failures
    assert failure.kind == "refused"
    assert "no working c++ compiler" in failure.message.lower()
    decision = next(decision for decision in recording.decisions if decision.backend == "compiled_naive")
    assert (decision.verdict, decision.basis) == ("rejected", "probe")


def test_a_compiler_error_is_unavailable_and_says_what_to_do(monkeypatch):
    import torch._dynamo

    from attention.backends import compiled

    def break_graph(query, key, value, **options):
        torch._dynamo.graph_break()
        return query

    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, mode: real(call, mode=mode, fullgraph=True))
    monkeypatch.setattr(compiled, "attend_grouped", break_graph)
    (recording,) = run(build("compiled_naive", **CAUSAL))
    (failure,) = recording.failures
    assert (failure.stage, failure.kind) == ("first_call", "unavailable")
    assert "torch.compile failed" in failure.hint
    assert "choose an eager backend" in failure.hint


def test_a_graph_break_is_counted(monkeypatch):
    import torch._dynamo

    from attention.backends import compiled

    real = compiled.attend_grouped

    def with_break(query, key, value, **options):
        torch._dynamo.graph_break()
        return real(query, key, value, **options)

    monkeypatch.setattr(compiled, "attend_grouped", with_break)
    (recording,) = run(build("compiled_naive", **CAUSAL))
    assert recording.failures == ()
    assert recording.compilation.graph_breaks == 1
    assert recording.compilation.recompiles == 0


def test_the_wrong_binding_that_spaces_leaves_is_undone(monkeypatch):
    import torch

    if not hasattr(torch._C, "_cuda_maybeExchangeDevice"):
        pytest.skip("this torch is built without CUDA")
    monkeypatch.setattr(torch.cuda, "_maybe_exchange_device", torch.cuda._exchange_device)
    with fresh_compiler():
        assert torch.cuda._maybe_exchange_device is torch._C._cuda_maybeExchangeDevice


def test_nothing_of_a_run_is_left_behind(recordings):
    import torch._inductor.config

    assert torch._inductor.config.cpp.enable_kernel_profile is False
    assert torch.backends.cuda.math_sdp_enabled()


def test_recordings_with_a_compilation_round_trip(recordings):
    recording = recordings["compiled_naive"]
    assert parse_recording(write_recording(recording)) == recording


def test_the_report_shows_the_compilation(recordings):
    from profiling.commands.summary import render_report
    from profiling.export.report_markdown import EXPORTER as MARKDOWN

    analysis = analyze_recording(recordings["compiled_naive"])
    assert "recompiles after the first call 0" in render_report(analysis.report)
    assert "What torch.compile did" in MARKDOWN.write(analysis).decode()


@pytest.mark.parametrize("backend", ["flex_eager", "compiled_naive", "compiled_sdpa"])
def test_a_replay_passes(recordings, backend, tmp_path, monkeypatch):
    import torch

    script = tmp_path / "replay.py"
    script.write_bytes(EXPORTER.write(analyze_recording(recordings[backend])))
    monkeypatch.setattr(sys, "argv", [str(script)])
    output = io.StringIO()
    always = torch.is_warn_always_enabled()
    try:
        with contextlib.redirect_stdout(output), pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
    finally:
        torch.set_warn_always(always)
        torch.set_grad_enabled(True)
        torch.compiler.reset()
    assert ended.value.code == 0, output.getvalue()
