import json
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import DeviceFacts
from attention.validation import (
    WORKLOAD_FIELDS,
    check_memory,
    default_fields,
    flatten_workload,
    parse_workload,
    with_backend,
)
from attention.workload import SIZE_LIMITS, DType, InvalidWorkload, Workload

H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0))
SIZES = tuple(name for name in SIZE_LIMITS if name != "head_dim_v")


def test_defaults_are_the_tutorials_case():
    workload = parse_workload({})
    assert workload == Workload()
    assert workload.describe() == "B8 H16 S1024 D64 bfloat16 causal"


def test_cpu_defaults_differ_in_size_and_dtype_alone():
    cpu, gpu = default_fields("cpu"), default_fields("cuda")
    changed = {name for name in cpu if cpu[name] != gpu[name]}
    assert changed == {"batch_size", "num_heads", "kv_heads", "seq_len_q", "seq_len_kv", "dtype"}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -1, -(10**9), 10**9, 10**40, "0", "-3", str(10**30)])
def test_size_out_of_range_names_field_value_and_range(name, value):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({name: value})
    assert caught.value.field == name
    message = str(caught.value)
    assert message.startswith(f"{name}=")
    assert f"choose 1 to {SIZE_LIMITS[name]}" in message


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "value", ["1.5", 2.5, "eight", True, [4], {"n": 4}, float("nan"), float("inf"), "0x10", "1e3", "1_0", "٣"]
)
def test_size_that_is_no_whole_number(name, value):
    with pytest.raises(InvalidWorkload, match="is not a whole number"):
        parse_workload({name: value})


@pytest.mark.parametrize(("value", "parsed"), [("7", 7), (" 7 ", 7), (7.0, 7), ("", 8), (None, 8), ("  ", 8)])
def test_size_as_text_and_left_out(value, parsed):
    assert parse_workload({"batch_size": value}).batch_size == parsed


def test_kv_heads_that_do_not_divide():
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({"num_heads": 8, "kv_heads": 3})
    assert str(caught.value) == "kv_heads=3 does not divide num_heads=8; choose 1, 2, 4 or 8."


@pytest.mark.parametrize(
    ("field", "value", "nearest"),
    [
        ("backend", "sdpa_flsh", "sdpa_flash"),
        ("backend", "Naive", "naive"),
        ("dtype", "bf16", "bfloat16"),
        ("mask", "casual", "causal"),
        ("mask_form", "boolean", "bool"),
        ("direction", "forwards", "forward"),
    ],
)
def test_misspelt_choice_names_the_nearest_and_all(field, value, nearest):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({field: value})
    message = str(caught.value)
    assert message.startswith(f"{field}={value!r} is not known; did you mean {nearest}? choose one of ")
    choices = next(entry for entry in WORKLOAD_FIELDS if entry.name == field).choices
    assert all(choice in message for choice in choices)


@pytest.mark.parametrize("value", ["", 5, ["naive"], {"a": 1}])
def test_choice_of_another_type(value):
    if value == "":
        assert parse_workload({"backend": value}).backend == "sdpa_auto"
    else:
        with pytest.raises(InvalidWorkload, match="is not known"):
            parse_workload({"backend": value})


def test_unknown_field_names_the_nearest():
    with pytest.raises(InvalidWorkload, match=r"batchsize=3 is not a field of a workload; use batch_size\."):
        parse_workload({"batchsize": 3})


@pytest.mark.parametrize("value", ["nan", "inf", -1, 0, "big", True])
def test_bad_scale(value):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({"scale": value})
    assert caught.value.field == "scale"


@pytest.mark.parametrize("value", [-1, 2**63, "x", 0.5])
def test_bad_seed(value):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({"seed": value})
    assert caught.value.field == "seed"


def test_unequal_lengths_force_the_corner():
    with pytest.raises(InvalidWorkload, match="mask_alignment"):
        parse_workload({"seq_len_q": 1})
    assert parse_workload({"seq_len_q": 1, "mask_alignment": "lower_right"}).seq_len_q == 1
    assert parse_workload({"seq_len_q": 1, "mask": "none"}).mask.parameters == {}


def test_is_causal_cannot_say_lower_right():
    fields = {"seq_len_q": 4, "seq_len_kv": 8, "mask_form": "is_causal"}
    with pytest.raises(InvalidWorkload, match="upper_left"):
        parse_workload(fields | {"mask_alignment": "lower_right"})
    parse_workload(fields | {"mask_alignment": "upper_left"})


def test_parameter_of_another_mask_is_refused():
    with pytest.raises(InvalidWorkload, match="is not a parameter of mask none"):
        parse_workload({"mask": "none", "mask_alignment": "upper_left"})


