"""Every mask by plain ints: what it allows, counted and by formula, and what it refuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.masks import MASKS, density, mask_of
from attention.masks.random import INTEGER_LIMIT, PRIME, coprime_step
from attention.validation import FIELDS_BY_NAME, check_workload, parse_workload
from attention.workload import InvalidWorkload, MaskForm, MaskSpec, Workload

sizes = st.integers(1, 24)
corners = st.sampled_from(["upper_left", "lower_right"])


@st.composite
def workloads(draw, mask=None):
    """A small workload with a mask that its lengths allow."""
    name = draw(st.sampled_from([entry.slug for entry in MASKS])) if mask is None else mask
    rows, keys, batch_size = draw(sizes), draw(sizes), draw(st.integers(1, 3))
    fields = {}
    if name == "sliding_window":
        fields = {"window": draw(st.integers(1, 30))}
    elif name == "prefix_lm":
        fields = {"prefix_length": draw(st.integers(0, keys))}
    elif name == "document":
        lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=5))
        rows = keys = sum(lengths)
        fields = {"lengths": ",".join(map(str, lengths))}
    elif name == "padding":
        entries = draw(st.sampled_from([1, batch_size]))
        lengths = draw(st.lists(st.integers(0, keys), min_size=entries, max_size=entries).filter(any))
        fields = {"lengths": ",".join(map(str, lengths)), "side": draw(st.sampled_from(["left", "right", None]))}
    elif name == "random":
        fields = {"density": draw(st.floats(0.01, 1)), "seed": draw(st.none() | st.integers(0, 2**63 - 1))}
    elif name == "dead_rows":
        rows = max(2, rows)
        fields = {"count": draw(st.integers(1, rows - 1))}
    if name in ("causal", "sliding_window", "prefix_lm", "alibi"):
        fields["alignment"] = draw(corners)
    named = {f"mask_{parameter}": value for parameter, value in fields.items()}
    shape = {"batch_size": batch_size, "num_heads": 3, "kv_heads": 3, "seq_len_q": rows, "seq_len_kv": keys}
    return parse_workload({"mask": name} | named | shape)


def build(mask, seq_len_q, seq_len_kv, **fields):
    return parse_workload(
        {"mask": mask, "batch_size": 2, "seq_len_q": seq_len_q, "seq_len_kv": seq_len_kv}
        | {f"mask_{name}": value for name, value in fields.items()}
    )


def allowed_pairs(workload, batch=0, head=0):
    mask_mod = mask_of(workload).build_mod(workload)
    keys, rows = range(workload.seq_len_kv), range(workload.seq_len_q)
    return [[mask_mod is None or bool(mask_mod(batch, head, row, key)) for key in keys] for row in rows]


def draw_rows(workload, batch=0):
    return ["".join("x" if allowed else "." for allowed in row) for row in allowed_pairs(workload, batch)]


@pytest.mark.parametrize("name", [mask.slug for mask in MASKS])
def test_a_mask_counts_by_formula_as_by_counting(name):
    @given(workloads(mask=name))
    def check(workload):
        mask = mask_of(workload)
        entries = [allowed_pairs(workload, batch) for batch in range(workload.batch_size)]
        pairs = sum(sum(map(sum, entry)) for entry in entries)
        assert mask.count_allowed(workload) == pairs > 0
        assert mask.count_dead_rows(workload) == sum(not any(row) for entry in entries for row in entry)
        assert density(workload) == pytest.approx(
            pairs / (workload.batch_size * workload.seq_len_q * workload.seq_len_kv)
        )

    check()


@given(workloads())
def test_only_a_mask_that_says_so_varies(workload):
    mask, first = mask_of(workload), allowed_pairs(workload)
    assert mask.varies_by_batch or all(allowed_pairs(workload, batch) == first for batch in range(workload.batch_size))
    assert all(allowed_pairs(workload, head=head) == first for head in range(workload.num_heads))


@given(workloads())
def test_auto_form_is_one_that_the_mask_takes(workload):
    form = mask_of(workload).resolve_form(workload)
    if form is None:
        assert workload.mask.name == "none"
        return
    check_workload(replace(workload, mask=replace(workload.mask, form=form)))
    assert (form is MaskForm.ADDITIVE) == (workload.mask.name == "alibi")


@given(st.integers(1, 24))
def test_corners_agree_on_a_square(length):
    for mask, fields in (("causal", {}), ("sliding_window", {"window": 3}), ("prefix_lm", {"prefix_length": 1})):
        upper, lower = (
            build(mask, length, length, alignment=corner, **fields) for corner in ("upper_left", "lower_right")
        )
        assert allowed_pairs(upper) == allowed_pairs(lower)


def test_corners_differ_when_the_lengths_do():
    # One query over a cache of four keys: upper left sees key 0 alone, lower right sees all.
    assert draw_rows(build("causal", 1, 4, alignment="upper_left")) == ["x..."]
    assert draw_rows(build("causal", 1, 4, alignment="lower_right")) == ["xxxx"]
    assert draw_rows(build("causal", 3, 1, alignment="lower_right")) == [".", ".", "x"]


def test_none_allows_everything():
    workload = build("none", 3, 5)
    assert mask_of(workload).build_mod(workload) is None
    assert mask_of(workload).resolve_form(workload) is None
    assert density(workload) == 1.0


@pytest.mark.parametrize(
    ("workload", "rows"),
    [
        (build("sliding_window", 4, 4, window=2), ["x...", "xx..", ".xx.", "..xx"]),
        (build("sliding_window", 2, 4, window=2, alignment="lower_right"), [".xx.", "..xx"]),
        (build("sliding_window", 4, 2, window=2, alignment="upper_left"), ["x.", "xx", ".x", ".."]),
        (build("prefix_lm", 3, 4, prefix_length=2, alignment="upper_left"), ["xx..", "xx..", "xxx."]),
        (build("document", 4, 4, lengths="1, 3"), ["x...", ".x..", ".xx.", ".xxx"]),
        (build("padding", 2, 4, lengths="3"), ["xxx.", "xxx."]),
        (build("padding", 2, 4, lengths="3", side="left"), [".xxx", ".xxx"]),
        (build("alibi", 3, 3), ["x..", "xx.", "xxx"]),
        (build("dead_rows", 3, 2, count=1), ["xx", "xx", ".."]),
    ],
    ids=lambda value: value.mask.name if isinstance(value, Workload) else "",
)
def test_a_mask_drawn(workload, rows):
    assert draw_rows(workload) == rows


def test_each_batch_entry_has_its_own_padding():
    workload = build("padding", 2, 4, lengths="4,1")
    assert (draw_rows(workload, 0), draw_rows(workload, 1)) == (["xxxx"] * 2, ["x..."] * 2)


def test_one_length_may_be_a_plain_number():
    workload = parse_workload({"mask": "padding", "mask_lengths": 50})
    assert workload == parse_workload({"mask": "padding", "mask_lengths": "50"})
    for wrong in (True, ["50"], 10**5000):
        with pytest.raises(InvalidWorkload, match="mask_lengths="):
            parse_workload({"mask": "padding", "mask_lengths": wrong})


def test_a_window_as_long_as_the_keys_is_causal():
    assert allowed_pairs(build("sliding_window", 9, 9, window=9)) == allowed_pairs(build("causal", 9, 9))
    assert allowed_pairs(build("prefix_lm", 9, 9, prefix_length=0)) == allowed_pairs(build("causal", 9, 9))
    assert allowed_pairs(build("document", 9, 9, lengths="9")) == allowed_pairs(build("causal", 9, 9))


def test_a_random_mask_follows_its_seed_and_is_spread():
    first, again, other = (build("random", 64, 64, density=0.25, seed=seed) for seed in (1, 1, 2))
    assert allowed_pairs(first) == allowed_pairs(again) != allowed_pairs(other)
    assert {sum(row) for row in allowed_pairs(first)} == {16}
    # 16 of 64 rows allow a key on average; were the rows alike, a key would have 0 or 64.
    columns = [sum(column) for column in zip(*allowed_pairs(first), strict=True)]
    assert min(columns) >= 4
    assert max(columns) <= 32
    assert len({tuple(row) for row in allowed_pairs(first)}) > 56
    diagonals = [sum(allowed_pairs(first)[row][(row + shift) % 64] for row in range(64)) for shift in range(64)]
    assert max(diagonals) <= 40


@given(st.integers(0, 2**64), st.integers(1, 2**20), st.integers(0, 2**63 - 1))
def test_a_random_mask_stays_within_32_bits(number, keys, seed):
    step = coprime_step(number, keys)
    assert step >= 1
    assert (keys - 1) * step + PRIME < INTEGER_LIMIT
    assert (PRIME - 1) ** 2 < INTEGER_LIMIT
    # The row's step too: an index type that refuses larger values passes through the predicate.
    workload = parse_workload(
        {"mask": "random", "mask_density": 0.5, "mask_seed": seed, "seq_len_q": 2**20, "seq_len_kv": keys}
    )
    mask_mod = mask_of(workload).build_mod(workload)
    assert mask_mod(0, 0, Int32(2**20 - 1), Int32(keys - 1)) in (True, False)


class Int32(int):
    """An int whose results have to fit 32 bits, as a compiled kernel's indices."""

    def _checked(self, value):
        assert -INTEGER_LIMIT <= value < INTEGER_LIMIT
        return Int32(value)

    def __add__(self, other):
        return self._checked(int(self) + int(other))

    def __sub__(self, other):
        return self._checked(int(self) - int(other))

    def __mul__(self, other):
        return self._checked(int(self) * int(other))

    def __mod__(self, other):
        return self._checked(int(self) % int(other))

    def __xor__(self, other):
        return self._checked(int(self) ^ int(other))


