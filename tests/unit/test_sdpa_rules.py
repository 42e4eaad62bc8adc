"""Who refuses what, for machines that are not here: every fact of the device is an argument."""

import pytest

from attention.backends import BACKENDS, DeviceFacts
from attention.validation import parse_workload

H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0), torch_version=(2, 11))
A100 = DeviceFacts(kind="cuda", name="NVIDIA A100", compute_capability=(8, 0), torch_version=(2, 11))
T4 = DeviceFacts(kind="cuda", name="Tesla T4", compute_capability=(7, 5), torch_version=(2, 11))
CPU = DeviceFacts(kind="cpu", torch_version=(2, 14))


def decide(device, **fields):
    workload = parse_workload(fields)
    return {backend.slug: backend.check(workload, device) for backend in BACKENDS}


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


def test_every_reason_names_both_sides():
    for fields in ({"dtype": "float32"}, {"head_dim": 264}, {"mask_form": "bool"}, {"kv_heads": 4}):
        for decision in decide(H200, **fields).values():
            if decision.verdict == "rejected":
                assert "this" in decision.reason or "these" in decision.reason


@pytest.mark.parametrize("device", [H200, A100, T4, CPU])
def test_math_and_naive_take_everything(device):
    for fields in ({}, {"dtype": "float64"}, {"head_dim": 63}, {"mask_form": "additive"}, {"kv_heads": 1}):
        decisions = decide(device, **fields)
        assert {"naive", "naive_inplace", "sdpa_math"}.isdisjoint(rejected(decisions))
