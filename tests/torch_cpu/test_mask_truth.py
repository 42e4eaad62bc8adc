"""The mask read back from a backend: exact for the right ones, and a wrong one is caught, on this CPU."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from attention.backends import BACKENDS
from attention.backends.naive import NAIVE
from attention.backends.sdpa import SDPA_FLASH, SDPA_MATH
from attention.call import build_call
from attention.inputs import build_inputs, draw_tensors
from attention.lookup import find
from attention.validation import parse_workload
from attention.workload import InvalidWorkload
from profiling import mask_truth
from profiling.mask_truth import read_applied_mask
from profiling.mask_weights import choose_view
from profiling.recorder import record
from profiling.recording import Recording, RunRequest, Samples, parse_recording, write_recording

BASE = {"batch_size": 2, "num_heads": 4, "kv_heads": 2, "seq_len_q": 80, "seq_len_kv": 80, "head_dim": 32}
MASKS = {
    "causal": {"mask": "causal"},
    "causal, decode": {"mask": "causal", "seq_len_q": 1, "mask_alignment": "lower_right"},
    "causal, fewer queries": {"mask": "causal", "seq_len_q": 40, "mask_alignment": "upper_left"},
    "causal, dead rows": {"mask": "causal", "seq_len_q": 100, "mask_alignment": "lower_right"},
    "sliding_window": {"mask": "sliding_window", "mask_window": 7},
    "prefix_lm": {"mask": "prefix_lm", "mask_prefix_length": 30},
    "document": {"mask": "document", "mask_lengths": "30,50"},
    "padding": {"mask": "padding", "mask_lengths": "50,80", "mask_side": "left"},
    "alibi": {"mask": "alibi"},
    "random": {"mask": "random", "mask_density": 0.3},
    "dead_rows": {"mask": "dead_rows", "mask_count": 9},
}
SHORT = Samples(samples_ns=(1_000_000,), method="for the test")


def read(backend, *, wall=SHORT, **fields):
    """The truth about ``backend``, by slug or of the test's own making."""
    slug = backend if isinstance(backend, str) else "naive"
    workload = parse_workload(BASE | {"backend": slug, "dtype": "float32"} | fields)
    entry = find(slug, BACKENDS, field="backend") if isinstance(backend, str) else backend
    inputs = build_inputs(workload, "cpu", draw_tensors(workload, "cpu"))
    kept = (inputs.query.clone(), inputs.value.clone())
    with build_call(entry, workload, inputs) as call:
        call()
        truth = read_applied_mask(entry, workload, inputs, call, wall)
    assert inputs.query.equal(kept[0])  # given back as they were
    assert inputs.value.equal(kept[1])
    return truth


