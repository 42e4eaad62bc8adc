"""Faults that users of attention reported publicly, as calls on this CPU with the right value.

Each docstring names the report. Rules and words are in tests/unit/test_user_reports_rules.py.
"""

from dataclasses import replace

import pytest

from attention.backends import BACKENDS
from attention.call import build_call
from attention.inputs import build_inputs, draw_tensors
from attention.lookup import find
from attention.reference import build_reference
from attention.validation import parse_workload
from profiling.correctness import check_results
from profiling.mask_truth import read_applied_mask
from profiling.non_finite import find_non_finite
from profiling.recorder import record
from profiling.recording import Recording, RunRequest, Samples
from profiling.report import analyze_recording
from tests.torch_cpu.drawn_workloads import draw_workloads

BASE = {"batch_size": 2, "num_heads": 4, "kv_heads": 4, "seq_len_q": 32, "seq_len_kv": 32, "head_dim": 16}
FUSED = ("sdpa_auto", "sdpa_math", "sdpa_flash")
EAGER = ("naive", "naive_inplace", *FUSED)


def build(backend, **fields):
    workload = parse_workload(BASE | {"dtype": "float32", "backend": backend} | fields)
    return workload, build_inputs(workload, "cpu", draw_tensors(workload, "cpu"))


def results_of(workload, inputs):
    with build_call(find(workload.backend, BACKENDS, field="backend"), workload, inputs) as call:
        return call()


def call(backend, **fields):
    workload, inputs = build(backend, **fields)
    return workload, inputs, results_of(workload, inputs)


def deltas(backend, **fields):
    workload, inputs, results = call(backend, **fields)
    return check_results(workload, inputs, results)


@pytest.mark.parametrize("backend", EAGER)
def test_gradients_are_finite_with_an_all_true_mask_and_very_low_scores(backend):
    """pytorch/pytorch#196678: NaN in grad_query alone; L = 704, an all-True mask, row logsumexp below -88.7."""
    import torch

    fields = {"batch_size": 1, "num_heads": 1, "kv_heads": 1, "seq_len_q": 704, "seq_len_kv": 704, "head_dim": 32}
    fields |= {"mask": "random", "mask_density": 1.0, "direction": "forward_backward"}
    workload, inputs = build(backend, **fields)
    assert inputs.allowed.all()
    with torch.no_grad():  # one dimension of its own lowers every score by 100
        inputs.query[..., 0], inputs.key[..., 0] = -100 * 32**0.5, 1.0
        scores = (inputs.query @ inputs.key.mT) * workload.softmax_scale
        assert scores.logsumexp(-1).max() < -80
    for delta in check_results(workload, inputs, results_of(workload, inputs)):
        assert (delta.nan_count, delta.inf_count) == (0, 0), delta.tensor
        assert delta.within_budget, delta


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_decoding_with_few_key_value_heads_agrees_on_every_backend(kv_heads):
    """pytorch/pytorch#193893: decoding with fewer than 8 key/value heads is part of the set that is checked."""
    fields = {"kv_heads": kv_heads, "seq_len_q": 1, "seq_len_kv": 65, "mask_alignment": "lower_right"}
    for backend in EAGER:
        (delta,) = deltas(backend, **fields)
        assert delta.within_budget, (backend, delta)


def test_an_error_in_the_last_rows_alone_is_found():
    """pytorch/pytorch#187227: late rows are plausible garbage, and a mean over all rows hides it."""
    workload, inputs = build("sdpa_math", seq_len_q=512, seq_len_kv=512)
    output = results_of(workload, inputs)[0].clone()
    output[:, :, 500:] = inputs.value[:, :, :12]
    (delta,) = check_results(workload, inputs, (output,))
    assert delta.within_budget is False
    assert delta.worst_index[2] >= 500


def test_another_backend_gives_the_same_answer():
    """pytorch/pytorch#139298: an upgrade that changes the default backend must not change the result."""
    outputs = [call(backend, direction="forward_backward")[2] for backend in FUSED]
    for other in outputs[1:]:
        for first, second in zip(outputs[0], other, strict=True):
            assert first.allclose(second, atol=1e-5, rtol=1e-4)


