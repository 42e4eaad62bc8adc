"""Kernel roles on the page: one colour variable a role, the same in tables, timeline and legend.

The colours themselves are in ``static/page.css``, light and dark, based on the Okabe–Ito palette.
"""

from profiling.report_schema import KernelRole
from ui.markup import Markup, element

ROLE_TITLES: dict[KernelRole, str] = {
    "attention_forward": "attention forward",
    "attention_backward": "attention backward",
    "attention": "attention",
    "gemm": "GEMM",
    "convolution": "convolution",
    "softmax": "softmax",
    "normalization": "normalization",
    "mask": "mask",
    "mask_build": "mask build",
    "scale": "scale",
    "elementwise": "elementwise",
    "cast": "cast",
    "copy": "copy",
    "reduce": "reduce",
    "random": "random",
    "communication": "communication",
    "memcpy": "memcpy",
    "memset": "memset",
    "other": "other",
}


def role_colour(role: KernelRole) -> str:
    """The CSS value of a role's colour."""
    return f"var(--role-{role})"


def render_role(role: KernelRole) -> Markup:
    """A swatch with the role's word beside it; the colour never speaks alone."""
    swatch = element("span", class_="role-swatch", style=f"background:{role_colour(role)}", aria_hidden="true")
    return element("span", swatch, ROLE_TITLES[role], class_="role")
