"""Small workloads drawn at random, and each backend's rule compared with a trial of it on them."""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attention.backends import BACKENDS, Backend, DeviceFacts
from attention.inputs import draw_tensors
from attention.masks import MASKS
from attention.validation import check_workload, parse_workload
from attention.workload import Direction, DType, InvalidWorkload, Layout, MaskForm, Workload
from profiling.eligibility import confirm_decision

LENGTHS = (1, 2, 7, 16, 63, 64, 65, 128, 200, 255, 256)
HEAD_DIMS = (1, 8, 20, 32, 63, 64, 64, 80, 96, 128, 192, 200, 256, 264)
# A third without a mask and a third causal, since every mask tensor is refused by flash for the same reason.
DRAWN_MASKS = (*MASKS, *[mask for mask in MASKS if mask.slug in ("none", "causal")] * (len(MASKS) // 2))
DTYPES = (*DType, DType.BFLOAT16, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT16)
EXAMPLES_SHOWN = 3


def draw_workloads(count: int, *, seed: int, longest: int = 256) -> list[Workload]:
    """``count`` valid workloads, the same for the same seed and the same masks."""
    source = random.Random(seed)
    lengths = [length for length in LENGTHS if length <= longest]
    drawn: list[Workload] = []
    while len(drawn) < count:
        try:
            workload = parse_workload(_draw_fields(source, lengths))
            check_workload(workload)
        except InvalidWorkload:
            continue  # a mask that does not take this form or these lengths
        drawn.append(workload)
    return drawn


def _draw_fields(source: random.Random, lengths: Sequence[int]) -> dict[str, object]:
    mask = source.choice(DRAWN_MASKS)
    head_dim = source.choice(HEAD_DIMS)
    length = source.choice(lengths)
    fields: dict[str, object] = {
        "batch_size": source.choice((1, 2, 3)),
        "num_heads": 4,
        "kv_heads": source.choice((1, 2, 4, 4)),
        "seq_len_q": length,
        # Most calls are self-attention; the others meet the rules about unequal lengths.
        "seq_len_kv": source.choice((length, length, source.choice(lengths))),
        "head_dim": head_dim,
        "head_dim_v": source.choice((None,) * 5 + (source.choice(HEAD_DIMS),)),
        "dtype": source.choice(DTYPES),
        "layout": source.choice(tuple(Layout)),
        "direction": source.choice((Direction.FORWARD, Direction.FORWARD, tuple(Direction)[-1])),
        "mask": mask.slug,
        "mask_form": "auto" if mask.slug == "none" else source.choice(tuple(MaskForm)),
    }
    return fields | _mask_parameters(source, mask.slug, fields)


def _mask_parameters(source: random.Random, mask: str, fields: dict[str, object]) -> dict[str, object]:
    """Values for every parameter that the mask has; the alignment matters where the lengths differ alone."""
    keys, rows, batch_size = (int(str(fields[name])) for name in ("seq_len_kv", "seq_len_q", "batch_size"))
    first = source.randint(1, keys)
    lengths = {
        "document": [first, keys - first] if first < keys else [keys],
        "padding": [source.randint(1, keys) for _ in range(source.choice((1, batch_size)))],
    }
    values: dict[str, object] = {
        "alignment": source.choice(("upper_left", "lower_right")),
        "window": source.randint(1, keys),
        "prefix_length": source.randint(0, keys),
        "lengths": ",".join(map(str, lengths.get(mask, [keys]))),
        "side": source.choice(("left", "right")),
        "density": source.choice((0.1, 0.5, 1.0)),
        "seed": source.randint(0, 9),
        "count": source.randint(1, max(1, rows - 1)),
    }
    parameters = next(entry.parameters for entry in MASKS if entry.slug == mask)
    return {f"mask_{parameter.name}": values[parameter.name] for parameter in parameters}


def compare_with_trial(workloads: Sequence[Workload], facts: DeviceFacts) -> tuple[int, str]:
    """How many verdicts were compared, and every disagreement, grouped by backend and by what it is about."""
    compared = 0
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for workload in workloads:
        tensors = draw_tensors(workload, facts.kind)
        for backend in _tried_backends():
            asked = replace(workload, backend=backend.slug)
            predicted = backend.check(asked, facts)
            tried = confirm_decision(backend, asked, predicted, tensors, facts.kind)
            compared += 1
            if (tried.verdict, tried.selects) != (predicted.verdict, predicted.selects):
                about = predicted.reason if predicted.verdict == "rejected" else f"accepted; {tried.reason}"
                found[backend.slug, re.sub(r"\d+", "N", about)[:160]].append(_describe(asked))
    return compared, "\n".join(
        f"{slug} ({len(cases)}): {about}\n    " + "\n    ".join(cases[:EXAMPLES_SHOWN])
        for (slug, about), cases in sorted(found.items())
    )


def _tried_backends() -> Iterator[Backend]:
    """Without those that compile at their first call, or capture a graph: no trial is made of them."""
    return (backend for backend in BACKENDS if backend.is_probed)


def _describe(workload: Workload) -> str:
    mask = f"{workload.mask.form} {workload.mask.parameters}"
    return f"{workload.describe()} {mask} {workload.layout} {workload.direction}"
