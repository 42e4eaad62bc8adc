"""Every mask of the catalogue, in the order in which the page lists them."""

from attention.lookup import find
from attention.masks.causal import CAUSAL
from attention.masks.mask import BiasMod, Mask, MaskMod, MaskParameter
from attention.masks.none import NONE
from attention.workload import Workload

MASKS: tuple[Mask, ...] = (NONE, CAUSAL)

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
