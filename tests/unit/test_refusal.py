from profiling.refusal import parse_refusal

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


def test_lines_belong_to_the_header_above_them():
    reason = parse_refusal(MANY_LINES, "sdpa_flash")
    assert reason.startswith("Expected query, key and value to all be of dtype: {Half, BFloat16}.")
    assert "Triggered" not in reason
    assert "sdp_utils" not in reason


def test_runtime_disabled_is_noise():
    assert parse_refusal(MANY_LINES, "sdpa_efficient") is None
    assert parse_refusal(MANY_LINES, "sdpa_cudnn") is None


def test_one_message_with_the_reason_behind_the_colon():
    messages = ["Flash attention kernel not used because: head_dim should be at most 256. Got 264."]
    assert parse_refusal(messages, "sdpa_flash") == "head_dim should be at most 256. Got 264."


def test_repeated_lines_are_said_once():
    assert parse_refusal([*MANY_LINES, *MANY_LINES], "sdpa_flash") == parse_refusal(MANY_LINES, "sdpa_flash")


def test_no_words_for_this_backend():
    assert parse_refusal([], "sdpa_flash") is None
    assert parse_refusal(MANY_LINES, "naive") is None
