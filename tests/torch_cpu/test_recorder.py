"""The recorder on a CPU: stages in order, partial recordings, refusals as results."""

import gzip
import json
import pickle
import time

import pytest

from attention.backends import BACKENDS
from attention.validation import default_fields, parse_workload
from profiling.recorder import STAGES, record
from profiling.recording import Progress, Recording, RunRequest, parse_recording, write_recording
from profiling.report import analyze_recording

SMALL = {"num_heads": 2, "kv_heads": 2, "seq_len_q": 64, "seq_len_kv": 64, "head_dim": 16}


def build(**fields):
    return parse_workload(default_fields("cpu") | SMALL | fields)


def run(*workloads, **options):
    items = list(record(RunRequest(workloads=workloads, device="cpu", **options)))
    return [item for item in items if isinstance(item, Progress)], [i for i in items if isinstance(i, Recording)]


@pytest.mark.parametrize("backend", ["naive", "naive_inplace", "sdpa_auto", "sdpa_math", "sdpa_flash"])
def test_a_whole_run(backend):
    progress, (recording,) = run(build(backend=backend))
    assert [step.stage for step in progress] == ["environment", *STAGES]
    assert [entry.stage for entry in recording.ledger] == list(STAGES)
    assert recording.failures == ()
    assert recording.latency.first_call_ns > 0
    assert recording.latency.device is recording.latency.submission is None
    assert len(recording.latency.wall.samples_ns) >= 5
    assert recording.memory.peak_bytes is None
    assert recording.correctness[0].within_budget
    events = json.loads(gzip.decompress(recording.trace_gz))["traceEvents"]
    steps = {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}
    assert len(steps) == recording.schedule.active
    assert sum(event.get("name") == "attn_fwd" for event in events) == recording.schedule.active


@pytest.mark.parametrize(
    ("backend", "family"),
    [("naive", "naive"), ("naive_inplace", "naive_inplace"), ("sdpa_math", "math"), ("sdpa_flash", "flash")],
)
def test_observed_on_a_cpu(backend, family):
    _, (recording,) = run(build(backend=backend))
    report = analyze_recording(recording).report
    assert report.observed_backend.family == family
    assert report.device_items_per_step is None


@pytest.mark.parametrize("backend", ["sdpa_efficient", "sdpa_cudnn"])
def test_a_refusal_is_a_result_without_a_number(backend):
    progress, (recording,) = run(build(backend=backend))
    (failure,) = recording.failures
    assert (failure.kind, failure.stage) == ("refused", "first_call")
    assert "needs a CUDA device, this is cpu" in failure.message.lower().replace("cuda", "CUDA")
    decision = next(decision for decision in recording.decisions if decision.backend == backend)
    assert (decision.verdict, decision.basis) == ("rejected", "probe")
    assert "No viable backend" in decision.raw_message
    assert recording.trace_gz is None
    assert recording.latency.first_call_ns is recording.latency.wall is None
    assert [step.stage for step in progress][-1] == "decisions"


def test_the_selector_answers_outside_any_pin():
    # A pinned run must not change what PyTorch's selector says of the same call.
    _, (pinned,) = run(build(backend="sdpa_math"))
    selector = next(decision for decision in pinned.decisions if decision.backend == "sdpa_auto")
    assert selector.selects == "sdpa_flash"


def test_runs_of_one_entry_share_the_verdicts():
    workloads = [build(backend=backend) for backend in ("naive", "sdpa_flash", "sdpa_math")]
    progress, recordings = run(*workloads)
    assert [recording.workload for recording in recordings] == workloads
    assert len({id(recording.decisions) for recording in recordings}) == 1
    assert len({tuple(recording.inputs_fingerprint.items()) for recording in recordings}) == 1
    done = [step.done for step in progress[1:]]
    assert done == list(range(len(done)))
    assert progress[-1].total == len(done)


