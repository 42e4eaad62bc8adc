"""Masks as tensors: equal to the predicate on plain ints, and obeyed by what runs on a CPU."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from attention.backends import BACKENDS
from attention.inputs import allowed_rows, bias_rows, build_allowed, build_bias, build_inputs
from attention.lookup import find
from attention.masks import MASKS, mask_of
from attention.tensors import Inputs
from attention.validation import parse_workload
from attention.workload import DType, MaskForm, Workload
from profiling.correctness import check_output

if TYPE_CHECKING:
    import torch

# Every mask on lengths that are equal, more keys, more rows, odd, and a single row, as far as it takes them.
SQUARE, WIDE, TALL, ODD, ROW = (12, 12), (5, 16), (16, 5), (7, 13), (1, 9)
CASES: tuple[tuple[str, tuple[int, int], dict[str, Any]], ...] = (
    ("none", WIDE, {}),
    *(("causal", shape, {"alignment": corner}) for shape in (SQUARE, WIDE, TALL, ROW) for corner in ("upper_left",)),
    *(("causal", shape, {"alignment": "lower_right"}) for shape in (WIDE, TALL, ODD, ROW)),
    *(("sliding_window", shape, {"window": 3, "alignment": "upper_left"}) for shape in (SQUARE, WIDE, TALL)),
    *(("sliding_window", shape, {"window": 1, "alignment": "lower_right"}) for shape in (ODD, TALL, ROW)),
    *(("prefix_lm", shape, {"prefix_length": 4, "alignment": "upper_left"}) for shape in (SQUARE, WIDE, TALL)),
    *(("prefix_lm", shape, {"prefix_length": 0, "alignment": "lower_right"}) for shape in (ODD, TALL)),
    ("document", SQUARE, {"lengths": "12"}),
    ("document", SQUARE, {"lengths": "1,4,7"}),
    ("document", (1, 1), {"lengths": "1"}),
    *(
        ("padding", shape, {"lengths": "3", "side": side})
        for shape in (SQUARE, TALL, ROW)
        for side in ("left", "right")
    ),
    *(("padding", shape, {"lengths": "5,0,2", "side": side}) for shape in (WIDE, TALL) for side in ("left", "right")),
    *(("alibi", shape, {"alignment": "upper_left"}) for shape in (SQUARE, WIDE, TALL)),
    *(("alibi", shape, {"alignment": "lower_right"}) for shape in (ODD, TALL, ROW)),
    *(
        ("random", shape, {"density": 0.3, "seed": seed})
        for shape in (SQUARE, WIDE, TALL, ROW)
        for seed in (0, 2**63 - 1)
    ),
    ("random", (3, 1031), {"density": 0.5}),
    ("dead_rows", SQUARE, {"count": 1}),
    ("dead_rows", TALL, {"count": 15}),
)


def build(mask: str, shape: tuple[int, int], parameters: dict[str, Any], **fields: object) -> Workload:
    given = {f"mask_{name}": value for name, value in parameters.items()}
    sizes = {"batch_size": 3, "num_heads": 6, "kv_heads": 6, "seq_len_q": shape[0], "seq_len_kv": shape[1]}
    return parse_workload(
        {"backend": "naive", "head_dim": 8, "mask": mask, "dtype": "float32"} | sizes | given | fields
    )


def name_of(case: object) -> str:
    return "-".join(map(str, case.values())) if isinstance(case, dict) else str(case).replace(" ", "")


@pytest.mark.parametrize(("mask", "shape", "parameters"), CASES, ids=name_of)
def test_the_dense_tensor_is_the_predicate_on_ints(
    mask: str, shape: tuple[int, int], parameters: dict[str, Any]
) -> None:
    workload = build(mask, shape, parameters)
    mask_mod, bias_mod = mask_of(workload).build_mod(workload), mask_of(workload).build_bias(workload)
    dense = build_allowed(workload, "cpu")
    assert (dense is None) == (mask_mod is None)
    if dense is None or mask_mod is None:
        return
    sizes = (workload.batch_size, workload.num_heads, *shape)
    assert dense.shape[2:] == shape
    whole = dense.expand(sizes)
    bias = bias_rows(workload, "cpu", slice(0, workload.batch_size), slice(0, shape[0]))
    assert (bias is None) == (bias_mod is None)
    for batch, head, row, key in indices(sizes):
        assert bool(whole[batch, head, row, key]) is bool(mask_mod(batch, head, row, key))
        if bias is not None and bias_mod is not None:
            expected = bias_mod(batch, head, row, key)
            assert float(bias.expand(sizes)[batch, head, row, key]) == pytest.approx(expected, rel=1e-6)
    assert int(whole[:, 0].sum()) == mask_of(workload).count_allowed(workload)
    assert int((~whole[:, 0].any(dim=-1)).sum()) == mask_of(workload).count_dead_rows(workload)


def indices(sizes: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """All batch entries and heads, and of each at most 200 pairs."""
    batches, heads, rows, keys = sizes
    step = max(1, rows * keys // 200)
    for batch in range(batches):
        for head in range(heads):
            for pair in range(0, rows * keys, step):
                yield batch, head, pair // keys, pair % keys


@pytest.mark.parametrize(("mask", "shape", "parameters"), CASES, ids=name_of)
def test_a_block_of_rows_is_that_part_of_the_whole(
    mask: str, shape: tuple[int, int], parameters: dict[str, Any]
) -> None:
    import torch

    workload = build(mask, shape, parameters)
    whole = build_allowed(workload, "cpu")
    part = allowed_rows(workload, "cpu", slice(1, 3), slice(shape[0] // 2, shape[0]))
    if whole is None or part is None:
        assert whole is part
        return
    batches = slice(1, 3) if mask_of(workload).varies_by_batch else slice(0, 1)
    assert torch.equal(part, whole[batches, :, shape[0] // 2 :])


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_additive_forms_say_the_same_mask(dtype: str) -> None:
    import torch

    for mask, shape, parameters in CASES:
        if mask == "none":
            continue
        for form, expected in (("additive", getattr(torch, dtype)), ("additive_float32", torch.float32)):
            workload = build(mask, shape, parameters, mask_form=form, dtype=dtype)
            bias, allowed = build_bias(workload, "cpu"), build_allowed(workload, "cpu")
            assert allowed is not None
            assert bias.dtype == expected
            assert torch.equal(torch.isneginf(bias), ~allowed.expand(bias.shape))


# What runs: larger, so that the budgets have something to judge.
RUN_CASES: tuple[tuple[str, tuple[int, int], dict[str, Any]], ...] = (
    ("none", (70, 70), {}),
    ("causal", (70, 70), {}),
    ("causal", (40, 90), {"alignment": "lower_right"}),
    ("sliding_window", (70, 70), {"window": 9}),
    ("prefix_lm", (70, 70), {"prefix_length": 20}),
    ("document", (70, 70), {"lengths": "30,1,39"}),
    ("padding", (70, 70), {"lengths": "50,70,1"}),
    ("padding", (40, 90), {"lengths": "33", "side": "left"}),
    ("alibi", (70, 70), {}),
    ("alibi", (40, 90), {"alignment": "lower_right"}),
    ("random", (70, 70), {"density": 0.2, "seed": 3}),
    ("dead_rows", (70, 70), {"count": 6}),
)
RUNNING = ("naive", "naive_inplace", "sdpa_math", "sdpa_flash")


def forms_of(mask: str) -> tuple[str, ...]:
    """The forms that the mask takes, auto among them."""
    taken = {"none": (), "causal": ("is_causal", "bool", "additive", "additive_float32")}
    return ("auto", *taken.get(mask, ("additive", "additive_float32") if mask == "alibi" else ("bool", "additive")))


RUNS = [
    (backend, mask, shape, parameters, form, dtype)
    for backend in RUNNING
    for mask, shape, parameters in RUN_CASES
    for form in forms_of(mask)
    for dtype in ("float32", "bfloat16")
    # SDPA on a CPU takes no float32 tensor beside a bfloat16 query, and its flag is upper left.
    if not (form == "additive_float32" and backend != "naive")
    and not (form == "is_causal" and parameters.get("alignment") == "lower_right")
]


def run(workload: Workload) -> "tuple[Inputs, torch.Tensor]":
    import torch

    inputs = build_inputs(workload, "cpu")
    backend = find(workload.backend, BACKENDS, field="backend")
    with torch.no_grad(), backend.build(workload, inputs) as call:
        return inputs, call()


@pytest.mark.parametrize(("backend", "mask", "shape", "parameters", "form", "dtype"), RUNS, ids=name_of)
def test_every_mask_and_form_is_within_budget(
    backend: str, mask: str, shape: tuple[int, int], parameters: dict[str, Any], form: str, dtype: str
) -> None:
    workload = build(mask, shape, parameters, backend=backend, mask_form=form, dtype=dtype)
    inputs, output = run(workload)
    delta = check_output(workload, inputs, output)
    assert delta.within_budget is True, delta
    assert delta.dead_rows == mask_of(workload).count_dead_rows(workload)
    # Rows that may attend to nothing are outside the judgement; every element of the others is finite.
    dead_elements = delta.dead_rows * workload.num_heads * workload.value_dim
    assert delta.nan_count in (0, dead_elements)
    assert delta.inf_count == 0


@pytest.mark.parametrize(("mask", "shape", "parameters"), RUN_CASES, ids=name_of)
@pytest.mark.parametrize("backend", RUNNING)
def test_an_all_ones_value_gives_ones_where_a_row_may_attend(
    backend: str, mask: str, shape: tuple[int, int], parameters: dict[str, Any]
) -> None:
    import torch

    workload = build(mask, shape, parameters, backend=backend)
    inputs = build_inputs(workload, "cpu")
    inputs = replace(inputs, value=torch.ones_like(inputs.value))
    with torch.no_grad(), find(backend, BACKENDS, field="backend").build(workload, inputs) as call:
        output = call()
    allowed = build_allowed(workload, "cpu")
    live = torch.ones(output.shape[:3], dtype=torch.bool)
    if allowed is not None:
        live = allowed.any(dim=-1).expand(live.shape)
    assert live.any()
    torch.testing.assert_close(output[live], torch.ones_like(output[live]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("mask", "shape", "parameters"), [case for case in RUN_CASES if case[0] not in ("none", "dead_rows")], ids=name_of
)
def test_a_mask_that_was_ignored_is_over_budget(
    mask: str, shape: tuple[int, int], parameters: dict[str, Any], dtype: str
) -> None:
    workload = build(mask, shape, parameters, backend="sdpa_math", dtype=dtype)
    inputs = build_inputs(workload, "cpu")
    _, unmasked = run(build("none", shape, {}, backend="sdpa_math", dtype=dtype))
    assert check_output(workload, inputs, unmasked).within_budget is False


def test_a_bias_that_was_left_out_is_over_budget() -> None:
    workload = build("alibi", (70, 70), {}, backend="sdpa_math")
    _, causal = run(build("causal", (70, 70), {}, backend="sdpa_math"))
    assert check_output(workload, build_inputs(workload, "cpu"), causal).within_budget is False


@pytest.mark.parametrize("mask", [mask.slug for mask in MASKS if mask.slug != "none"])
def test_a_predicate_is_traced_without_a_break(mask: str) -> None:
    import torch

    shape, parameters = next((shape, parameters) for name, shape, parameters in RUN_CASES if name == mask)
    workload = build(mask, shape, parameters)
    mods = [mask_of(workload).build_mod(workload), mask_of(workload).build_bias(workload)]
    for mod in (mod for mod in mods if mod is not None):
        traced = torch.compile(mod, backend="eager", fullgraph=True, dynamic=False)
        # 32 bits, as a compiled kernel indexes.
        axes = [torch.arange(size, dtype=torch.int32) for size in (workload.batch_size, workload.num_heads, *shape)]
        grid = torch.meshgrid(*axes, indexing="ij")
        assert torch.equal(traced(*grid), mod(*(index.to(torch.int64) for index in grid)))


@pytest.mark.parametrize(("mask", "shape", "parameters"), CASES, ids=name_of)
def test_flex_attention_reads_the_same_mask(mask: str, shape: tuple[int, int], parameters: dict[str, Any]) -> None:
    import torch
    from torch.nn.attention.flex_attention import create_mask

    workload = build(mask, shape, parameters)
    mask_mod, dense = mask_of(workload).build_mod(workload), build_allowed(workload, "cpu")
    if mask_mod is None or dense is None:
        assert mask == "none"
        return
    sizes = (workload.batch_size, workload.num_heads, *shape)
    assert torch.equal(create_mask(mask_mod, *sizes, device="cpu"), dense.expand(sizes))


def test_every_mask_is_tried() -> None:
    slugs = {mask.slug for mask in MASKS}
    assert {mask for mask, _, _ in CASES} == {mask for mask, _, _ in RUN_CASES} == slugs
    assert {MaskForm(run[4]) for run in RUNS} == set(MaskForm)
    assert {DType(run[5]) for run in RUNS} == {DType.FLOAT32, DType.BFLOAT16}