def wrongly(change):
    """A backend that computes with ``change(inputs)`` in place of the inputs."""

    @contextmanager
    def build(workload, inputs):
        with NAIVE.build(workload, change(workload, inputs)) as call:
            yield call

    return replace(NAIVE, build=build)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("backend", ["naive", "sdpa_math", "sdpa_flash", "flex_eager"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_mask_is_read_back_exactly(backend, mask, dtype):
    truth = read(backend, dtype=dtype, **MASKS[mask])
    assert truth.reason == ""
    assert truth.wrong_pairs == 0, truth
    assert truth.first_wrong is None
    assert truth.ignored is False
    assert truth.asked_picture == truth.applied_picture
    live_rows = {"causal, decode": 1, "causal, fewer queries": 40, "dead_rows": 71}.get(mask, 80)
    assert truth.pairs_checked == 4 * live_rows * 80


@pytest.mark.parametrize("form", ["bool", "additive", "additive_float32"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "expanded_kv"])
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_form_and_layout_do_not_matter(form, layout, kv_heads):
    truth = read("sdpa_math", mask="random", mask_density=0.4, mask_form=form, layout=layout, kv_heads=kv_heads)
    assert (truth.wrong_pairs, truth.reason) == (0, "")


def test_gradients_and_a_value_head_of_its_own_do_not_matter():
    truth = read("naive", mask="causal", direction="forward_backward", head_dim_v=24)
    assert (truth.wrong_pairs, truth.reason) == (0, "")
    truth = read("sdpa_flash", mask="causal", direction="forward_backward")
    assert (truth.wrong_pairs, truth.reason) == (0, "")


def test_a_mask_that_is_ignored_is_caught():
    """huggingface/diffusers#12605: a backend that takes no mask answers as if there were none."""
    truth = read(wrongly(lambda workload, inputs: replace(inputs, allowed=None)), mask="causal")
    assert truth.ignored is True
    assert truth.wrong_pairs == 4 * 80 * 79 // 2
    assert truth.first_wrong == (0, 0, 0, 1)
    assert truth.asked_weight == 0
    assert truth.applied_weight == pytest.approx(1 / 80)
    assert truth.applied_picture != truth.asked_picture
    assert set(sum(truth.applied_picture, ())) == {1.0}


def test_the_other_corner_is_caught():
    """ml-explore/mlx#2835 and pytorch/executorch#22426: two libraries anchor causal at opposite corners."""

    def from_the_upper_left(workload, inputs):
        import torch

        allowed = torch.ones(40, 80).tril().bool()[None, None]
        return replace(inputs, allowed=allowed)

    fields = {"mask": "causal", "seq_len_q": 40, "mask_alignment": "lower_right"}
    truth = read(wrongly(from_the_upper_left), **fields)
    assert truth.ignored is False
    assert truth.wrong_pairs == 4 * 40 * 40
    assert truth.first_wrong == (0, 0, 0, 1)


def test_inverted_polarity_is_caught():
    truth = read(wrongly(lambda w, inputs: replace(inputs, allowed=~inputs.allowed)), mask="random", mask_density=0.3)
    assert truth.wrong_pairs == truth.pairs_checked


def test_a_bias_that_is_not_added_is_caught():
    def without_slopes(workload, inputs):
        return replace(inputs, bias=inputs.bias.clamp(max=0).where(inputs.bias.isinf(), inputs.bias * 0))

    truth = read(wrongly(without_slopes), mask="alibi")
    assert truth.wrong_pairs > 0
    ignored = read(wrongly(lambda workload, inputs: replace(inputs, bias=None)), mask="alibi")
    assert ignored.ignored is True


def test_a_single_wrong_pair_is_found_where_it_is():
    def flip_one(workload, inputs):
        allowed = inputs.allowed.clone()
        allowed[0, 0, 60, 5] = False
        return replace(inputs, allowed=allowed)

    truth = read(wrongly(flip_one), mask="causal")
    assert truth.wrong_pairs == 4  # of each head
    assert truth.first_wrong == (0, 0, 60, 5)
    assert truth.asked_weight == pytest.approx(1 / 61)
    assert truth.applied_weight == 0


def test_nan_in_a_row_that_counts_is_wrong_and_has_no_weight():
    def kill_a_row(workload, inputs):
        allowed = inputs.allowed.clone()
        allowed[..., 10, :] = False
        return replace(inputs, allowed=allowed)

    truth = read(wrongly(kill_a_row), mask="causal")
    assert truth.first_wrong == (0, 0, 10, 0)
    assert truth.applied_weight is None
    assert truth.wrong_pairs == 4 * 11


def test_a_call_that_keeps_copies_is_built_again_and_one_that_compiles_is_not_judged():
    for kept in ("query", "value"):
        keeping = wrongly(lambda workload, inputs, kept=kept: replace(inputs, **{kept: getattr(inputs, kept).clone()}))
        fills_a_cache = replace(keeping, score_matrices=0)
        assert read(fills_a_cache, mask="causal").wrong_pairs == 0
        truth = read(replace(fills_a_cache, holds_graph=True), mask="causal")
        assert truth.wrong_pairs is None
        assert "keeps copies of its inputs" in truth.reason


def test_a_call_that_is_slow_to_build_again_is_left_alone(monkeypatch):
    keeping = wrongly(lambda workload, inputs: replace(inputs, value=inputs.value.clone()))
    monkeypatch.setattr(mask_truth, "_time_again", lambda backend, workload, inputs: 10**9)
    truth = read(replace(keeping, score_matrices=0), mask="causal")
    assert truth.wrong_pairs is None
    assert "building it again takes 1.00\u2009s" in truth.reason


def test_why_nothing_was_read():
    assert read("naive", mask="none") is None
    assert "not known" in read("naive", mask="causal", wall=None).reason
    slow = Samples(samples_ns=(10**10,), method="for the test")
    truth = read("sdpa_flash", mask="causal", wall=slow)
    assert (truth.wrong_pairs, truth.pairs_checked) == (None, 0)
    assert "one call takes 10.0\u2009s" in truth.reason
    dead = read("sdpa_math", mask="padding", mask_lengths="0,80")
    assert "may attend to nothing" in dead.reason

    @contextmanager
    def build(workload, inputs):
        calls = []

        def call():
            calls.append(1)
            if len(calls) > 1:
                raise RuntimeError("for the test\nin two lines")
            return inputs.query

        yield call

    broken = read(replace(NAIVE, build=build, score_matrices=0), mask="causal")
    assert broken.reason == "reading it failed: for the test"


def test_a_slow_call_is_read_at_its_ends(monkeypatch):
    monkeypatch.setattr(mask_truth, "CALLS_LIMIT_NS", {"cpu": 2_500_000})
    truth = read("sdpa_flash", mask="causal")  # two calls of 1 ms
    assert truth.wrong_pairs == 0
    assert "keys 0–31 and 64–79 of 80" in truth.method
    assert truth.pairs_checked == 4 * 80 * 48


def test_a_long_sequence_is_read_at_its_corners():
    workload = parse_workload(BASE | {"seq_len_q": 5000, "seq_len_kv": 9000, "mask_alignment": "lower_right"})
    view = choose_view(workload, 64)
    assert [(part.start, part.stop) for part in view.rows] == [(0, 1024), (3976, 5000)]
    assert view.chunks[0] == range(32)
    assert view.chunks[-1] == range(8992, 9000)
    assert view.key_count == 63 * 32 + 8
    assert view.heads == 4
    assert "rows 0–1023 and 3976–4999 of 5000, keys 0–1023 and 8000–8999 of 9000" in view.describe(workload)


def test_a_run_records_the_truth_and_its_file_keeps_it():
    def run(backend):
        fields = BASE | {"backend": backend, "dtype": "float32", "mask": "causal"}
        (recording,) = (
            item
            for item in record(RunRequest(workloads=(parse_workload(fields),), device="cpu"))
            if isinstance(item, Recording)
        )
        return recording

    for backend in ("naive", "sdpa_flash", "flex_eager"):
        recording = run(backend)
        assert recording.failures == ()
        assert recording.mask_truth.wrong_pairs == 0
        assert recording.mask_truth.pairs_checked == 4 * 80 * 80
        assert all(delta.within_budget for delta in recording.correctness)
        assert parse_recording(write_recording(recording)) == recording


def test_backends_of_the_next_run_see_the_same_inputs():
    """The inputs are written over while the mask is read; runs of one entry share them."""
    workloads = tuple(
        parse_workload(BASE | {"backend": backend, "dtype": "float32"}) for backend in ("naive", "sdpa_flash")
    )
    first, second = (
        item for item in record(RunRequest(workloads=workloads, device="cpu")) if isinstance(item, Recording)
    )
    assert first.mask_truth.wrong_pairs == second.mask_truth.wrong_pairs == 0
    assert first.inputs_fingerprint == second.inputs_fingerprint
    assert [sample.value for sample in first.correctness[0].reference_samples] == [
        sample.value for sample in second.correctness[0].reference_samples
    ]


@pytest.mark.parametrize("backend", [NAIVE, SDPA_MATH, SDPA_FLASH], ids=lambda backend: backend.slug)
def test_a_mask_in_a_form_that_it_has_not_is_no_workload(backend):
    with pytest.raises(InvalidWorkload):
        read(backend.slug, mask="alibi", mask_form="bool")
