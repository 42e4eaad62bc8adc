"""Operations beyond attention on a CPU, from the workload to the replayed script: right, proven, and cheap to check."""

import functools
import json
import runpy
import sys
from dataclasses import replace

import pytest

from attention.backends import DeviceFacts
from attention.call import build_call
from attention.fusion import OPERATIONS, operation_of
from attention.fusion.backends import COMPILED, EAGER, FUSION_BACKENDS
from attention.fusion.cost import inputs_bytes
from attention.fusion.inputs import build_inputs
from attention.fusion.reference import build_reference
from attention.inputs import fingerprint
from attention.validation import complete_fields, parse_workload
from profiling.correctness import check_results
from profiling.export.replay_script import EXPORTER
from profiling.recorder import STAGES, record
from profiling.recording import Progress, Recording, RunRequest, parse_recording, write_recording
from profiling.report import analyze_recording

NAMES = [operation.slug for operation in OPERATIONS]
CASES = [(name, backend.slug) for name in NAMES for backend in FUSION_BACKENDS]
SMALL = {"tokens": 200, "hidden_size": 96, "dtype": "float32"}
DTYPES = ["float64", "float32", "float16", "bfloat16"]
# On a CPU an operator alone is proof: these must be in the trace, and nothing of the other backend.
PROOF = {
    ("swiglu", "eager"): "operator aten::silu (3 calls)",
    ("swiglu", "compiled"): "cpp_fused_mul_silu",
    ("residual_rms_norm", "eager"): "operator aten::rsqrt (3 calls)",
    ("residual_rms_norm", "compiled"): "rsqrt",
}


def build(operation, backend="eager", **fields):
    wide = {"intermediate_size": 160} if operation == "swiglu" else {}
    return parse_workload({"operation": operation, "backend": backend} | SMALL | wide | fields)


@functools.cache
def run(operation, backend):
    items = list(record(RunRequest(workloads=(build(operation, backend),), device="cpu")))
    (recording,) = (item for item in items if isinstance(item, Recording))
    stages = [item.stage for item in items if isinstance(item, Progress)]
    return stages, recording, analyze_recording(recording)


@pytest.mark.parametrize(("operation", "backend"), CASES)
def test_a_whole_run_is_right_and_proven(operation, backend):
    stages, recording, analysis = run(operation, backend)
    report = analysis.report
    assert stages == ["environment", *STAGES]
    assert recording.failures == ()
    assert recording.label == "fusion_fwd"
    assert (report.requested_backend, report.predicted_backend) == (backend, backend)
    assert (report.observed_backend.family, report.observed_backend.confidence) == (backend, "proven")
    assert PROOF[operation, backend] in report.observed_backend.evidence[0]
    (delta,) = report.correctness
    assert delta.within_budget, delta
    assert len(delta.worst_index) == 2
    assert delta.reference_samples[-1].index == (199, 95)
    assert report.steps_recorded == 3
    assert {decision.backend: decision.verdict for decision in report.decisions} == {
        "eager": "accepted",
        "compiled": "accepted",
    }
    known_by = {decision.backend: decision.basis for decision in report.decisions}
    assert known_by == {"eager": "probe", "compiled": "probe" if backend == "compiled" else "rule"}
    assert (report.compilation is None) is (backend == "eager")
    said = {verdict.rule: (verdict.status, verdict.severity) for verdict in report.verdicts}
    assert said["backend_match"] == ("clear", None)
    assert said["error_budget"] == ("clear", None)
    assert said["score_matrix"] == said["known_fault"] == said["silent_math"] == ("not_evaluated", None)
    assert all(severity in (None, "info") for _, severity in said.values()), said
    assert parse_recording(write_recording(recording)) == recording


@pytest.mark.parametrize("operation", NAMES)
def test_compiling_leaves_fewer_operators_and_the_products(operation):
    names = {}
    for backend in ("eager", "compiled"):
        report = run(operation, backend)[2].report
        names[backend] = {entry.name: entry.calls / 3 for entry in report.operators}
    products = 3 if operation == "swiglu" else None
    assert names["eager"].get("aten::mm") == names["compiled"].get("aten::mm") == products
    fused = [name for name in names["compiled"] if "cpp_fused" in name]
    assert len(fused) == 1, names["compiled"]
    assert not {"aten::silu", "aten::mul", "aten::rsqrt", "aten::mean"} & names["compiled"].keys()


