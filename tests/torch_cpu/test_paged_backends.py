"""Decoding over a block table on a CPU: the cache's bits, right answers, and what a whole run records of it."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from attention.backends import BACKENDS
from attention.backends.paged import build_table_tensor, fill_cache
from attention.call import build_call
from attention.inputs import build_inputs
from attention.lookup import find
from attention.paging import BLOCK_SIZE, build_block_table
from attention.validation import parse_workload
from profiling.correctness import check_results
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording

ROOT = Path(__file__).resolve().parents[2]
BASE = {
    "batch_size": 3,
    "num_heads": 8,
    "kv_heads": 2,
    "seq_len_q": 1,
    "seq_len_kv": 100,
    "head_dim": 32,
    "dtype": "float32",
    "mask": "none",
}
RAGGED = {"mask": "padding", "mask_lengths": "100,33,48"}
ONE_EMPTY = {"mask": "padding", "mask_lengths": "100,0,7"}
ONE_LENGTH = {"mask": "padding", "mask_lengths": "50"}
LAST = {"mask": "causal", "mask_alignment": "lower_right"}

needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("g++", "clang++", "c++")),
    reason="Inductor needs a C++ compiler, and this machine has none",
)


def build(backend, **fields):
    return parse_workload(BASE | fields | {"backend": backend})


def judge(workload):
    inputs = build_inputs(workload, "cpu")
    with build_call(find(workload.backend, BACKENDS, field="backend"), workload, inputs) as call:
        (output,) = call()
    (delta,) = check_results(workload, inputs, (output,))
    return output, delta


@pytest.mark.parametrize(
    "fields", [{}, RAGGED, ONE_EMPTY, {"layout": "transposed"}, {"kv_heads": 1, "layout": "expanded_kv"}], ids=str
)
def test_the_cache_holds_every_token_where_the_table_says(fields):
    import torch

    workload = build("paged_gather", **fields)
    table, tensors = build_block_table(workload), build_inputs(workload, "cpu")
    for tensor in (tensors.key, tensors.value):
        cache = fill_cache(tensor, table)
        assert cache.is_contiguous()
        assert cache.shape == (table.blocks, tensor.shape[1], BLOCK_SIZE, tensor.shape[3])
        rows = build_table_tensor(table, tensor.device)
        assert rows.dtype == torch.int32
        filled = 0
        for sequence, length in enumerate(table.lengths):
            filled += length
            for token in range(length):
                block = int(rows[sequence, token // BLOCK_SIZE])
                assert torch.equal(cache[block, :, token % BLOCK_SIZE], tensor[sequence, :, token])
        # Slots behind a sequence's last token are zero.
        assert int((cache != 0).any(-1).any(1).sum()) == filled


@pytest.mark.parametrize(
    "fields",
    [
        {},
        RAGGED,
        ONE_EMPTY,
        ONE_LENGTH,
        LAST,
        {"seq_len_kv": 16},
        {"seq_len_kv": 1},
        {"kv_heads": 8},
        {"num_heads": 6, "kv_heads": 2} | RAGGED,
        {"layout": "transposed"} | RAGGED,
        {"layout": "expanded_kv"} | RAGGED,
        {"kv_heads": 1, "layout": "expanded_kv"},
        {"head_dim": 40, "head_dim_v": 24} | RAGGED,
        {"scale": 0.5},
        {"dtype": "float64"} | RAGGED,
        {"dtype": "float16"} | RAGGED,
        {"dtype": "bfloat16"} | RAGGED,
    ],
    ids=str,
)
def test_gathering_is_within_budget(fields):
    _, delta = judge(build("paged_gather", **fields))
    assert delta.within_budget, delta


@needs_compiler
@pytest.mark.parametrize(
    "fields",
    [{}, RAGGED, ONE_EMPTY, {"kv_heads": 8, "dtype": "bfloat16"} | RAGGED, {"layout": "expanded_kv", "head_dim_v": 16}],
    ids=str,
)
def test_paged_flex_is_within_budget(fields):
    _, delta = judge(build("paged_flex", **fields))
    assert delta.within_budget, delta


def test_an_empty_sequence_gives_zeros():
    output, delta = judge(build("paged_gather", **ONE_EMPTY))
    assert delta.dead_rows == 1  # of one head, over the batch
    assert not output[1].any()


def test_a_wrong_table_would_be_noticed(monkeypatch):
    from attention.backends import paged

    right = paged.build_table_tensor
    monkeypatch.setattr(paged, "build_table_tensor", lambda table, device: right(table, device).flip(0))
    _, delta = judge(build("paged_gather"))
    assert delta.within_budget is False


@needs_compiler
def test_the_bytes_of_flexs_tables_are_those_that_torch_allocates(monkeypatch):
    import torch
    from torch.nn.attention.experimental._paged_attention import PagedAttention
    from torch.nn.attention.flex_attention import BlockMask

    kept = []
    convert = PagedAttention.convert_logical_block_mask

    def watch(self, *args, **options):
        block_mask = convert(self, *args, **options)
        kept.extend((self.page_table, self.capacity, self.physical_to_logical, options["kv_len"]))
        parts = (
            getattr(block_mask, name)
            for name in dir(BlockMask) + list(vars(block_mask))
            if "_num_blocks" in name or "_indices" in name
        )
        kept.extend({id(part): part for part in parts if isinstance(part, torch.Tensor)}.values())
        return block_mask

    monkeypatch.setattr(PagedAttention, "convert_logical_block_mask", watch)
    workload = build("paged_flex", **RAGGED)
    backend = find("paged_flex", BACKENDS, field="backend")
    with build_call(backend, workload, build_inputs(workload, "cpu")):
        assert sum(tensor.nbytes for tensor in kept) == backend.paging_of(workload).table_bytes


@pytest.mark.parametrize("fields", [{}, RAGGED], ids=str)
def test_a_whole_run_of_gathering_is_proven_and_reports_its_table(fields):
    workload = build("paged_gather", **fields)
    (recording,) = (
        item for item in record(RunRequest(workloads=(workload,), device="cpu")) if isinstance(item, Recording)
    )
    report = analyze_recording(recording).report
    assert report.failures == ()
    assert (report.observed_backend.family, report.observed_backend.confidence) == ("paged_gather", "proven")
    assert report.paging == find("paged_gather", BACKENDS, field="backend").paging_of(workload)
    assert all(delta.within_budget for delta in report.correctness)
    decisions = {decision.backend: decision for decision in report.decisions}
    assert (decisions["paged_gather"].verdict, decisions["paged_gather"].basis) == ("accepted", "probe")
    assert decisions["paged_triton"].reason == "decode: needs a CUDA device, this is cpu"
    assert {verdict.status for verdict in report.verdicts if verdict.rule == "backend_match"} == {"clear"}


def test_any_other_backend_has_no_table():
    workload = build("sdpa_auto")
    (recording,) = (
        item for item in record(RunRequest(workloads=(workload,), device="cpu")) if isinstance(item, Recording)
    )
    assert recording.paging is None


# Triton's interpreter runs the kernel's own source with NumPy; the switch is read when the kernel is defined. It
# multiplies bfloat16 as if its bits were integers (Triton 3.8), so that the GPU's tests alone see that type.
INTERPRETED = """
import json, sys
from attention.backends.paged import build_table_tensor, fill_cache
from attention.backends.paged_kernel import paged_decode
from attention.inputs import build_inputs
from attention.paging import DecodeConfig, build_block_table
from attention.validation import parse_workload
from profiling.correctness import check_results
import torch

