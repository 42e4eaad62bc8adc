"""Who refuses what, for machines that are not here: every fact of the device is an argument."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import BACKENDS, DeviceFacts
from attention.validation import parse_workload

SDPA = ("naive", "naive_inplace", "sdpa_auto", "sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")
H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0), torch_version=(2, 11))
A100 = DeviceFacts(kind="cuda", name="NVIDIA A100", compute_capability=(8, 0), torch_version=(2, 11))
T4 = DeviceFacts(kind="cuda", name="Tesla T4", compute_capability=(7, 5), torch_version=(2, 11))
A10 = DeviceFacts(kind="cuda", name="NVIDIA A10", compute_capability=(8, 6), torch_version=(2, 11))
L4 = DeviceFacts(kind="cuda", name="NVIDIA L4", compute_capability=(8, 9), torch_version=(2, 11))
B200 = DeviceFacts(kind="cuda", name="NVIDIA B200", compute_capability=(10, 0), torch_version=(2, 11))
RTX_PRO = DeviceFacts(kind="cuda", name="RTX PRO 6000 Blackwell", compute_capability=(12, 0), torch_version=(2, 11))
CPU = DeviceFacts(kind="cpu", torch_version=(2, 14))
AMPERE_ON = (A100, A10, L4, H200, B200, RTX_PRO)
EVERY_DEVICE = (CPU, T4, *AMPERE_ON)


def with_torch(device, *version):
    return replace(device, torch_version=version)


def decide(device, **fields):
    workload = parse_workload(fields)
    return {backend.slug: backend.check(workload, device) for backend in BACKENDS if backend.slug in SDPA}


def rejected(decisions):
    return {slug for slug, decision in decisions.items() if decision.verdict == "rejected"}


# As tried on an H200 with torch 2.11, each backend pinned.
@pytest.mark.parametrize(
    ("fields", "refusing"),
    [
        ({}, set()),
        ({"dtype": "float32"}, {"sdpa_flash", "sdpa_cudnn"}),
        ({"dtype": "float64"}, {"sdpa_flash", "sdpa_efficient", "sdpa_cudnn"}),
        ({"head_dim": 80}, set()),
        ({"head_dim": 256}, set()),
        ({"head_dim": 264}, {"sdpa_flash", "sdpa_cudnn"}),
        ({"head_dim": 63}, {"sdpa_efficient", "sdpa_cudnn"}),
        ({"mask_form": "bool"}, {"sdpa_flash"}),
        ({"mask_form": "additive"}, {"sdpa_flash"}),
        ({"kv_heads": 4}, {"sdpa_efficient"}),
        ({"seq_len_q": 512, "mask_alignment": "upper_left"}, {"sdpa_flash"}),
        ({"seq_len_q": 512, "mask_alignment": "lower_right"}, {"sdpa_flash"}),
        ({"seq_len_q": 512, "mask": "none"}, set()),
        ({"seq_len_kv": 1, "mask": "none"}, {"sdpa_cudnn"}),
    ],
    ids=str,
)
def test_hopper(fields, refusing):
    assert rejected(decide(H200, **fields)) == refusing


def test_turing_has_no_flash_and_no_cudnn_and_no_bfloat16():
    assert rejected(decide(T4, dtype="float16")) == {"sdpa_flash", "sdpa_cudnn"}
    assert rejected(decide(T4)) == {"sdpa_flash", "sdpa_cudnn", "sdpa_efficient"}
    assert "8.0" in decide(T4)["sdpa_flash"].reason
    assert "7.5" in decide(T4)["sdpa_flash"].reason


def test_cpu_has_flash_and_math_alone():
    decisions = decide(CPU, dtype="float32")
    assert rejected(decisions) == {"sdpa_efficient", "sdpa_cudnn"}
    assert decisions["sdpa_efficient"].reason == "needs a CUDA device, this is cpu"
    assert decisions["sdpa_auto"].selects == "sdpa_flash"


def test_cpu_flash_takes_grouped_heads_from_torch_2_9_on():
    assert decide(CPU, kv_heads=4)["sdpa_flash"].verdict == "accepted"
    older = decide(DeviceFacts(kind="cpu", torch_version=(2, 8)), kv_heads=4)
    assert older["sdpa_flash"].reason == "needs as many key/value heads as query heads, these are 4 and 16"
    assert older["sdpa_auto"].selects == "sdpa_math"


@pytest.mark.parametrize(
    ("device", "fields", "selected"),
    [
        (H200, {}, "sdpa_cudnn"),
        (A100, {}, "sdpa_flash"),
        (H200, {"dtype": "float32"}, "sdpa_efficient"),
        (H200, {"dtype": "float64"}, "sdpa_math"),
        (A100, {"mask_form": "bool"}, "sdpa_efficient"),
        (A100, {"kv_heads": 4, "mask_form": "bool"}, "sdpa_math"),
        (T4, {"dtype": "float16"}, "sdpa_efficient"),
    ],
    ids=str,
)
def test_selector(device, fields, selected):
    assert decide(device, **fields)["sdpa_auto"].selects == selected


@pytest.mark.parametrize("device", AMPERE_ON, ids=lambda device: device.name)
@pytest.mark.parametrize(
    ("fields", "refusing"),
    [
        ({}, set()),
        ({"dtype": "float32"}, {"sdpa_flash", "sdpa_cudnn"}),
        ({"head_dim": 128}, set()),
        ({"layout": "transposed"}, set()),
        ({"layout": "expanded_kv", "kv_heads": 1}, set()),
        ({"layout": "expanded_kv", "kv_heads": 4}, set()),
        ({"kv_heads": 1}, {"sdpa_efficient"}),
        ({"head_dim": 64, "head_dim_v": 128}, {"sdpa_flash"}),
        ({"head_dim": 128, "head_dim_v": 60}, {"sdpa_flash", "sdpa_efficient", "sdpa_cudnn"}),
        ({"mask_form": "additive_float32"}, {"sdpa_flash", "sdpa_efficient"}),
        ({"mask_form": "additive_float32", "dtype": "float32"}, {"sdpa_flash", "sdpa_cudnn"}),
        ({"head_dim": 20, "dtype": "float32"}, {"sdpa_flash", "sdpa_cudnn"}),
        ({"head_dim": 18, "dtype": "float32"}, {"sdpa_flash", "sdpa_efficient", "sdpa_cudnn"}),
        ({"seq_len_q": 1, "seq_len_kv": 77, "mask": "none"}, set()),
    ],
    ids=str,
)
def test_same_from_ampere_to_blackwell(device, fields, refusing):
    assert rejected(decide(device, **fields)) - {"sdpa_auto"} == refusing


@pytest.mark.parametrize(
    ("device", "limit"),
    [
        (A100, 128),
        (L4, 128),
        (RTX_PRO, 128),
        (H200, 256),
        (with_torch(H200, 2, 8), 128),
        (B200, 128),
        (with_torch(B200, 2, 14), 256),
        (with_torch(RTX_PRO, 2, 14), 128),
    ],
    ids=lambda value: f"{value.name} {value.torch_version}" if isinstance(value, DeviceFacts) else str(value),
)
def test_head_dim_limit_of_cudnn(device, limit):
    assert decide(device, head_dim=limit)["sdpa_cudnn"].verdict == "accepted"
    beyond = decide(device, head_dim=limit + 8)["sdpa_cudnn"]
    assert beyond.reason == f"takes head_dim up to {limit} on this device, this is {limit + 8}"


def test_blackwell_takes_one_wider_pair_of_head_dims():
    assert decide(B200, head_dim=192, head_dim_v=128)["sdpa_cudnn"].verdict == "accepted"
    assert decide(B200, head_dim=192)["sdpa_cudnn"].verdict == "rejected"
    assert decide(with_torch(B200, 2, 10), head_dim=192, head_dim_v=128)["sdpa_cudnn"].verdict == "rejected"


def test_efficient_groups_heads_from_torch_2_14_on():
    assert decide(with_torch(H200, 2, 13), kv_heads=4)["sdpa_efficient"].verdict == "rejected"
    assert decide(with_torch(H200, 2, 14), kv_heads=4)["sdpa_efficient"].verdict == "accepted"


def test_decoding_on_datacentre_blackwell_is_guarded_from_torch_2_14_on():
    decode = {"seq_len_q": 1, "mask": "none"}
    newer = with_torch(B200, 2, 14)
    assert decide(B200, **decode)["sdpa_cudnn"].verdict == "accepted"
    assert decide(newer, **decode)["sdpa_cudnn"].reason == (
        "needs seq_len_q above 1 on compute capability 10.0, this is 1"
    )
    assert decide(newer, **decode)["sdpa_auto"].selects == "sdpa_flash"
    assert decide(with_torch(H200, 2, 14), **decode)["sdpa_cudnn"].verdict == "accepted"


@pytest.mark.parametrize("device", [A10, L4, RTX_PRO], ids=lambda device: device.name)
def test_small_shared_memory_limits_flash_with_gradients_alone(device):
    assert decide(device, head_dim=200)["sdpa_flash"].verdict == "accepted"
    for head_dim, verdict in ((192, "accepted"), (200, "rejected"), (224, "rejected"), (232, "accepted")):
        decision = decide(device, head_dim=head_dim, direction="forward_backward")["sdpa_flash"]
        assert decision.verdict == verdict, head_dim
    for large in (A100, H200, B200):
        assert decide(large, head_dim=200, direction="forward_backward")["sdpa_flash"].verdict == "accepted"


def test_cudnn_with_gradients_takes_three_kinds_of_wide_heads():
    newer = with_torch(H200, 2, 14)

    def verdict(head_dim, head_dim_v):
        fields = {"head_dim": head_dim, "head_dim_v": head_dim_v, "direction": "forward_backward"}
        return decide(newer, **fields)["sdpa_cudnn"].verdict

    assert {verdict(128, 64), verdict(192, 128), verdict(256, 256)} == {"accepted"}
    assert {verdict(192, 192), verdict(256, 128), verdict(136, 136)} == {"rejected"}
    assert decide(newer, head_dim=192)["sdpa_cudnn"].verdict == "accepted"


def test_turing_float32_needs_no_alignment():
    assert decide(T4, dtype="float32", head_dim=63)["sdpa_efficient"].verdict == "accepted"
    assert decide(T4, dtype="float16", head_dim=63)["sdpa_efficient"].verdict == "rejected"
    assert decide(A100, dtype="float32", head_dim=63)["sdpa_efficient"].verdict == "rejected"


def test_a_gpu_newer_than_the_kernels_is_refused():
    future = DeviceFacts(kind="cuda", compute_capability=(13, 0), torch_version=(2, 14))
    decisions = decide(future)
    assert rejected(decisions) == {"sdpa_flash", "sdpa_efficient", "sdpa_cudnn"}
    assert decisions["sdpa_flash"].reason == "takes compute capability up to 12.1, this is 13.0"


@pytest.mark.parametrize(
    "fields",
    [
        {"seq_len_q": 512, "mask_alignment": "upper_left"},
        {"mask_form": "bool"},
        {"mask_form": "additive_float32"},
        {"dtype": "float64"},
        {"head_dim": 1},
        {"seq_len_q": 1, "seq_len_kv": 1, "mask": "none"},
        {"head_dim": 512},
    ],
    ids=str,
)
def test_flash_of_the_cpu_takes_what_that_of_the_gpu_refuses(fields):
    assert decide(CPU, **fields)["sdpa_flash"].verdict == "accepted"


def test_selector_that_picks_a_kernel_which_then_refuses():
    # Efficient's check does not look at the mask's dtype; its kernel does.
    decision = decide(A100, mask_form="additive_float32")["sdpa_auto"]
    assert (decision.verdict, decision.selects) == ("rejected", "sdpa_efficient")
    assert decision.reason == (
        "the selector picks sdpa_efficient, which takes an additive mask in the query's dtype, "
        "this is float32 beside bfloat16"
    )
    assert decide(H200, mask_form="additive_float32")["sdpa_auto"].selects == "sdpa_cudnn"
    assert decide(A100, mask_form="additive_float32", kv_heads=4)["sdpa_auto"].selects == "sdpa_math"


@given(
    device=st.sampled_from(EVERY_DEVICE),
    torch_version=st.sampled_from([(2, 8), (2, 9), (2, 11), (2, 14)]),
    fields=st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
            "kv_heads": st.sampled_from([1, 4, 16]),
            "head_dim": st.integers(1, 300),
            "head_dim_v": st.none() | st.integers(1, 300),
            "seq_len_q": st.sampled_from([1, 77, 128]),
            "seq_len_kv": st.sampled_from([1, 77, 128]),
            "mask_alignment": st.just("upper_left"),
            "mask_form": st.sampled_from(["auto", "bool", "additive", "additive_float32"]),
            "layout": st.sampled_from(["contiguous", "transposed", "expanded_kv"]),
            "direction": st.sampled_from(["forward", "forward_backward"]),
        }
    ),
)
def test_every_reason_names_both_sides(device, torch_version, fields):
    for decision in decide(with_torch(device, *torch_version), **fields).values():
        if decision.verdict == "rejected":
            for reason in decision.reason.split("; "):
                assert {"takes", "needs", "picks"} & set(reason.split()), reason
                assert {"this", "these"} & set(reason.split()), reason


@pytest.mark.parametrize("device", EVERY_DEVICE, ids=lambda device: device.name or "CPU")
def test_math_and_naive_take_everything(device):
    for fields in ({}, {"dtype": "float64"}, {"head_dim": 63}, {"mask_form": "additive"}, {"kv_heads": 1}):
        decisions = decide(device, **fields)
        assert {"naive", "naive_inplace", "sdpa_math"}.isdisjoint(rejected(decisions))