def slopes(num_heads):
    workload = parse_workload({"mask": "alibi", "num_heads": num_heads, "kv_heads": num_heads})
    bias_mod = mask_of(workload).build_bias(workload)
    return [-bias_mod(0, head, 5, 4) for head in range(num_heads)]


def test_alibi_lowers_by_the_papers_slopes():
    assert slopes(8) == [2.0**-exponent for exponent in range(1, 9)]
    assert slopes(16) == pytest.approx([2 ** (-exponent / 2) for exponent in range(1, 17)])
    # No power of two: those of 8 heads, then every second one of 16.
    assert slopes(12) == pytest.approx(slopes(8) + slopes(16)[0:8:2])
    assert slopes(1) == [2.0**-8]


def test_alibi_measures_the_distance_from_its_corner():
    def bias(alignment, q_idx, kv_idx):
        workload = parse_workload(
            {"mask": "alibi", "num_heads": 1, "kv_heads": 1, "seq_len_q": 2, "seq_len_kv": 6}
            | {"mask_alignment": alignment}
        )
        return mask_of(workload).build_bias(workload)(0, 0, q_idx, kv_idx) * 2**8

    assert bias("upper_left", 1, 0) == -1
    assert bias("lower_right", 1, 5) == 0
    assert bias("lower_right", 0, 0) == -4


