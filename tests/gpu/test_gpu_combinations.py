"""Every eager backend × mask × dtype × direction that the rules accept, against the float64 reference."""

import itertools
import random

from attention.backends import BACKENDS
from attention.call import build_call
from attention.inputs import build_inputs
from attention.known_faults import find_known_faults
from attention.masks import MASKS
from attention.validation import parse_workload
from attention.workload import InvalidWorkload
from profiling.correctness import check_results
from profiling.environment import build_device_facts, capture_environment

LEAST_COMBINATIONS = 1_000
# Equal and unequal lengths, decoding, odd lengths, grouped heads, a value head dim of its own, every layout.
SHAPES = (
    {},
    {"kv_heads": 1},
    {"kv_heads": 2, "layout": "expanded_kv"},
    {"layout": "transposed"},
    {"seq_len_q": 1},
    {"seq_len_q": 77, "seq_len_kv": 131},
    {"seq_len_q": 192, "seq_len_kv": 100},
    {"head_dim_v": 32},
    {"head_dim": 128},
    {"kv_heads": 1, "layout": "expanded_kv", "head_dim": 40},
)
BASE = {"batch_size": 2, "num_heads": 4, "kv_heads": 4, "seq_len_q": 128, "seq_len_kv": 128, "head_dim": 64}
DTYPES = ("float64", "float32", "float16", "bfloat16")
DIRECTIONS = ("forward", "forward_backward")
FORMS = ("auto", "additive", "additive_float32")


def mask_fields(mask: str, shape: dict) -> dict:
    """Parameters that ``mask`` needs on ``shape``."""
    fields = {"mask": mask}
    if shape["seq_len_q"] != shape["seq_len_kv"] and mask in ("causal", "sliding_window", "prefix_lm", "alibi"):
        fields["mask_alignment"] = "lower_right"
    half = shape["seq_len_kv"] // 2
    return fields | {
        "sliding_window": {"mask_window": 17},
        "prefix_lm": {"mask_prefix_length": half},
        "document": {"mask_lengths": f"{half},{shape['seq_len_kv'] - half}"},
        "padding": {"mask_lengths": f"{half},{shape['seq_len_kv']}"},
        "random": {"mask_density": 0.3},
        "dead_rows": {"mask_count": max(1, shape["seq_len_q"] // 4)},
    }.get(mask, {})


def candidates():
    for shape, mask, dtype, direction, form in itertools.product(SHAPES, MASKS, DTYPES, DIRECTIONS, FORMS):
        fields = BASE | shape
        fields |= mask_fields(mask.slug, fields) | {"dtype": dtype, "direction": direction, "mask_form": form}
        for backend in BACKENDS:
            if getattr(backend, "compiles", False) or getattr(backend, "read_source", None):
                continue
            try:
                yield backend, parse_workload(fields | {"backend": backend.slug})
            except InvalidWorkload:
                continue  # the mask has no such form, or does not fit the shape


def test_every_accepted_combination_is_within_budget():
    facts = build_device_facts(capture_environment("cuda"))
    accepted = [(b, w) for b, w in candidates() if b.check(w, facts).verdict == "accepted"]
    # Half of them, the same ones each time: enough for the bar with time to spare.
    chosen = random.Random(0).sample(accepted, min(len(accepted), 2 * LEAST_COMBINATIONS))
    wrong, refused, expected = [], [], 0
    for backend, workload in chosen:
        inputs = build_inputs(workload, "cuda")
        try:
            with build_call(backend, workload, inputs) as call:
                results = call()
        except RuntimeError as error:
            refused.append(f"{backend.slug} {workload}: {str(error)[:200]}")
            continue
        deltas = [delta for delta in check_results(workload, inputs, results) if delta.within_budget is False]
        # What stands in rows that may attend to nothing is not judged, so it excuses nothing.
        faults = {fault.slug for fault in find_known_faults(workload, facts)} - {"cudnn_dead_row_outputs"}
        if deltas and faults:
            expected += 1
            continue
        wrong += [
            f"{backend.slug} {workload}: {delta.tensor} {delta.max_abs_error} over {delta.error_budget}, "
            f"{delta.nan_count} NaN, {delta.dead_rows} dead rows"
            for delta in deltas
        ]
    print(
        f"combinations compared: {len(chosen)} of {len(accepted)} accepted; "
        f"wrong {len(wrong)}, refused {len(refused)}, met a known fault {expected}"
    )
    assert not refused, "\n".join(refused[:40])
    assert not wrong, "\n".join(wrong[:400])
    assert len(chosen) >= LEAST_COMBINATIONS
