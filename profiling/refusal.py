"""PyTorch's words for a refusal, read: which lines belong to which backend, and a cause in one line.

Up to torch 2.11 the reasons come as several warnings, a header a backend ("… not used because:") and then one
line each; every backend that was not pinned adds "… has been runtime disabled".
Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp.
"""

import re
from collections.abc import Iterable

HEADERS = {
    "sdpa_flash": "flash attention kernel not used because",
    "sdpa_efficient": "memory efficient kernel not used because",
    "sdpa_cudnn": "cudnn attention kernel not used because",
}
NOISE = "runtime disabled"
# The C++ place that torch appends to every warning of its own.
_TRIGGERED = re.compile(r"\s*\(Triggered internally at [^)]*\)\s*")


def parse_refusal(messages: Iterable[str], backend: str) -> str | None:
    """The lines under the backend's own header, joined; None where the messages hold none for it."""
    wanted = HEADERS.get(backend)
    if wanted is None:
        return None
    lines: list[str] = []
    under_header = False
    for message in messages:
        for line in _TRIGGERED.sub("\n", message).splitlines():
            text = line.strip()
            lowered = text.lower()
            if any(header in lowered for header in HEADERS.values()):
                under_header = wanted in lowered
                # A newer, one-message text carries the reason behind the colon.
                text = text.partition(":")[2].strip()
                lowered = text.lower()
            if under_header and text and NOISE not in lowered:
                lines.append(text)
    return "; ".join(dict.fromkeys(lines)) or None
