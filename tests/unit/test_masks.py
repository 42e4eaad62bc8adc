import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.masks import MASKS, density, mask_of
from attention.validation import FIELDS_BY_NAME, parse_workload

lengths = st.integers(1, 40)


def build(seq_len_q, seq_len_kv, alignment):
    return parse_workload({"seq_len_q": seq_len_q, "seq_len_kv": seq_len_kv, "mask_alignment": alignment})


def allowed_pairs(workload):
    mask_mod = mask_of(workload).build_mod(workload)
    return [[bool(mask_mod(0, 0, q, k)) for k in range(workload.seq_len_kv)] for q in range(workload.seq_len_q)]


@given(lengths, lengths, st.sampled_from(["upper_left", "lower_right"]))
def test_causal_counts_by_formula_as_by_counting(seq_len_q, seq_len_kv, alignment):
    workload = build(seq_len_q, seq_len_kv, alignment)
    pairs = allowed_pairs(workload)
    assert mask_of(workload).count_allowed(workload) == workload.batch_size * sum(map(sum, pairs))
    assert mask_of(workload).count_dead_rows(workload) == workload.batch_size * sum(not any(row) for row in pairs)
    assert density(workload) == pytest.approx(sum(map(sum, pairs)) / (seq_len_q * seq_len_kv))


@given(lengths)
def test_corners_agree_on_a_square(length):
    assert allowed_pairs(build(length, length, "upper_left")) == allowed_pairs(build(length, length, "lower_right"))


def test_corners_differ_when_the_lengths_do():
    # One query over a cache of four keys: upper left sees key 0 alone, lower right sees all.
    assert allowed_pairs(build(1, 4, "upper_left")) == [[True, False, False, False]]
    assert allowed_pairs(build(1, 4, "lower_right")) == [[True] * 4]
    assert allowed_pairs(build(3, 1, "lower_right")) == [[False], [False], [True]]


def test_none_allows_everything():
    workload = parse_workload({"mask": "none", "seq_len_q": 3, "seq_len_kv": 5})
    assert mask_of(workload).build_mod(workload) is None
    assert mask_of(workload).resolve_form(workload) is None
    assert density(workload) == 1.0


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({}, "is_causal"),
        ({"seq_len_q": 4, "mask_alignment": "upper_left"}, "is_causal"),
        ({"seq_len_q": 4, "mask_alignment": "lower_right"}, "bool"),
        ({"mask_form": "bool"}, "bool"),
        ({"mask_form": "additive"}, "additive"),
    ],
)
def test_auto_form_says_the_same_mask(fields, form):
    workload = parse_workload(fields)
    assert mask_of(workload).resolve_form(workload) == form


def test_every_mask_has_title_and_source():
    assert all(mask.title and mask.source for mask in MASKS)


def test_every_parameter_of_a_mask_is_a_field_with_its_choices():
    parameters = [parameter for mask in MASKS for parameter in mask.parameters]
    assert parameters
    for parameter in parameters:
        field = FIELDS_BY_NAME[f"mask_{parameter.name}"]
        assert (field.label, field.help, field.choices) == (parameter.label, parameter.help, parameter.choices)