def test_check_depth_gives_verdicts_and_no_number():
    _, (recording,) = run(build(), depth="check")
    assert [decision.backend for decision in recording.decisions] == [backend.slug for backend in BACKENDS]
    assert recording.trace_gz is None
    assert recording.latency.first_call_ns is None


def test_environment_depth_gives_the_machine():
    _, (recording,) = run(depth="environment")
    assert recording.workload is None
    assert recording.environment.device == "cpu"
    assert recording.environment.torch
    assert recording.environment.total_memory_bytes > 0


def test_cuda_asked_for_without_a_gpu_is_a_failure():
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    recordings = [i for i in record(RunRequest(workloads=(build(),), device="cuda")) if isinstance(i, Recording)]
    assert "choose cpu or auto" in recordings[0].failures[0].message


def test_what_cannot_fit_is_refused_with_the_numbers():
    _, (recording,) = run(
        build(backend="naive", batch_size=64, num_heads=64, kv_heads=64, seq_len_q=65536, seq_len_kv=65536)
    )
    (failure,) = recording.failures
    assert (failure.kind, failure.stage) == ("invalid", "inputs")
    assert "GiB" in failure.message


def test_a_backend_that_raises_leaves_a_failure_and_the_next_workload_runs(monkeypatch):
    import profiling.judgement

    real = profiling.judgement.check_results
    raised = []

    def break_once(*arguments):
        if not raised:
            raised.append(True)
            raise ArithmeticError("broken on purpose")
        return real(*arguments)

    monkeypatch.setattr(profiling.judgement, "check_results", break_once)
    _, (broken, whole) = run(build(backend="naive"), build(backend="sdpa_math"))
    (failure,) = broken.failures
    assert (failure.stage, failure.kind) == ("correctness", "error")
    assert "ArithmeticError: broken on purpose" in failure.message
    assert broken.trace_gz is not None
    assert broken.correctness == ()
    assert whole.failures == ()
    assert whole.correctness[0].within_budget


def test_a_failed_timing_stage_keeps_the_profile(monkeypatch):
    from profiling import timing

    def refuse(*arguments):
        raise RuntimeError("no clock")

    monkeypatch.setattr(timing, "measure_host_clocks", refuse)
    _, (recording,) = run(build())
    assert [failure.stage for failure in recording.failures] == ["timing"]
    assert recording.trace_gz is not None
    assert recording.correctness[0].within_budget


def test_recordings_round_trip():
    _, (recording,) = run(build())
    assert parse_recording(write_recording(recording)) == recording
    assert pickle.loads(pickle.dumps(recording)) == recording


def test_no_profiler_is_left_running():
    import torch

    run(build())
    assert not torch.autograd._profiler_enabled()


def test_closing_the_run_half_way_leaves_nothing_behind():
    import torch

    running = record(RunRequest(workloads=(build(),), device="cpu"))
    for item in running:
        if isinstance(item, Progress) and item.stage == "correctness":
            break
    running.close()
    assert torch.is_grad_enabled()
    assert not torch.autograd._profiler_enabled()
    assert torch.backends.cuda.math_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    _, (recording,) = run(build())
    assert recording.failures == ()


def test_the_default_cpu_case_ends_in_seconds():
    began = time.perf_counter()
    _, (recording,) = run(parse_workload(default_fields("cpu")))
    assert recording.failures == ()
    # Six times what it takes on two idle cores: a hang or a wrong default shows, a busy machine does not.
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("backend", ["naive", "naive_inplace", "sdpa_flash", "sdpa_math"])
def test_forward_and_backward(backend):
    _, (recording,) = run(build(backend=backend, direction="forward_backward"))
    assert recording.failures == ()
    assert [delta.tensor for delta in recording.correctness] == ["output", "grad_query", "grad_key", "grad_value"]
    assert all(delta.within_budget for delta in recording.correctness)
    report = analyze_recording(recording).report
    assert report.observed_backend.family in ("naive", "naive_inplace", "flash", "math")
    names = {operator.name for operator in report.operators}
    assert any("backward" in name for name in names)