def test_only_alibi_has_a_bias():
    for mask in MASKS:
        assert (mask.build_bias(Workload()) is not None) == (mask.slug == "alibi")


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({}, "is_causal"),
        ({"seq_len_q": 4, "mask_alignment": "upper_left"}, "is_causal"),
        ({"seq_len_q": 4, "mask_alignment": "lower_right"}, "bool"),
        ({"mask_form": "bool"}, "bool"),
        ({"mask_form": "additive"}, "additive"),
        ({"mask": "sliding_window", "mask_window": 4}, "bool"),
        ({"mask": "sliding_window", "mask_window": 4, "mask_form": "additive_float32"}, "additive_float32"),
        ({"mask": "alibi"}, "additive"),
        ({"mask": "alibi", "mask_form": "additive_float32"}, "additive_float32"),
    ],
)
def test_auto_form_says_the_same_mask(fields, form):
    workload = parse_workload(fields)
    assert mask_of(workload).resolve_form(workload) == form


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({"mask": "sliding_window"}, "mask_window", "is missing, and mask sliding_window needs it; give a whole"),
        ({"mask": "sliding_window", "mask_window": 0}, "mask_window", "mask_window=0 is out of range; give a whole"),
        ({"mask": "sliding_window", "mask_window": -4}, "mask_window", "mask_window=-4 is out of range"),
        ({"mask": "sliding_window", "mask_window": 10**19}, "mask_window", "give a whole number from 1 to 1048576"),
        (
            {"mask": "sliding_window", "mask_window": "4.5"},
            "mask_window",
            "is not a whole number; give a whole number such",
        ),
        ({"mask": "sliding_window", "mask_window": 4, "seq_len_q": 8}, "mask_alignment", "leaves the causal corner"),
        ({"mask": "prefix_lm"}, "mask_prefix_length", "is missing"),
        ({"mask": "prefix_lm", "mask_prefix_length": 1025}, "mask_prefix_length", "from 0 to 1024"),
        ({"mask": "document"}, "mask_lengths", "is missing"),
        ({"mask": "document", "mask_lengths": "512,256"}, "mask_lengths", "sums to 768, and the length is 1024; add a"),
        (
            {"mask": "document", "mask_lengths": "1024,2"},
            "mask_lengths",
            "sums to 1026, and the length is 1024; take 2",
        ),
        ({"mask": "document", "mask_lengths": "1024,0"}, "mask_lengths", "holds 0, which is out of range"),
        ({"mask": "document", "mask_lengths": "512,,512"}, "mask_lengths", "holds '', which is not a whole number"),
        ({"mask": "document", "mask_lengths": "512;512"}, "mask_lengths", "which is not a whole number"),
        ({"mask": "document", "mask_lengths": "9" * 30}, "mask_lengths", "which is not a whole number"),
        ({"mask": "document", "mask_lengths": "8", "seq_len_q": 8}, "seq_len_kv", "differs from seq_len_q=8"),
        ({"mask": "padding"}, "mask_lengths", "is missing"),
        ({"mask": "padding", "mask_lengths": "1025"}, "mask_lengths", "from 0 to 1024"),
        ({"mask": "padding", "mask_lengths": "4,5"}, "mask_lengths", "holds 2 numbers, and batch_size is 8"),
        ({"mask": "padding", "mask_lengths": "0"}, "mask_lengths", "leaves no allowed pair"),
        ({"mask": "padding", "mask_lengths": "4", "mask_side": "top"}, "mask_side", "one of left, right"),
        ({"mask": "alibi", "mask_form": "bool"}, "mask_form", "cannot carry the bias"),
        ({"mask": "alibi", "mask_form": "is_causal"}, "mask_form", "cannot carry the bias"),
        ({"mask": "random"}, "mask_density", "is missing"),
        ({"mask": "random", "mask_density": 0}, "mask_density", "above 0 and up to 1"),
        ({"mask": "random", "mask_density": 1.5}, "mask_density", "above 0 and up to 1"),
        ({"mask": "random", "mask_density": "nan"}, "mask_density", "above 0 and up to 1"),
        ({"mask": "random", "mask_density": "half"}, "mask_density", "is not a number; give a number such as 0.25"),
        ({"mask": "random", "mask_density": 0.5, "mask_seed": -1}, "mask_seed", "is out of range"),
        ({"mask": "dead_rows"}, "mask_count", "is missing"),
        ({"mask": "dead_rows", "mask_count": 0}, "mask_count", "from 1 to 1023"),
        ({"mask": "dead_rows", "mask_count": 1024}, "mask_count", "leaves no allowed pair"),
        ({"mask": "dead_rows", "mask_count": 1025}, "mask_count", "from 1 to 1023"),
        ({"mask": "dead_rows", "mask_count": 1, "seq_len_q": 1}, "seq_len_q", "no row besides a dead one"),
        (
            {"mask": "padding", "mask_lengths": "4", "mask_window": 4},
            "mask_window",
            "is not a parameter of mask padding",
        ),
    ],
)
def test_a_wrong_mask_says_the_field_and_what_to_do(fields, field, part):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload(fields)
    assert caught.value.field == field
    assert part in str(caught.value)
    assert "; " in str(caught.value)