def test_a_mask_that_a_backend_ignores_is_told_from_one_that_allows_everything():
    """huggingface/diffusers#12605: the output equals that of no mask."""
    ignoring = replace(
        find("naive", BACKENDS, field="backend"),
        build=lambda workload, inputs: find("naive", BACKENDS, field="backend").build(
            workload, replace(inputs, allowed=None)
        ),
    )
    for mask, ignored, wrong in (
        ({"mask": "causal"}, True, 4 * 32 * 31 // 2),
        ({"mask": "random", "mask_density": 1.0}, False, 0),
    ):
        workload, inputs = build("naive", **mask)
        with build_call(ignoring, workload, inputs) as ignoring_call:
            truth = read_applied_mask(
                ignoring, workload, inputs, ignoring_call, Samples(samples_ns=(10**6,), method="for the test")
            )
        assert (truth.ignored, truth.wrong_pairs) == (ignored, wrong)


@pytest.mark.parametrize("form", ["bool", "additive"])
@pytest.mark.parametrize("backend", FUSED)
def test_dead_rows_are_zeros_forward_and_backward(backend, form):
    """pytorch/pytorch#103749, #103963: NaN before 2.5, zeros since, for an all-False and an all -inf row."""
    fields = {"mask": "dead_rows", "mask_count": 5, "mask_form": form, "direction": "forward_backward"}
    workload, inputs, (output, *gradients) = call(backend, **fields)
    assert output[:, :, 27:].count_nonzero() == 0
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0][:, :, 27:].count_nonzero() == 0
    assert all(delta.within_budget for delta in check_results(workload, inputs, (output, *gradients)))


@pytest.mark.parametrize("backend", ["naive", "naive_inplace"])
def test_dead_rows_of_the_plain_formula_are_nan_and_told_apart(backend):
    """pytorch/pytorch#103749: softmax over minus infinity alone is NaN, and those rows are counted apart."""
    workload, _, results = call(backend, mask="dead_rows", mask_count=5)
    (found,) = find_non_finite(workload, results)
    assert (found.tensor, found.in_live_rows) == ("output", 0)
    assert found.in_dead_rows == 2 * 4 * 5 * 16
    assert [(part.batch, part.start, part.stop, part.dead) for part in found.ranges] == [
        (0, 27, 32, True),
        (1, 27, 32, True),
    ]


