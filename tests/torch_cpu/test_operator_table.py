"""The operator table against torch's own table of the same profile."""

import pytest

from attention.backends import BACKENDS
from attention.inputs import build_inputs
from attention.lookup import find
from attention.validation import default_fields, parse_workload
from profiling.report import analyze_trace


@pytest.mark.parametrize("backend", ["naive", "sdpa_math", "sdpa_flash"])
def test_operators_are_those_of_key_averages(backend, tmp_path):
    import torch
    from torch import profiler

    size = {"backend": backend, "num_heads": 2, "kv_heads": 2, "seq_len_q": 64, "seq_len_kv": 64}
    workload = parse_workload(default_fields("cpu") | size)
    theirs = {}

    def keep(finished):
        finished.export_chrome_trace(str(tmp_path / "trace.json"))
        theirs.update({event.key: event for event in finished.key_averages()})

    schedule = profiler.schedule(wait=1, warmup=1, active=3, repeat=1)
    entry = find(backend, BACKENDS, field="backend")
    with (
        torch.no_grad(),
        entry.build(workload, build_inputs(workload, "cpu")) as call,
        profiler.profile(activities=[profiler.ProfilerActivity.CPU], schedule=schedule, on_trace_ready=keep) as running,
    ):
        for _ in range(5):
            with profiler.record_function("attn_fwd"):
                call()
            running.step()
    ours = analyze_trace((tmp_path / "trace.json").read_bytes()).report.operators
    assert {row.name for row in ours} == {name for name in theirs if name.startswith("aten::")}
    for row in ours:
        event = theirs[row.name]
        assert row.calls == event.count, row.name
        assert row.self_cpu_time_ns == pytest.approx(event.self_cpu_time_total * 1e3, abs=1), row.name
        # torch adds an operator inside one of the same name to the total once more (aten::where in aten::where).
        assert row.cpu_time_ns <= event.cpu_time_total * 1e3 + 1, row.name