@pytest.mark.parametrize("mask", [mask.slug for mask in MASKS if mask.slug != "causal"])
def test_the_causal_flag_says_no_other_mask(mask):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({"mask": mask, "mask_form": "is_causal"})
    assert caught.value.field == "mask_form"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("sliding_window", {"window": "4"}),
        ("sliding_window", {"window": True}),
        ("random", {"density": "0.5"}),
        ("document", {"lengths": 1024.0}),
    ],
)
def test_a_workload_built_by_hand_is_checked_too(name, parameters):
    with pytest.raises(InvalidWorkload, match="is not a"):
        check_workload(Workload(mask=MaskSpec(name=name, parameters=parameters)))


def test_every_mask_has_title_and_source():
    assert all(mask.title and mask.source for mask in MASKS)


def test_every_parameter_of_a_mask_is_a_field_with_its_choices():
    parameters = [parameter for mask in MASKS for parameter in mask.parameters]
    assert parameters
    for parameter in parameters:
        field = FIELDS_BY_NAME[f"mask_{parameter.name}"]
        assert (field.label, field.help, field.choices) == (parameter.label, parameter.help, parameter.choices)
        # Two masks that share a name share the field, and so the object.
        assert [other for other in parameters if other.name == parameter.name and other is not parameter] == []
