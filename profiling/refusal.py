"""PyTorch's words for a refusal, read: which reasons belong to which backend, in either of its two forms.

Released versions up to torch 2.14 give several warnings, a header a backend ("… not used because:") and then one
line each; every backend that was not pinned adds "… has been runtime disabled". A CPU names flash alone.
The newer form is one error, "Rejected backends:" and then one line each, "Flash attention: …".
Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.cpp; pytorch/pytorch#177317, #184307.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from profiling.format import format_duration

if TYPE_CHECKING:
    from profiling.report_schema import Report

# What both forms call each backend, in lower case; "cudnn" was written CuDNN up to torch 2.7.
NAMES = {
    "memory efficient": "sdpa_efficient",
    "mem efficient": "sdpa_efficient",
    "flash": "sdpa_flash",
    "cudnn": "sdpa_cudnn",
    "overrideable": None,  # a device that PyTorch does not ship; its lines belong to no backend of ours
    "math": "sdpa_math",
}
_NAME = "|".join(NAMES)
_HEADER = re.compile(rf"({_NAME})(?: attention)?(?: kernel)? not used because:?\s*(.*)", re.IGNORECASE)
_GROUP = re.compile(r"rejected backends:?\s*(.*)", re.IGNORECASE)
_GROUPED_LINE = re.compile(rf"[-*•\s]*({_NAME})(?: attention)?(?: kernel)?:\s*(.*)", re.IGNORECASE)
_ERROR = re.compile(r"no (available kernel|viable backend)", re.IGNORECASE)
NOISE = "runtime disabled"
# The C++ place that torch appends to every warning of its own.
_TRIGGERED = re.compile(r"\s*\(Triggered internally at [^)]*\)\s*")


def parse_reasons(messages: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Backend to the reasons that the messages give for it, in their order, each once.

    ``messages`` are the warnings of one call and its error, in the order of time. A backend whose only reason is
    that another one was pinned is left out.
    """
    found: dict[str, list[str]] = {}
    backend: str | None = None
    grouped = False
    for message in messages:
        for line in _TRIGGERED.sub("\n", message).splitlines():
            text = line.strip()
            if header := _HEADER.search(text):
                backend, text, grouped = NAMES[header[1].lower()], header[2], False
            elif group := _GROUP.match(text):
                backend, text, grouped = None, group[1], True
            elif _ERROR.match(text):
                backend = None  # the error itself, which is a reason for nobody
            if grouped and (named := _GROUPED_LINE.match(text)):
                backend, text = NAMES[named[1].lower()], named[2]
            if backend and text and NOISE not in text.lower():
                found.setdefault(backend, []).append(text)
        # A grouped text ends with its message; under a header the lines are messages of their own.
        if grouped:
            backend, grouped = None, False
    return {slug: tuple(dict.fromkeys(reasons)) for slug, reasons in found.items()}


def parse_refusal(messages: Iterable[str], backend: str) -> str | None:
    """The reasons for ``backend`` in one line; None where the messages hold none for it."""
    return "; ".join(parse_reasons(messages).get(backend, ())) or None


# What people ask about a message, by a word of it: is it slow, is it wrong, what to do.
# Sources: CompVis/stable-diffusion#850; Dao-AILab/flash-attention#762, #1485; huggingface/transformers#31990, #38750.
EXPLANATIONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"not compiled with (flash|memory efficient|mem efficient|cudnn) ?attention", re.IGNORECASE),
        "This PyTorch build was made without that kernel, as Windows wheels are since 2.2. Nothing is wrong with the "
        "answer: SDPA takes another backend, which may be slower.",
    ),
    (
        re.compile(r"only supports (ampere|gpu architectures)", re.IGNORECASE),
        "That kernel is built for some compute capabilities alone, flash for 8.0 and newer, whatever the GPU is "
        "called. Efficient and math run on older ones. On a newer GPU it means that the tensors lay elsewhere, such as "
        "weights that were offloaded to the CPU.",
    ),
    (
        re.compile(r"output_attentions", re.IGNORECASE),
        "Attention weights are the matrix of seq_len_q × seq_len_kv that fused kernels never write to memory, so that "
        "a library which is asked for them runs its own operator-by-operator code. This app never asks for them.",
    ),
)


def explain_message(message: str, report: "Report") -> str | None:
    """What a message of PyTorch or of a library means for this run; None for one that says it itself."""
    meaning = next((answer for pattern, answer in EXPLANATIONS if pattern.search(message)), None)
    if meaning is None:
        return None
    observed, latency = report.observed_backend, report.latency
    if observed is None or observed.confidence == "unknown":
        return meaning
    clock, name = (latency.device, "device") if latency.device is not None else (latency.wall, "wall")
    cost = "" if clock is None else f" in {format_duration(clock.median_ns)} of {name} time ({clock.method})"
    return f"{meaning} Here {observed.family} ran{cost}."