def test_another_backend_than_the_one_asked_for_is_seen():
    recording = run("swiglu", "eager")[1]
    report = analyze_recording(replace(recording, workload=replace(recording.workload, backend="compiled"))).report
    (verdict,) = (verdict for verdict in report.verdicts if verdict.rule == "backend_match")
    assert (verdict.status, verdict.severity) == ("fired", "error")
    assert "eager (proven)" in verdict.explanation


@pytest.mark.parametrize("operation", NAMES)
def test_check_asks_both_backends_and_measures_nothing(operation):
    request = RunRequest(workloads=(build(operation),), depth="check", device="cpu")
    (recording,) = (item for item in record(request) if isinstance(item, Recording))
    assert [decision.backend for decision in recording.decisions] == ["eager", "compiled"]
    assert recording.latency.wall is None
    assert recording.trace_gz is None


def test_both_backends_and_attention_share_one_entry():
    workloads = (build("swiglu"), build("swiglu", "compiled"), parse_workload(complete_fields({}, "cpu")))
    request = RunRequest(workloads=workloads, depth="check", device="cpu", measure_unlocks=True)
    recordings = [item for item in record(request) if isinstance(item, Recording)]
    assert [recording.workload for recording in recordings] == list(workloads)
    assert all(recording.failures == () for recording in recordings)
    first, second, attention = recordings
    assert first.inputs_fingerprint == second.inputs_fingerprint
    assert first.decisions == second.decisions != attention.decisions


# Right for every type, and wrong where it should be


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", NAMES)
def test_both_backends_are_within_budget(operation, dtype):
    for backend in FUSION_BACKENDS:
        workload = build(operation, backend.slug, dtype=dtype, seed=3)
        inputs = build_inputs(workload, "cpu")
        with build_call(backend, workload, inputs) as call:
            (delta,) = check_results(workload, inputs, call())
        assert delta.within_budget, (backend.slug, delta)
        assert delta.nan_count == delta.inf_count == 0


@pytest.mark.parametrize("operation", NAMES)
def test_a_wrong_answer_is_outside_its_budget(operation):
    workload = build(operation)
    inputs = build_inputs(workload, "cpu")
    with build_call(EAGER, workload, inputs) as call:
        (output,) = call()
    assert check_results(workload, inputs, (output * 1.001,))[0].within_budget is False
    dent = output.clone()
    dent[150, 7] += 1e-3
    (delta,) = check_results(workload, inputs, (dent,))
    assert delta.within_budget is False
    assert delta.worst_index == (150, 7)
    dent[150, 7] = float("nan")
    (delta,) = check_results(workload, inputs, (dent,))
    assert (delta.within_budget, delta.nan_count) == (False, 1)


def test_rows_that_are_small_have_a_budget_of_their_own():
    # The first rows are a thousand times larger, so a budget for all would pass nonsense in the last ones.
    workload = build("swiglu", tokens=512, dtype="float16")
    inputs = build_inputs(workload, "cpu")
    inputs.operands["x"][384:] *= 1e-3
    with build_call(EAGER, workload, inputs) as call:
        (output,) = call()
    assert check_results(workload, inputs, (output,))[0].within_budget
    output[384:] *= 3
    (delta,) = check_results(workload, inputs, (output,))
    assert delta.within_budget is False
    assert "in rows 384 to 511, where alone it is exceeded" in delta.budget_basis


@pytest.mark.parametrize("operation", NAMES)
def test_the_reference_is_the_formula_whatever_its_blocks(operation, monkeypatch):
    import torch

    workload = build(operation)
    inputs = build_inputs(workload, "cpu")
    whole = torch.cat([block.exact[0] for block in build_reference(workload, inputs)])
    monkeypatch.setattr("attention.fusion.cost.REFERENCE_BLOCK_ELEMENTS", 17 * workload.widest)
    blocks = list(build_reference(workload, inputs))
    assert [(block.start, block.stop) for block in blocks][:2] == [(0, 17), (17, 34)]
    torch.testing.assert_close(torch.cat([block.exact[0] for block in blocks]), whole, rtol=1e-12, atol=1e-12)
    tensors = [tensor.double() for tensor in inputs.tensors]
    torch.testing.assert_close(operation_by_hand(operation, *tensors), whole, rtol=1e-12, atol=1e-12)


def operation_by_hand(operation, *tensors):
    """The formulas once more, in other words than the app's."""
    import torch

    if operation == "swiglu":
        x, gate, up, down = tensors
        hidden = torch.einsum("th,ih->ti", x, gate)
        return torch.einsum("ti,hi->th", hidden / (1 + torch.exp(-hidden)) * torch.einsum("th,ih->ti", x, up), down)
    x, residual, weight = tensors
    return torch.nn.functional.rms_norm(x + residual, (x.shape[-1],), weight, eps=1e-6)


