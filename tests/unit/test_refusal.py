"""PyTorch's refusals as each release words them, read into one reason a backend."""

import pytest

from profiling.refusal import parse_reasons, parse_refusal

PLACE = " (Triggered internally at /pytorch/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp:{}.)"
# A pinned flash backend in float32: a header a backend, then one line each.
MANY_LINES = [
    "Memory efficient kernel not used because:" + PLACE.format(903),
    "Memory Efficient attention has been runtime disabled." + PLACE.format(550),
    "Flash attention kernel not used because:" + PLACE.format(905),
    "Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query dtype: float, Key dtype: float, "
    "and Value dtype: float instead." + PLACE.format(100),
    "cuDNN attention kernel not used because:" + PLACE.format(907),
    "cuDNN attention has been runtime disabled." + PLACE.format(520),
]
# The same kind of refusal as one error.
ONE_ERROR = (
    "No available kernel. Aborting execution.\n"
    "Rejected backends:\n"
    "{bullet}Memory efficient attention: For dense input, both fused kernels require query, key and value to have the "
    "same num_heads. Query.sizes(): [8, 16, 1024, 64], Key sizes(): [8, 4, 1024, 64], Value sizes(): [8, 4, 1024, 64] "
    "instead. To broadcast dense inputs, try using unsqueeze and expand_to before passing them into the kernel.\n"
    "{bullet}Flash attention: Flash Attention does not support non-null attn_mask.\n"
    "{bullet}cuDNN attention: cuDNN attention has been runtime disabled.\n"
)
# A CPU with torch 2.8: one header, and the error.
CPU_GROUPED_HEADS = [
    "Flash attention kernel not used because:"
    " (Triggered internally at /pytorch/aten/src/ATen/native/transformers/sdp_utils_cpp.cpp:90.)",
    "For dense input, both fused kernels require query, key and value to have the same num_heads. Query.sizes(): "
    "[1, 8, 512, 64], Key sizes(): [1, 2, 512, 64], Value sizes(): [1, 2, 512, 64] instead. To broadcast dense inputs, "
    "try using unsqueeze and expand_to before passing them into the kernel."
    " (Triggered internally at /pytorch/aten/src/ATen/native/transformers/sdp_utils_cpp.h:394.)",
    "No available kernel.  Aborting execution.",
]
NO_VIABLE = (
    "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the math "
    "kernel and the fused kernels."
)


def test_lines_belong_to_the_header_above_them():
    reason = parse_refusal(MANY_LINES, "sdpa_flash")
    assert reason.startswith("Expected query, key and value to all be of dtype: {Half, BFloat16}.")
    assert "Triggered" not in reason
    assert "sdp_utils" not in reason


def test_runtime_disabled_is_noise():
    assert set(parse_reasons(MANY_LINES)) == {"sdpa_flash"}


def test_every_reason_of_a_backend_is_kept():
    layout = "{} tensor was not in cuDNN-supported unpacked QKV layout[1024, 64, 1]"
    messages = ["cuDNN attention kernel not used because:", layout.format("Key"), layout.format("Value")]
    assert parse_reasons(messages) == {"sdpa_cudnn": (layout.format("Key"), layout.format("Value"))}


@pytest.mark.parametrize(
    ("header", "backend"),
    [
        ("Flash attention kernel not used because:", "sdpa_flash"),
        ("Memory efficient kernel not used because:", "sdpa_efficient"),
        ("Memory Efficient attention kernel not used because:", "sdpa_efficient"),
        ("CuDNN attention kernel not used because:", "sdpa_cudnn"),
        ("cuDNN attention kernel not used because:", "sdpa_cudnn"),
    ],
)
def test_header_of_each_release(header, backend):
    assert parse_reasons([header, "head_dim should be a multiple of 8"]) == {
        backend: ("head_dim should be a multiple of 8",)
    }


def test_one_message_with_the_reason_behind_the_colon():
    messages = ["Flash attention kernel not used because: head_dim should be at most 256. Got 264."]
    assert parse_refusal(messages, "sdpa_flash") == "head_dim should be at most 256. Got 264."


@pytest.mark.parametrize("bullet", ["", "  ", "- ", "  * "])
def test_one_error_with_a_line_a_backend(bullet):
    reasons = parse_reasons([ONE_ERROR.format(bullet=bullet)])
    assert set(reasons) == {"sdpa_efficient", "sdpa_flash"}
    assert reasons["sdpa_flash"] == ("Flash Attention does not support non-null attn_mask.",)
    assert reasons["sdpa_efficient"][0].startswith("For dense input, both fused kernels require query, key and value")


def test_a_reason_over_two_lines_of_the_one_error_stays_whole():
    error = "Rejected backends:\nFlash attention: needs one dtype.\nGot Half and Float.\nMath: runtime disabled"
    assert parse_reasons([error]) == {"sdpa_flash": ("needs one dtype.", "Got Half and Float.")}


def test_an_unrelated_message_after_the_one_error_is_no_reason():
    messages = [ONE_ERROR.format(bullet=""), "something else was deprecated"]
    assert parse_reasons(messages) == parse_reasons(messages[:1])


def test_text_of_a_cpu():
    reasons = parse_reasons(CPU_GROUPED_HEADS)
    assert [len(lines) for lines in reasons.values()] == [1]
    assert "Query.sizes(): [1, 8, 512, 64]" in parse_refusal(CPU_GROUPED_HEADS, "sdpa_flash")
    assert parse_reasons([NO_VIABLE]) == {}


def test_another_devices_header_ends_the_lines_before_it():
    messages = [*MANY_LINES[2:4], "Overrideable attention kernel not used because:", "not registered"]
    assert "not registered" not in parse_refusal(messages, "sdpa_flash")


def test_repeated_lines_are_said_once():
    assert parse_refusal([*MANY_LINES, *MANY_LINES], "sdpa_flash") == parse_refusal(MANY_LINES, "sdpa_flash")


def test_no_words_for_this_backend():
    assert parse_refusal([], "sdpa_flash") is None
    assert parse_refusal(MANY_LINES, "naive") is None
