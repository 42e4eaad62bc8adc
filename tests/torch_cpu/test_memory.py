"""The device memory of a call, with the device's counters replaced: what counts as its result."""

import pytest

from attention.inputs import build_inputs
from attention.validation import parse_workload
from profiling.memory import MemoryGauge

MIB = 2**20


@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_gradients_are_results_and_no_workspace(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    workload = parse_workload({"batch_size": 1, "seq_len_q": 8, "seq_len_kv": 8, "direction": direction})
    inputs = build_inputs(workload, "cpu")
    results = [inputs.query]
    if direction == "forward_backward":
        results += [inputs.query, inputs.key, inputs.value]
    returned = sum(tensor.nbytes for tensor in results)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 5 * MIB)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 5 * MIB + returned + 3 * MIB)
    memory = MemoryGauge("cuda").measure(workload, inputs, lambda: tuple(results), holds_graph=False)
    assert memory.materialized_bytes == 3 * MIB
    assert memory.peak_bytes == inputs.total_bytes + returned + 3 * MIB
    assert memory.output_bytes == inputs.query.nbytes
