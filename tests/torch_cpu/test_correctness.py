"""The oracle against an independent one, and faults that a check must catch."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention.backends import BACKENDS, DeviceFacts
from attention.call import build_call
from attention.inputs import build_inputs, fingerprint
from attention.known_faults import find_known_faults
from attention.lookup import find
from attention.masks import mask_of
from attention.reference import build_reference
from attention.validation import parse_workload
from profiling.correctness import check_output, check_results
from profiling.environment import build_device_facts, capture_environment

SMALL = {"batch_size": 2, "num_heads": 4, "kv_heads": 2, "seq_len_q": 48, "seq_len_kv": 48, "head_dim": 16}


def build(**fields):
    return parse_workload(SMALL | {"dtype": "float32"} | fields)


def run(workload):
    import torch

    inputs = build_inputs(workload, "cpu")
    with torch.no_grad(), find(workload.backend, BACKENDS, field="backend").build(workload, inputs) as call:
        return inputs, call()


def plain_python_attention(workload, inputs, batch, head, row):
    """One output row by the formula, in Python floats and math.fsum: no torch operator in it."""
    import math

    kv_head = head // (workload.num_heads // workload.kv_heads)
    query = inputs.query[batch, head, row].double().tolist()
    keys, values = inputs.key[batch, kv_head].double().tolist(), inputs.value[batch, kv_head].double().tolist()
    mask_mod = mask_of(workload).build_mod(workload)
    scores = {
        k: math.fsum(a * b for a, b in zip(query, keys[k], strict=True)) * workload.softmax_scale
        for k in range(workload.seq_len_kv)
        if mask_mod is None or mask_mod(batch, head, row, k)
    }
    if not scores:
        return [0.0] * workload.value_dim
    largest = max(scores.values())
    weights = {k: math.exp(score - largest) for k, score in scores.items()}
    total = math.fsum(weights.values())
    return [math.fsum(weights[k] * values[k][d] for k in weights) / total for d in range(workload.value_dim)]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"mask": "none"},
        {"scale": 0.5},
        {"seq_len_q": 7, "mask_alignment": "lower_right"},
        {"seq_len_q": 60, "mask_alignment": "lower_right"},
        {"seq_len_q": 7, "mask_alignment": "upper_left"},
    ],
    ids=str,
)
def test_reference_agrees_with_plain_python(fields):
    workload = build(**fields)
    inputs = build_inputs(workload, "cpu")
    for block in build_reference(workload, inputs):
        for head in (0, workload.num_heads - 1):
            for row in (block.start, block.stop - 1):
                theirs = plain_python_attention(workload, inputs, block.batch, head, row)
                assert block.exact[head, row - block.start].tolist() == pytest.approx(theirs, rel=1e-12, abs=1e-14)


def test_reference_does_not_depend_on_the_block_size(monkeypatch):
    import torch

    import attention.reference

    workload = build()
    inputs = build_inputs(workload, "cpu")
    whole = torch.cat([block.exact for block in build_reference(workload, inputs)], dim=1)
    monkeypatch.setattr(attention.reference, "REFERENCE_BLOCK_ELEMENTS", workload.num_heads * workload.seq_len_kv * 5)
    blocks = list(build_reference(workload, inputs))
    assert len(blocks) == 2 * 10
    torch.testing.assert_close(torch.cat([block.exact for block in blocks], dim=1), whole, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("backend", ["naive", "naive_inplace", "sdpa_auto", "sdpa_math", "sdpa_flash"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("form", ["auto", "bool", "additive"])
def test_every_cpu_backend_is_within_budget(backend, dtype, form):
    workload = build(backend=backend, dtype=dtype, mask_form=form)
    facts = build_device_facts(capture_environment("cpu"))
    decision = find(backend, BACKENDS, field="backend").check(workload, facts)
    if decision.verdict == "rejected":
        pytest.skip(f"{backend} {decision.reason}, torch {facts.torch_version}")
    inputs, output = run(workload)
    delta = check_output(workload, inputs, output)
    assert delta.within_budget, delta
    assert delta.nan_count == delta.inf_count == delta.dead_rows == 0


@pytest.mark.parametrize("backend", ["naive", "sdpa_math"])
def test_an_all_ones_value_gives_ones(backend):
    from dataclasses import replace

    import torch

    workload = build(backend=backend)
    inputs = replace(build_inputs(workload, "cpu"), value=torch.ones(2, 2, 48, 16))
    with find(backend, BACKENDS, field="backend").build(workload, inputs) as call:
        torch.testing.assert_close(call(), torch.ones(2, 4, 48, 16))


def test_one_wrong_element_is_found_and_named():
    workload = build()
    inputs, output = run(workload)
    output[1, 3, 47, 5] += 0.01
    delta = check_output(workload, inputs, output)
    assert delta.within_budget is False
    assert delta.worst_index == (1, 3, 47, 5)
    assert delta.max_abs_error == pytest.approx(0.01, rel=1e-3)
    assert delta.worst_value - delta.worst_reference == pytest.approx(0.01, rel=1e-3)


def test_an_ignored_mask_is_over_budget():
    workload = build()
    inputs, _ = run(workload)
    _, unmasked = run(build(mask="none"))
    assert check_output(workload, inputs, unmasked).within_budget is False


def test_the_other_corner_is_over_budget():
    fields = {"seq_len_q": 16}
    workload = build(mask_alignment="lower_right", **fields)
    inputs, _ = run(workload)
    _, other = run(build(mask_alignment="upper_left", **fields))
    assert check_output(workload, inputs, other).within_budget is False


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf")])
def test_a_non_finite_element_fails_and_is_counted(poison):
    workload = build()
    inputs, output = run(workload)
    output[0, 0, 3, 2] = poison
    delta = check_output(workload, inputs, output)
    assert delta.within_budget is False
    assert delta.nan_count + delta.inf_count == 1
    # The rest is still compared, and the poison is no error figure.
    assert delta.max_abs_error < delta.error_budget


def test_an_output_of_nan_alone_is_no_number():
    workload = build()
    inputs, output = run(workload)
    delta = check_output(workload, inputs, output.fill_(float("nan")))
    assert delta.within_budget is False
    assert delta.max_abs_error is delta.rms_error is delta.worst_index is None


def test_nan_in_dead_rows_alone_is_counted_and_not_judged():
    # naive divides 0 by 0 in rows that may attend to nothing.
    workload = build(backend="naive", seq_len_q=60, mask_alignment="lower_right")
    inputs, output = run(workload)
    delta = check_output(workload, inputs, output)
    assert delta.dead_rows == 12 * workload.batch_size
    assert delta.nan_count == 12 * workload.batch_size * workload.num_heads * workload.value_dim
    assert delta.within_budget
    assert "left out" in delta.budget_basis


@pytest.mark.parametrize(
    ("form", "poisoned"), [("bool", {"grad_value"}), ("additive", {"grad_query", "grad_key", "grad_value"})]
)
def test_which_gradients_the_known_fault_of_naive_reaches(form, poisoned):
    workload = build(
        backend="naive", seq_len_q=60, mask_alignment="lower_right", mask_form=form, direction="forward_backward"
    )
    inputs = build_inputs(workload, "cpu")
    backend = find("naive", BACKENDS, field="backend")
    with build_call(backend, workload, inputs) as call:
        deltas = check_results(workload, inputs, call())
    assert {delta.tensor for delta in deltas if delta.within_budget is False} == poisoned
    (fault,) = find_known_faults(workload, DeviceFacts(kind="cpu", torch_version=(2, 14)))
    assert "reaches grad_value, and with an additive mask every gradient" in fault.explanation


def test_reference_samples_are_the_reference():
    workload = build()
    inputs, output = run(workload)
    samples = check_output(workload, inputs, output).reference_samples
    assert len(samples) >= 8
    assert samples[-1].index == (1, 3, 47, 15)
    for sample in samples:
        batch, head, row, column = sample.index
        exact = plain_python_attention(workload, inputs, batch, head, row)[column]
        assert sample.value == pytest.approx(exact, rel=1e-12)


def test_inputs_come_from_the_seed_alone():
    first, again, other = (fingerprint(build_inputs(build(seed=seed), "cpu")) for seed in (3, 3, 4))
    assert first == again
    assert all(first[name] != other[name] for name in first)


def test_fingerprint_sees_one_flipped_bit():
    inputs = build_inputs(build(dtype="bfloat16"), "cpu")
    before = fingerprint(inputs)
    inputs.key.view(__import__("torch").int16)[0, 0, 0, 0] ^= 1
    after = fingerprint(inputs)
    assert before["query"] == after["query"]
    assert abs(before["key"] - after["key"]) == 1


@settings(max_examples=25, deadline=None)
@given(
    seq_len_q=st.integers(1, 33),
    seq_len_kv=st.integers(1, 33),
    kv_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    head_dim=st.integers(1, 24),
    alignment=st.sampled_from(["upper_left", "lower_right"]),
    backend=st.sampled_from(["naive", "naive_inplace", "sdpa_math"]),
)
def test_any_shape_is_within_budget(seq_len_q, seq_len_kv, kv_heads, groups, head_dim, alignment, backend):
    workload = build(
        backend=backend,
        seq_len_q=seq_len_q,
        seq_len_kv=seq_len_kv,
        kv_heads=kv_heads,
        num_heads=kv_heads * groups,
        head_dim=head_dim,
        mask_alignment=alignment,
    )
    inputs, output = run(workload)
    delta = check_output(workload, inputs, output)
    assert delta.within_budget in (True, None), delta
    assert delta.dead_rows == mask_of(workload).count_dead_rows(workload)


def test_a_fault_in_late_rows_fails_although_it_is_small_beside_the_first():
    # Late causal rows average many values: an error as large as they are is small beside row 0.
    shape = {"batch_size": 1, "num_heads": 2, "seq_len_q": 1024, "seq_len_kv": 1024, "head_dim": 64}
    workload = build(backend="sdpa_flash", dtype="bfloat16", **shape)
    inputs, output = run(workload)
    whole = check_output(workload, inputs, output)
    assert whole.within_budget, whole
    output[0, 1, 1000, 7] += whole.error_budget / 2
    delta = check_output(workload, inputs, output)
    assert delta.within_budget is False
    assert delta.worst_index == (0, 1, 1000, 7)
    assert delta.error_budget < delta.max_abs_error < whole.error_budget
    assert "query rows 896 to 1023 of batch entry 0" in delta.budget_basis


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_sum_in_another_order_is_not_called_wrong(dtype):
    # Unmasked rows average 2048 values to little: the terms cancel, and flash adds them up in another order.
    shape = {"batch_size": 1, "num_heads": 2, "seq_len_q": 2048, "seq_len_kv": 2048, "head_dim": 64}
    workload = build(backend="sdpa_flash", dtype=dtype, mask="none", **shape)
    inputs, output = run(workload)
    delta = check_output(workload, inputs, output)
    assert delta.within_budget, delta


def test_where_the_formula_itself_overflows_nothing_is_judged():
    # Scores near 1e5 are infinite in float16, and a softmax over infinities is NaN.
    workload = build(backend="sdpa_flash", dtype="float16", scale=1e4)
    inputs, output = run(workload)
    delta = check_output(workload, inputs, output)
    assert delta.error_budget is None
    assert delta.within_budget is (False if delta.nan_count + delta.inf_count else None)
    assert delta.budget_basis.startswith("not judged: an independent float16 run of the formula is not finite")
    assert delta.max_abs_error is not None


GRADIENT_BACKENDS = ("naive", "naive_inplace", "sdpa_math", "sdpa_flash", "sdpa_auto")


def run_backward(workload):
    inputs = build_inputs(workload, "cpu")
    with build_call(find(workload.backend, BACKENDS, field="backend"), workload, inputs) as call:
        return inputs, call()


@pytest.mark.parametrize("backend", GRADIENT_BACKENDS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("form", ["auto", "bool", "additive"])
def test_gradients_are_within_budget(backend, dtype, form):
    workload = build(backend=backend, dtype=dtype, mask_form=form, kv_heads=4, direction="forward_backward")
    deltas = check_results(workload, *run_backward(workload))
    assert [delta.tensor for delta in deltas] == ["output", "grad_query", "grad_key", "grad_value"]
    assert all(delta.within_budget for delta in deltas), deltas


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "expanded_kv"])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_gradients_of_every_layout_and_group(layout, kv_heads):
    workload = build(backend="naive", layout=layout, kv_heads=kv_heads, direction="forward_backward")
    inputs, results = run_backward(workload)
    presented = 4 if layout == "expanded_kv" else kv_heads
    assert results[2].shape == (2, presented, 48, 16)
    assert all(delta.within_budget for delta in check_results(workload, inputs, results))


ONE_KEY_A_ROW = {
    "a window of one key": {"mask": "sliding_window", "mask_window": 1},
    "one key for many rows": {"mask": "none", "seq_len_q": 512, "seq_len_kv": 1},
    "one row from the upper left": {"seq_len_q": 1, "seq_len_kv": 64, "mask_alignment": "upper_left"},
}


@pytest.mark.parametrize("name", ONE_KEY_A_ROW)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_gradients_that_cancel_to_nothing_are_not_called_wrong(name, dtype):
    sizes = {"head_dim": 256, "kv_heads": 1, "dtype": dtype}
    for backend in ("sdpa_flash", "sdpa_math", "naive"):
        workload = build(backend=backend, direction="forward_backward", **sizes | ONE_KEY_A_ROW[name])
        inputs, results = run_backward(workload)
        deltas = check_results(workload, inputs, results)
        assert all(delta.within_budget for delta in deltas), (backend, deltas)
        assert "may cancel" in deltas[1].budget_basis
        assert "may cancel" not in deltas[3].budget_basis


def test_what_may_cancel_hides_no_small_fault():
    workload = build(direction="forward_backward", head_dim=64)
    for position in (1, 2):
        inputs, results = run_backward(workload)
        results[position][0, 1, 7, 5] += 1e-4
        deltas = check_results(workload, inputs, results)
        assert [index for index, delta in enumerate(deltas) if not delta.within_budget] == [position]


def test_gradient_reference_is_torchs_own_gradcheck():
    import torch
    from torch.autograd import gradcheck

    from attention.reference import build_gradient_reference

    workload = build(dtype="float64", direction="forward_backward", seq_len_q=9, seq_len_kv=9, head_dim=3, batch_size=1)
    inputs = build_inputs(workload, "cpu")
    with build_call(find("sdpa_math", BACKENDS, field="backend"), workload, inputs) as call:
        _, *theirs = call()
    ours = {name: block.exact for name, block in build_gradient_reference(workload, inputs)}
    for name, gradient in zip(("grad_query", "grad_key", "grad_value"), theirs, strict=True):
        torch.testing.assert_close(ours[name], gradient[0], rtol=1e-10, atol=1e-12)

    def formula(query, key, value):
        from attention.backends.naive import attend, repeat_heads

        masked = torch.ones(9, 9, dtype=torch.bool).triu(1)
        heads = (repeat_heads(tensor, 4) for tensor in (key, value))
        return attend(query, *heads, masked=masked, bias=None, scale=workload.softmax_scale, in_place=True)

    assert gradcheck(formula, (inputs.query, inputs.key, inputs.value))


@pytest.mark.parametrize("position", [1, 2, 3])
def test_one_wrong_gradient_element_is_found_and_named(position):
    workload = build(direction="forward_backward")
    inputs, results = run_backward(workload)
    results[position][1, 1, 40, 3] += 0.05
    deltas = check_results(workload, inputs, results)
    assert [index for index, delta in enumerate(deltas) if not delta.within_budget] == [position]
    assert deltas[position].worst_index == (1, 1, 40, 3)


def test_rows_that_attend_to_nothing_pass_no_gradient_on():
    workload = build(backend="sdpa_math", seq_len_q=60, mask_alignment="lower_right", direction="forward_backward")
    inputs, results = run_backward(workload)
    deltas = check_results(workload, inputs, results)
    assert deltas[0].dead_rows == 12 * workload.batch_size
    assert all(delta.within_budget for delta in deltas[2:]), deltas