@pytest.mark.parametrize("backend", EAGER)
def test_a_row_of_the_least_finite_number_averages_value(backend):
    """pytorch/pytorch#109517: a whole row of finfo.min is no dead row; softmax of equal scores is uniform."""
    import torch

    workload, inputs = build(backend, mask="causal", mask_form="additive")
    bias = inputs.bias.clone()
    bias[..., 3, :] = torch.finfo(torch.float32).min
    output = results_of(workload, replace(inputs, bias=bias))[0]
    assert output[:, :, 3].allclose(inputs.value.mean(dim=2), atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("backend", EAGER)
def test_padding_keeps_every_output_finite(backend, side):
    """huggingface/transformers#32390: padded query rows must not turn into NaN that the next layer spreads."""
    workload, inputs, results = call(backend, mask="padding", mask_lengths="7,32", mask_side=side)
    assert find_non_finite(workload, results) == ()
    assert check_results(workload, inputs, results)[0].within_budget


@pytest.mark.parametrize("backend", FUSED)
def test_left_padding_with_causal_gives_zeros_in_padded_rows(backend):
    """huggingface/transformers#38690: backends disagreed, zeros on math and NaN on the CPU's flash path."""
    import torch

    workload, inputs = build(backend, mask="padding", mask_lengths="7,32", mask_side="left")
    allowed = inputs.allowed & torch.ones(32, 32).tril().bool()
    output = results_of(workload, replace(inputs, allowed=allowed))[0]
    assert output.isfinite().all()
    assert output[0, :, :25].count_nonzero() == 0  # rows before the first key that is no padding


def test_nan_of_an_entry_that_is_all_padding_is_harmless_and_says_where_it_is():
    """huggingface/transformers#32390, unslothai/unsloth#9848: harmless NaN is told from harmful."""
    workload, _, results = call("naive", mask="padding", mask_lengths="0,32")
    (found,) = find_non_finite(workload, results)
    assert (found.in_live_rows, found.in_dead_rows) == (0, 4 * 32 * 16)
    assert [(part.batch, part.start, part.stop) for part in found.ranges] == [(0, 0, 32)]
    spread = results[0].clone()
    spread[1, 2, 9, 0] = float("nan")
    spread[1, 0, 30, 0] = float("inf")
    (found,) = find_non_finite(workload, (spread,))
    assert (found.in_live_rows, found.in_dead_rows) == (2, 4 * 32 * 16)
    assert [(part.start, part.dead) for part in found.ranges if part.batch == 1] == [(9, False), (30, False)]


def test_a_run_with_padding_reports_its_nan_by_row():
    fields = BASE | {"dtype": "float32", "backend": "naive", "mask": "padding", "mask_lengths": "0,32"}
    (recording,) = (
        item
        for item in record(RunRequest(workloads=(parse_workload(fields),), device="cpu"))
        if isinstance(item, Recording)
    )
    report = analyze_recording(recording).report
    assert [(rows.in_live_rows, rows.in_dead_rows) for rows in report.non_finite] == [(0, 4 * 32 * 16)]
    assert report.correctness[0].within_budget


def test_ranges_of_rows_are_bounded():
    workload, _, results = call("naive", mask="none", seq_len_q=100, batch_size=1)
    striped = results[0].clone()
    striped[:, :, ::2, 0] = float("nan")
    (found,) = find_non_finite(workload, (striped,))
    assert (len(found.ranges), found.ranges_left_out) == (16, 34)
    assert found.in_live_rows == 4 * 50


def test_the_reference_has_zeros_where_a_row_may_attend_to_nothing():
    """pytorch/pytorch#190486: nn.MultiheadAttention gives NaN there; our reference is the formula with zeros."""
    workload, inputs = build("naive", mask="dead_rows", mask_count=5)
    for block in build_reference(workload, inputs):
        assert block.exact.isfinite().all()
        assert block.exact[:, 27:].count_nonzero() == 0


@pytest.mark.parametrize("backend", FUSED)
def test_one_query_row_sees_key_0_from_the_upper_left_and_all_keys_from_the_lower_right(backend):
    """pytorch/pytorch#108108, #144858: decoding with is_causal repeats the value of the first token."""
    fields = {"seq_len_q": 1, "seq_len_kv": 16}
    _, inputs, (upper,) = call(backend, mask_alignment="upper_left", **fields)
    assert inputs.is_causal
    assert upper[:, :, 0].allclose(inputs.value[:, :, 0], atol=1e-6)
    _, inputs, (lower,) = call(backend, mask_alignment="lower_right", **fields)
    assert not inputs.is_causal
    weights = (inputs.query @ inputs.key.mT / 4).softmax(-1)
    assert lower.allclose(weights @ inputs.value, atol=1e-5)
    assert (lower - upper).abs().max() > 0.1


@pytest.mark.parametrize("backend", FUSED)
def test_more_queries_than_keys_from_the_lower_right_leave_rows_of_zeros(backend):
    """Dao-AILab/flash-attention#1778, #402: by design; the rows are counted before the run."""
    workload, inputs, (output,) = call(backend, seq_len_q=32, seq_len_kv=10, mask_alignment="lower_right")
    assert output[:, :, :22].count_nonzero() == 0
    (delta,) = check_results(workload, inputs, (output,))
    assert delta.dead_rows == 2 * 22
    assert delta.within_budget


@pytest.mark.parametrize("lengths", [(1, 16), (16, 1), (7, 16), (16, 7)])
@pytest.mark.parametrize("backend", EAGER)
def test_both_corners_are_right_and_differ_when_lengths_do(backend, lengths):
    """ml-explore/mlx#2835, pytorch/executorch#22426: error 2.7 to 4.1 at unequal lengths, none at equal ones."""
    outputs = []
    for corner in ("upper_left", "lower_right"):
        workload, inputs, results = call(backend, seq_len_q=lengths[0], seq_len_kv=lengths[1], mask_alignment=corner)
        assert check_results(workload, inputs, results)[0].within_budget
        outputs.append(results[0].nan_to_num())
    assert (outputs[0] - outputs[1]).abs().max() > 0.5


def test_a_mask_and_is_causal_are_never_passed_together(monkeypatch):
    """pytorch/pytorch#187801: an error on one device, accepted on another; dropout_p is never passed either."""
    import torch

    sdpa = torch.nn.functional.scaled_dot_product_attention
    seen = []

    def watched(*arguments, **options):
        seen.append(options)
        return sdpa(*arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    workloads = draw_workloads(60, seed=18, longest=32)
    for workload in workloads:
        asked = replace(workload, backend="sdpa_math")
        results_of(asked, build_inputs(asked, "cpu", draw_tensors(asked, "cpu")))
    assert len(seen) == len(workloads)
    assert {(options["attn_mask"] is not None, options["is_causal"]) for options in seen} == {
        (False, False),
        (False, True),
        (True, False),
    }
    assert all(options.get("dropout_p", 0.0) == 0.0 for options in seen)


@pytest.mark.parametrize("backend", EAGER)
def test_two_calls_give_the_same_bits(backend):
    """pytorch/pytorch#124464: outputs that differ from call to call come from dropout that was left on."""
    workload, inputs = build(backend)
    with build_call(find(backend, BACKENDS, field="backend"), workload, inputs) as repeated:
        assert repeated()[0].equal(repeated()[0])


def test_a_backend_pinned_around_compiled_code_is_honoured():
    """pytorch/pytorch#149725, #155898: the context goes around the compiled call, and names are the proof."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from attention.backends.compiled import fresh_compiler

    _, inputs = build("sdpa_auto")
    names = {}
    for pinned in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        with fresh_compiler(), sdpa_kernel(pinned), torch.no_grad():
            compiled = torch.compile(torch.nn.functional.scaled_dot_product_attention, backend="aot_eager")
            compiled(inputs.query, inputs.key, inputs.value)
            with torch.profiler.profile() as profile:
                compiled(inputs.query, inputs.key, inputs.value)
        names[pinned] = {event.key for event in profile.key_averages()}
    assert any("flash_attention" in name for name in names[SDPBackend.FLASH_ATTENTION])
    assert not any("flash_attention" in name for name in names[SDPBackend.MATH])
