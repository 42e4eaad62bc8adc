"""Faults that users of attention reported publicly, as calls on this GPU: the right value, or the fault named.

Each docstring names the report. The tests print what they measured, so that a run's output is a table by version.
"""

import time
from dataclasses import replace

import pytest

from attention.backends import BACKENDS
from attention.call import build_call
from attention.inputs import build_inputs, draw_tensors
from attention.known_faults import find_known_faults
from attention.lookup import find
from attention.validation import parse_workload
from profiling.correctness import check_results
from profiling.environment import build_device_facts, capture_environment
from profiling.mask_truth import read_applied_mask
from profiling.non_finite import find_non_finite
from profiling.recorder import record
from profiling.recording import Recording, RunRequest, Samples
from profiling.report import analyze_recording

SDPA = ("sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
SMALL = {"batch_size": 2, "num_heads": 4, "kv_heads": 4, "seq_len_q": 256, "seq_len_kv": 256, "dtype": "bfloat16"}
MASKS = {
    "causal": {"mask": "causal"},
    "lower right": {"mask": "causal", "seq_len_q": 100, "mask_alignment": "lower_right"},
    "decode": {"mask": "causal", "seq_len_q": 1, "mask_alignment": "lower_right"},
    "sliding_window": {"mask": "sliding_window", "mask_window": 17},
    "prefix_lm": {"mask": "prefix_lm", "mask_prefix_length": 90},
    "document": {"mask": "document", "mask_lengths": "100,156"},
    "padding": {"mask": "padding", "mask_lengths": "100,256", "mask_side": "left"},
    "alibi": {"mask": "alibi"},
    "random": {"mask": "random", "mask_density": 0.3},
    "dead_rows": {"mask": "dead_rows", "mask_count": 30},
}
EXPANDED = "layout → expanded_kv (key and value repeated for every query head)"


@pytest.fixture(scope="module")
def facts():
    return build_device_facts(capture_environment("cuda"))


def build(backend, **fields):
    workload = parse_workload(SMALL | {"backend": backend} | fields)
    return workload, build_inputs(workload, "cuda", draw_tensors(workload, "cuda"))


def entry_of(backend):
    return find(backend, BACKENDS, field="backend")


def results_of(workload, inputs):
    with build_call(entry_of(workload.backend), workload, inputs) as call:
        return call()


def takes(facts, backend, **fields):
    return entry_of(backend).check(parse_workload(SMALL | {"backend": backend} | fields), facts).verdict == "accepted"


def run(*, measure_unlocks=False, **fields) -> Recording:
    request = RunRequest(workloads=(parse_workload(SMALL | fields),), device="cuda", measure_unlocks=measure_unlocks)
    (recording,) = (item for item in record(request) if isinstance(item, Recording))
    return recording


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("backend", ["sdpa_math", "sdpa_efficient", "sdpa_cudnn"])
def test_gradients_with_an_all_true_mask_and_very_low_scores(facts, backend, dtype):
    """pytorch/pytorch#196678: L = 704, an all-True mask, row logsumexp below -88.7: finite, or the fault named."""
    import torch

    fields = {"batch_size": 1, "seq_len_q": 704, "seq_len_kv": 704, "head_dim": 64, "dtype": dtype}
    fields |= {"mask": "random", "mask_density": 1.0, "direction": "forward_backward"}
    workload, inputs = build(backend, **fields)
    assert inputs.allowed.all()
    with torch.no_grad():  # one dimension of its own lowers every score by 100
        inputs.query[..., 0], inputs.key[..., 0] = -800.0, 1.0
    deltas = check_results(workload, inputs, results_of(workload, inputs))
    seen = {delta.tensor: (delta.nan_count + delta.inf_count, delta.within_budget) for delta in deltas}
    named = {fault.slug for fault in find_known_faults(workload, facts)}
    print(f"{backend} {dtype}: (not finite, within budget) {seen}; known faults {sorted(named)}")
    if any(count for count, _ in seen.values()):
        assert "cudnn_mask_gradient_nan" in named, seen
        assert seen["output"][0] == seen["grad_key"][0] == seen["grad_value"][0] == 0, seen
    else:
        assert all(within is not False for _, within in seen.values()) or named, seen


def test_the_last_rows_of_a_mask_with_more_than_4_billion_pairs(facts):
    """pytorch/pytorch#187227: the efficient kernel with a mask tensor above 2³² scores a head; late rows are wrong."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    length = 65_600
    if free < 30 * 2**30:
        pytest.skip(
            f"needs 30 GiB of GPU memory for a mask of {length}² bytes and its reference, {free >> 30} are free"
        )
    fields = {"batch_size": 1, "num_heads": 1, "kv_heads": 1, "seq_len_q": length, "seq_len_kv": length}
    workload, inputs = build("sdpa_efficient", **fields, mask="causal", mask_form="bool")
    named = {fault.slug for fault in find_known_faults(workload, facts)}
    assert named == {"efficient_many_scores"}
    (delta,) = check_results(workload, inputs, results_of(workload, inputs))
    print(f"worst error {delta.max_abs_error} of {delta.error_budget} at {delta.worst_index}, {delta.nan_count} NaN")
    if delta.within_budget is False and delta.worst_index is not None:
        # Right up to the row where 32 bits run over: whatever is wrong lies there.
        assert delta.worst_index[2] >= 2**32 // length - 128, delta


def test_the_same_call_with_cudnn_off_gives_the_same_answer(facts):
    """pytorch/pytorch#139298, huggingface/diffusers#9768: cured by disabling cuDNN, so results must agree."""
    fields = {"direction": "forward_backward", "seq_len_q": 512, "seq_len_kv": 512}
    found = {}
    for backend in SDPA:
        workload, inputs = build(backend, **fields)
        results = results_of(workload, inputs)
        deltas = check_results(workload, inputs, results)
        assert all(delta.within_budget for delta in deltas), (backend, deltas)
        found[backend] = (results, deltas)
    base, base_deltas = found["sdpa_cudnn"]
    for backend, (results, deltas) in found.items():
        for ours, other, first, second in zip(base, results, base_deltas, deltas, strict=True):
            apart = float((ours.double() - other.double()).abs().max())
            allowed = first.error_budget + second.error_budget
            print(f"sdpa_cudnn against {backend}, {first.tensor}: {apart:.3g} apart, budgets add up to {allowed:.3g}")
            assert apart <= allowed


@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_dead_rows_by_backend(facts, direction):
    """pytorch/pytorch#103749, #109517: zeros, NaN or the mean of value, forward and backward, each said."""
    for backend in ("naive", *SDPA):
        for form in ("bool", "additive"):
            fields = {"mask": "dead_rows", "mask_count": 30, "mask_form": form, "direction": direction}
            if not takes(facts, backend, **fields):
                print(f"{backend} {form}: refuses")
                continue
            workload, inputs = build(backend, **fields)
            results = results_of(workload, inputs)
            dead = results[0][:, :, 226:].float()
            mean = inputs.value.detach().float().mean(dim=2, keepdim=True)
            gives = "zeros" if not dead.any() else "NaN" if dead.isnan().all() else "something else"
            if gives == "something else" and dead.sub(mean).abs().max() < 0.05:
                gives = "mean of value"
            wrong = [d.tensor for d in check_results(workload, inputs, results) if d.within_budget is False]
            rows = {
                entry.tensor: (entry.in_live_rows, entry.in_dead_rows) for entry in find_non_finite(workload, results)
            }
            named = {fault.slug for fault in find_known_faults(workload, facts)}
            print(
                f"{backend} {form} {direction}: dead rows give {gives}; not finite (live, dead) {rows}; wrong {wrong}"
            )
            told = gives in ("zeros", "NaN", "mean of value") or "cudnn_dead_row_outputs" in named
            assert told, (backend, form, dead.flatten()[:8])
            assert not wrong or named, (backend, form, wrong)
            assert rows.get("output", (0, 0))[0] == 0, (backend, form, rows)


@pytest.mark.parametrize("backend", ["naive", "sdpa_math", "sdpa_efficient", "sdpa_cudnn"])
def test_a_row_of_the_least_finite_number(backend):
    """pytorch/pytorch#109517: a row of finfo.min in a mask averages value; NaN came from efficient."""
    import torch

    workload, inputs = build(backend, mask="causal", mask_form="additive")
    bias = inputs.bias.clone()
    bias[..., 3, :] = torch.finfo(bias.dtype).min
    output = results_of(workload, replace(inputs, bias=bias))[0][:, :, 3].float()
    mean = inputs.value.float().mean(dim=2)
    apart = (output - mean).abs().max().item()
    print(f"{backend}: {apart:.3g} from the mean of value, {int(output.isnan().sum())} NaN")
    if backend in ("naive", "sdpa_math"):
        assert apart < 0.02, f"{backend}: {apart} from the mean of value"
    else:
        # A fused kernel may scale the number beyond its type; that gives NaN or zeros, and no third thing.
        known = apart < 0.02 or bool(output.isnan().all()) or not output.any()
        assert known, f"{backend}: neither the mean of value nor NaN nor zeros, {apart} apart"


@pytest.mark.parametrize("lengths", [(1, 16), (16, 1), (100, 256), (256, 100)])
def test_both_corners_are_right_wherever_lengths_differ(facts, lengths):
    """pytorch/pytorch#108108, pytorch/executorch#22426: opposite corners are 2.7 to 4.1 apart, and silent."""
    for backend in ("naive", *SDPA):
        outputs = []
        for corner in ("upper_left", "lower_right"):
            fields = {"seq_len_q": lengths[0], "seq_len_kv": lengths[1], "mask_alignment": corner}
            if not takes(facts, backend, **fields):
                continue
            workload, inputs = build(backend, **fields)
            (output,) = results_of(workload, inputs)
            (delta,) = check_results(workload, inputs, (output,))
            assert delta.within_budget, (backend, corner, delta)
            outputs.append(output.float().nan_to_num())
        if len(outputs) == 2:
            apart = (outputs[0] - outputs[1]).abs().max().item()
            print(f"{backend} {lengths}: corners {apart:.3g} apart")
            assert apart > 0.5


def test_a_mask_and_is_causal_are_never_passed_together(facts, monkeypatch):
    """pytorch/pytorch#187801: math raises, the fused ones accept both; one of the two is all that is ever passed."""
    import torch

    sdpa, seen = torch.nn.functional.scaled_dot_product_attention, []

    def watched(*arguments, **options):
        seen.append(options)
        return sdpa(*arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    for backend in ("sdpa_auto", *SDPA):
        for fields in MASKS.values():
            if takes(facts, backend, **fields):
                results_of(*build(backend, **fields))
    assert len(seen) > 30
    assert not [options for options in seen if options["attn_mask"] is not None and options["is_causal"]]


@pytest.mark.parametrize("mask", MASKS)
def test_the_applied_mask_is_the_asked_one_on_every_backend(facts, mask):
    """huggingface/diffusers#12605: a mask that is ignored gives no error; each pair is read back here."""
    for backend in ("naive", "naive_inplace", "sdpa_auto", *SDPA):
        for dtype in ("float32", "float16", "bfloat16"):
            fields = MASKS[mask] | {"dtype": dtype}
            if not takes(facts, backend, **fields):
                continue
            workload, inputs = build(backend, **fields)
            wall = Samples(samples_ns=(100_000,), method="for the test")
            with build_call(entry_of(backend), workload, inputs) as call:
                truth = read_applied_mask(entry_of(backend), workload, inputs, call, wall)
            assert truth.wrong_pairs == 0, (backend, dtype, truth)


@pytest.mark.parametrize("backend", ["flex", "flex_eager", "compiled_naive", "compiled_sdpa", "sdpa_cudagraph"])
def test_the_applied_mask_is_read_without_compiling_or_capturing_again(backend):
    recording = run(backend=backend, seq_len_q=512, seq_len_kv=512)
    # Not compiled, flex moves a scalar from the host on every call, which a CUDA graph cannot hold.
    untimed = {"timing"} if backend == "flex_eager" else set()
    assert {failure.stage for failure in recording.failures} == untimed, recording.failures
    assert recording.mask_truth.wrong_pairs == 0, recording.mask_truth
    if recording.compilation is not None and recording.compilation.recompiles is not None:
        assert recording.compilation.recompiles == 0


@pytest.mark.parametrize("backend", ["naive", "sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn"])
def test_reading_the_mask_costs_little_of_a_run(backend):
    """The tutorial's case: under 50 ms, after one reading that loads what it needs."""
    import torch

    workload = parse_workload({"backend": backend})
    inputs = build_inputs(workload, "cuda", draw_tensors(workload, "cuda"))
    spent = []
    with build_call(entry_of(backend), workload, inputs) as call:
        for _ in range(5):
            call()
        torch.cuda.synchronize()
        began = time.perf_counter_ns()
        call()
        torch.cuda.synchronize()
        wall = Samples(samples_ns=(time.perf_counter_ns() - began,), method="for the test")
        for _ in range(3):
            began = time.perf_counter_ns()
            truth = read_applied_mask(entry_of(backend), workload, inputs, call, wall)
            torch.cuda.synchronize()
            spent.append((time.perf_counter_ns() - began) / 1e6)
    print(f"{backend}: {', '.join(f'{ms:.1f}' for ms in spent)} ms for {truth.pairs_checked} pairs; {truth.method}")
    assert truth.wrong_pairs == 0, truth
    assert truth.pairs_checked == 16 * 1024 * 1024
    assert min(spent) < 50


def test_the_silent_math_path_of_grouped_heads_in_float32(facts):
    """pytorch/pytorch#181528: math with no hint; both ways out are named and measured in the same entry."""
    fields = {"batch_size": 4, "num_heads": 24, "kv_heads": 12, "seq_len_q": 3081, "seq_len_kv": 3081, "head_dim": 64}
    recording = run(backend="sdpa_auto", dtype="float32", mask="none", measure_unlocks=True, **fields)
    assert recording.failures == ()
    report = analyze_recording(recording).report
    assert report.observed_backend.family == "math", report.observed_backend
    alarm = next(verdict for verdict in report.verdicts if verdict.rule == "silent_math")
    assert alarm.status == "fired"
    base = report.latency.device.median_ns
    measured = {(entry.backend, entry.change): entry for entry in report.unlock_measurements}
    for (backend, change), entry in measured.items():
        ns = None if entry.device is None else entry.device.median_ns
        print(f"{backend}: {change}: {ns} ns (math as asked {base} ns), {entry.within_budget}, {entry.skipped}")
    for key in (("sdpa_flash", "dtype → bfloat16"), ("sdpa_efficient", EXPANDED)):
        entry = measured[key]
        assert entry.skipped == ""
        assert entry.within_budget is True, entry
        assert entry.device.median_ns < base, (key, entry.device.median_ns, base)
        assert key[1] in alarm.advice
    bfloat16, expanded = measured["sdpa_flash", "dtype → bfloat16"], measured["sdpa_efficient", EXPANDED]
    assert bfloat16.device.median_ns < expanded.device.median_ns


def test_grouped_heads_of_dim_512_run_on_efficient_once_expanded():
    """huggingface/transformers#46960: math builds the score matrix; expanded heads let efficient run."""
    fields = {"num_heads": 16, "kv_heads": 8, "head_dim": 512, "seq_len_q": 2048, "seq_len_kv": 2048, "mask": "none"}
    recording = run(backend="sdpa_efficient", measure_unlocks=True, **fields)
    assert [failure.kind for failure in recording.failures] == ["refused"]
    (entry,) = (entry for entry in recording.unlock_measurements if entry.backend == "sdpa_efficient")
    print(f"{entry.change}: {entry.device}, {entry.max_abs_error} of {entry.error_budget} {entry.skipped}")
    assert (entry.change, entry.within_budget, entry.skipped) == (EXPANDED, True, "")
    on_math = run(backend="sdpa_auto", **fields)
    matrix = 2 * 16 * 2048 * 2048 * 4
    assert on_math.memory.materialized_bytes >= matrix, (on_math.memory, matrix)


@pytest.mark.parametrize("backend", ["sdpa_flash", "sdpa_cudnn"])
def test_head_dim_512_is_refused_in_pytorchs_words_and_256_is_not(backend):
    """Dao-AILab/flash-attention#2427, NVIDIA/TransformerEngine#3006."""
    refused = run(backend=backend, head_dim=512)
    assert [failure.kind for failure in refused.failures] == ["refused"]
    decision = next(entry for entry in refused.decisions if entry.backend == backend)
    assert "512" in decision.reason
    assert decision.raw_message
    assert run(backend=backend, head_dim=256).failures == ()


@pytest.mark.parametrize(
    ("pinned", "in_name", "not_in_name"),
    [
        ("FLASH_ATTENTION", "flash_fwd", "fmha_cutlass"),
        ("EFFICIENT_ATTENTION", "fmha_cutlass", "flash_fwd"),
        ("CUDNN_ATTENTION", "cudnn", "flash_fwd_kernel"),
    ],
)
def test_a_backend_pinned_around_compiled_code_is_honoured_by_kernel_name(pinned, in_name, not_in_name):
    """pytorch/pytorch#149725, #155898, #134608: the choice was lost under torch.compile; kernel names are the proof.

    Without the cache of whole graphs on disk: its key leaves the pin out, so that torch 2.11 hands a graph that was
    compiled under another pin to this one.
    """
    import torch
    import torch._functorch.config
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from attention.backends.compiled import fresh_compiler

    _, inputs = build("sdpa_auto", mask="none")
    uncached = torch._functorch.config.patch(enable_autograd_cache=False)
    with uncached, fresh_compiler(), sdpa_kernel(getattr(SDPBackend, pinned)), torch.no_grad():
        compiled = torch.compile(torch.nn.functional.scaled_dot_product_attention)
        compiled(inputs.query, inputs.key, inputs.value)
        torch.cuda.synchronize()
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            compiled(inputs.query, inputs.key, inputs.value)
            torch.cuda.synchronize()
    kernels = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    print(f"{pinned}: {kernels}")
    assert any(in_name in name for name in kernels), kernels
    assert not any(not_in_name in name for name in kernels), kernels
