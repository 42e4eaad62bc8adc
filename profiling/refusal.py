"""PyTorch's words for a refusal, read: which reasons belong to which backend, in either of its two forms.

Released versions up to torch 2.14 give several warnings, a header a backend ("… not used because:") and then one
line each; every backend that was not pinned adds "… has been runtime disabled". A CPU names flash alone.
The newer form is one error, "Rejected backends:" and then one line each, "Flash attention: …".
Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.cpp; pytorch/pytorch#177317, #184307.
"""

import re
from collections.abc import Iterable

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