def test_memory_is_refused_with_the_numbers():
    workload = parse_workload({"backend": "naive", "seq_len_q": 65536, "seq_len_kv": 65536})
    with pytest.raises(InvalidWorkload) as caught:
        check_memory(workload, 140 * 2**30, H200)
    message = str(caught.value)
    # Two score matrices of 8 × 16 × 65536² bfloat16 elements are 2,048 GiB.
    assert "score matrices 2,048.00 GiB" in message
    assert "NVIDIA H200 has 140.00 GiB free" in message
    assert "choose a fused backend" in message
    check_memory(with_backend(workload, "sdpa_flash"), 140 * 2**30, H200)
    check_memory(workload, None, H200)


def test_memory_of_a_selector_is_that_of_the_backend_it_lands_on():
    fused = parse_workload({"seq_len_q": 65536, "seq_len_kv": 65536})
    check_memory(fused, 140 * 2**30, H200)
    with pytest.raises(InvalidWorkload, match="GiB on sdpa_math"):
        check_memory(replace(fused, dtype=DType.FLOAT64), 140 * 2**30, H200)


def test_invalid_workload_survives_pickling():
    error = InvalidWorkload("seq_len_q", 0, "is out of range", "choose 1 to 8")
    again = pickle.loads(pickle.dumps(error))
    assert (again.field, again.value, str(again)) == ("seq_len_q", 0, str(error))


workloads = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 64),
        "kv_heads": st.integers(1, 8),
        "seq_len_q": st.integers(1, 4096),
        "seq_len_kv": st.integers(1, 4096),
        "head_dim": st.integers(1, 512),
        "dtype": st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
        "mask_alignment": st.sampled_from(["upper_left", "lower_right"]),
        "scale": st.none() | st.floats(1e-3, 10),
        "seed": st.integers(0, 2**63 - 1),
    }
)


@given(fields=workloads, groups=st.integers(1, 8))
def test_round_trips_through_fields_json_and_pickle(fields, groups):
    workload = parse_workload(fields | {"num_heads": fields["kv_heads"] * groups})
    assert parse_workload(flatten_workload(workload)) == workload
    assert parse_workload(json.loads(json.dumps(flatten_workload(workload)))) == workload
    assert pickle.loads(pickle.dumps(workload)) == workload


@given(
    st.dictionaries(st.sampled_from([field.name for field in WORKLOAD_FIELDS]), st.text(max_size=30) | st.integers())
)
def test_any_input_is_a_workload_or_one_clear_line(fields):
    error = None
    try:
        parse_workload(fields)
    except InvalidWorkload as caught:
        error = str(caught)
    assert error is None or ("\n" not in error and "; " in error)


@pytest.mark.parametrize("value", [10**400, "1e400", "nan", float("inf"), True, [1]])
def test_scale_that_is_no_finite_number(value):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({"scale": value})
    assert caught.value.field == "scale"


@pytest.mark.parametrize("value", [1e308, 1e39, 10_001])
def test_a_scale_that_overflows_the_reference_is_refused(value):
    with pytest.raises(InvalidWorkload, match=r"scale=.* is out of range; choose a number above 0 and up to 10000"):
        parse_workload({"scale": value})


@pytest.mark.parametrize(
    "value",
    ["9" * 100_000, 10**5000, ["x"] * 10_000, "x" * 100_000],
    ids=["digits", "number", "list", "text"],
)
@pytest.mark.parametrize("field", ["batch_size", "backend", "scale"])
def test_a_long_wrong_value_still_makes_one_short_line(field, value):
    with pytest.raises(InvalidWorkload) as caught:
        parse_workload({field: value})
    assert len(str(caught.value)) < 600  # the list of backends is most of it


def test_the_largest_sizes_together_are_refused_before_their_counts_leave_64_bits() -> None:
    largest = {"batch_size": 65_536, "num_heads": 1024, "kv_heads": 1024, "seq_len_q": 2**20, "seq_len_kv": 2**20}
    with pytest.raises(InvalidWorkload, match=r"workload='B65536 H1024 S1048576 .* above 1\.2e\+18; lower batch_size"):
        parse_workload(largest)
    with pytest.raises(InvalidWorkload, match=r"FLOPs"):
        parse_workload(largest | {"backend": "paged_gather", "head_dim": 1, "mask": "none"})
    parse_workload({"batch_size": 8, "seq_len_q": 2**20, "seq_len_kv": 2**20})


def test_lengths_may_come_as_a_json_list():
    fields = {"mask": "document", "seq_len_q": 11, "seq_len_kv": 11, "mask_lengths": [5, 6]}
    assert parse_workload(fields) == parse_workload(fields | {"mask_lengths": "5, 6"})


@pytest.mark.parametrize("value", [[], [5, "6"], [True], [5.0], {"a": 1}, [[5]]])
def test_lengths_of_another_type_say_what_to_give(value):
    with pytest.raises(InvalidWorkload, match="give numbers with commas between them, such as 5,6"):
        parse_workload({"mask": "document", "mask_lengths": value})