@pytest.mark.parametrize("operation", NAMES)
def test_inputs_come_from_the_seed_and_keep_results_near_one(operation):
    workload = build(operation, seed=5)
    inputs, again = build_inputs(workload, "cpu"), build_inputs(workload, "cpu")
    assert fingerprint(inputs) == fingerprint(again)
    assert fingerprint(inputs) != fingerprint(build_inputs(replace(workload, seed=6), "cpu"))
    assert list(fingerprint(inputs)) == [operand.name for operand in operation_of(workload).operands]
    assert inputs.total_bytes == inputs_bytes(workload)
    with build_call(EAGER, workload, inputs) as call:
        assert 0.1 < call()[0].std() < 3


@pytest.mark.parametrize(
    ("operation", "dtype"),
    [
        *((operation, dtype) for operation in NAMES for dtype in ("float32", "float64")),
        # A CPU's product of half-precision matrices packs them in memory of its own.
        ("residual_rms_norm", "bfloat16"),
        ("residual_rms_norm", "float16"),
    ],
)
def test_the_eager_peak_is_what_the_estimate_says(operation, dtype, tmp_path):
    """As torch's own allocator counts it, event by event."""
    import torch

    workload = build(operation, dtype=dtype)
    inputs = build_inputs(workload, "cpu")
    formula = operation_of(workload).build()
    with torch.no_grad():
        formula(*inputs.tensors)  # what the first call of a process allocates once
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            output = formula(*inputs.tensors)
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_bytes())["traceEvents"]
    sizes = [event["args"] for event in sorted(events, key=lambda event: event["ts"]) if event["name"] == "[memory]"]
    first = sizes[0]["Total Allocated"] - sizes[0]["Bytes"]
    peak = max(size["Total Allocated"] for size in sizes) - first
    expected = operation_of(workload).count_peak_bytes(workload)
    rows = 8 * 4 * workload.tokens  # the mean of squares and what follows it: a few numbers a row
    assert output.nbytes < expected <= peak <= expected + rows


# The script


@pytest.mark.parametrize(("operation", "backend"), CASES)
def test_a_replay_passes_with_torch_alone(operation, backend, tmp_path, monkeypatch, capsys):
    code, output = replay(run(operation, backend)[2], tmp_path, monkeypatch, capsys)
    assert code == 0, output
    assert output.splitlines()[-1] == "PASS"
    for operand in operation_of(build(operation)).operands:
        assert f"PASS  {operand.name} is the recorded one" in output
    assert "PASS  float64 reference is the recorded one: 16 elements" in output
    assert "PASS  worst error within its budget" in output
    assert "NOTE  time of one call" in output


def test_a_replay_of_something_else_fails(tmp_path, monkeypatch, capsys):
    report = run("swiglu", "eager")[2].report
    (delta,) = report.correctness
    other_seed = replace(report, workload=replace(report.workload, seed=1))
    smaller_budget = replace(report, correctness=(replace(delta, error_budget=delta.max_abs_error / 2),))
    for changed, failing in ((other_seed, "x is the recorded one"), (smaller_budget, "worst error within its budget")):
        analysis = replace(run("swiglu", "eager")[2], report=changed)
        code, output = replay(analysis, tmp_path, monkeypatch, capsys)
        assert code == 1
        assert f"FAIL  {failing}" in output


def replay(analysis, tmp_path, monkeypatch, capsys):
    script = EXPORTER.write(analysis)
    assert script is not None, EXPORTER.lacks(analysis)
    assert b"@@" not in script
    assert b"from attention" not in script
    path = tmp_path / "replay.py"
    path.write_bytes(script)
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code, capsys.readouterr().out


def test_compiled_starts_from_nothing_each_time():
    assert COMPILED.check(build("swiglu"), DeviceFacts(kind="cpu")).reason.endswith("compiles with a C++ compiler")
    first, second = (record_once("residual_rms_norm") for _ in range(2))
    assert first.compilation is not None
    assert second.compilation is not None
    assert (second.compilation.graph_breaks, second.compilation.recompiles) == (0, 0)


def record_once(operation):
    request = RunRequest(workloads=(build(operation, "compiled"),), device="cpu")
    (recording,) = (item for item in record(request) if isinstance(item, Recording))
    return recording
