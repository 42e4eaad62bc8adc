"""Every backend of the catalogue, in the order in which the page lists them."""

from attention.backends.backend import Backend
from attention.backends.compiled import (
    COMPILED_NAIVE,
    COMPILED_NAIVE_CUDAGRAPH,
    COMPILED_NAIVE_MAX_AUTOTUNE,
    COMPILED_SDPA,
)
from attention.backends.cuda_graph import SDPA_CUDAGRAPH
from attention.backends.decision import Decision, DeviceFacts
from attention.backends.flash_attn4 import FLASH_ATTN4
from attention.backends.flex import FLEX, FLEX_EAGER
from attention.backends.hub import HUB_FLASH_ATTN2, HUB_FLASH_ATTN3
from attention.backends.naive import NAIVE, NAIVE_INPLACE
from attention.backends.paged import PAGED_FLEX, PAGED_GATHER, PAGED_TRITON
from attention.backends.sdpa import SDPA_AUTO, SDPA_CUDNN, SDPA_EFFICIENT, SDPA_FLASH, SDPA_MATH

BACKENDS: tuple[Backend, ...] = (
    NAIVE,
    NAIVE_INPLACE,
    SDPA_AUTO,
    SDPA_MATH,
    SDPA_FLASH,
    SDPA_EFFICIENT,
    SDPA_CUDNN,
    FLEX,
    FLEX_EAGER,
    COMPILED_NAIVE,
    COMPILED_NAIVE_CUDAGRAPH,
    COMPILED_NAIVE_MAX_AUTOTUNE,
    COMPILED_SDPA,
    SDPA_CUDAGRAPH,
    HUB_FLASH_ATTN2,
    HUB_FLASH_ATTN3,
    FLASH_ATTN4,
    PAGED_GATHER,
    PAGED_FLEX,
    PAGED_TRITON,
)

__all__ = ["BACKENDS", "Backend", "Decision", "DeviceFacts"]
