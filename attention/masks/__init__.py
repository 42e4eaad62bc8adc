"""Every mask of the catalogue, in the order in which the page lists them."""

from attention.lookup import find
from attention.masks.alibi import ALIBI
from attention.masks.causal import CAUSAL
from attention.masks.dead_rows import DEAD_ROWS
from attention.masks.document import DOCUMENT
from attention.masks.mask import BiasMod, Mask, MaskMod, MaskParameter
from attention.masks.none import NONE
from attention.masks.padding import PADDING
from attention.masks.prefix_lm import PREFIX_LM
from attention.masks.random import RANDOM
from attention.masks.sliding_window import SLIDING_WINDOW
from attention.workload import Workload

MASKS: tuple[Mask, ...] = (NONE, CAUSAL, SLIDING_WINDOW, PREFIX_LM, DOCUMENT, PADDING, ALIBI, RANDOM, DEAD_ROWS)

__all__ = ["MASKS", "BiasMod", "Mask", "MaskMod", "MaskParameter", "density", "mask_of"]


def mask_of(workload: Workload) -> Mask:
    """The catalogue's entry for the workload's mask.

    Raises:
        InvalidWorkload: no mask has this name.
    """
    return find(workload.mask.name, MASKS, field="mask")


def density(workload: Workload) -> float:
    """Share of (query, key) pairs that the mask allows, 0-1, by formula."""
    pairs = workload.batch_size * workload.seq_len_q * workload.seq_len_kv
    return mask_of(workload).count_allowed(workload) / pairs