results = []
for fields, tokens, splits in json.loads(sys.argv[1]):
    workload = parse_workload(fields)
    inputs, table = build_inputs(workload, "cpu"), build_block_table(workload)
    config = DecodeConfig(tokens_per_step=tokens, num_warps=4, num_stages=1, splits=splits)
    rows, lengths = build_table_tensor(table, inputs.query.device), torch.tensor(table.lengths, dtype=torch.int32)
    caches = fill_cache(inputs.key, table), fill_cache(inputs.value, table)
    output = paged_decode(inputs.query, *caches, rows, lengths, workload.softmax_scale, config)
    (delta,) = check_results(workload, inputs, (output,))
    empty = [not output[index].any() for index, length in enumerate(table.lengths) if length == 0]
    results.append([delta.within_budget, delta.nan_count + delta.inf_count, all(empty), delta.max_abs_error])
with torch.profiler.profile() as traced:
    paged_decode(inputs.query, *caches, rows, lengths, workload.softmax_scale, config)
results.append("attnscope::paged_decode" in {event.key for event in traced.key_averages()})
print(json.dumps(results))
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernels_source_is_right_under_tritons_interpreter():
    cases = [
        (fields, tokens, splits)
        for fields in (
            {},
            RAGGED | {"head_dim_v": 16},
            ONE_EMPTY | {"layout": "transposed", "dtype": "float16"},
            {"num_heads": 6, "kv_heads": 2} | RAGGED,
            {"num_heads": 96, "kv_heads": 1, "seq_len_kv": 40},
            {"layout": "expanded_kv", "scale": 0.5} | LAST,
        )
        for tokens, splits in ((16, 1), (32, 3), (64, 8))
    ]
    cases = [(BASE | {"backend": "paged_triton"} | fields, tokens, splits) for fields, tokens, splits in cases]
    ran = subprocess.run(
        [sys.executable, "-c", INTERPRETED, json.dumps(cases)],
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    *judged, has_operator = json.loads(ran.stdout.splitlines()[-1])
    wrong = [(case, found) for case, found in zip(cases, judged, strict=True) if found[:3] != [True, 0, True]]
    assert not wrong, wrong
    assert has_operator
