"""Random: the same number of keys in every row, at places that a formula scatters.

A row's keys are those whose place, by a bijection of the key index that differs from row to row, comes first.
A bijection keeps the count exact, and integer arithmetic gives the same mask on every device.
"""

from math import gcd
from typing import Any

from attention.masks.mask import Mask, MaskMod, MaskParameter, resolve_dense_form
from attention.masks.parameters import read_int, read_share, refuse_is_causal
from attention.workload import SEED_LIMIT, Workload

# Compiled kernels index with 32 bits, so every intermediate value stays below this.
INTEGER_LIMIT = 2**31
PRIME = 46_337  # the largest prime whose square stays below the limit

DENSITY = MaskParameter(
    name="density", label="density", kind="float", help="share of the keys that each query sees; above 0 and up to 1"
)
SEED = MaskParameter(name="seed", label="mask seed", kind="int", help="seed of the places; left out it is 0")


def keys_per_row(workload: Workload) -> int:
    """Keys that every query sees: the share, rounded, and at least one."""
    return max(1, round(float(workload.mask.parameters["density"]) * workload.seq_len_kv))


def scramble(seed: int, index: int) -> int:
    """The ``index``-th 64-bit number of ``seed``. Source: SplitMix64, Steele et al., 2014."""
    word = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def coprime_step(number: int, keys: int) -> int:
    """A multiplier that permutes 0 to keys - 1 and whose products stay below the limit."""
    most = max(1, min(keys - 1, (INTEGER_LIMIT - PRIME) // keys))
    step = 1 + number % most
    while gcd(step, keys) != 1:
        step -= 1  # 1 is coprime to every number
    return step


def _build_mod(workload: Workload) -> MaskMod:
    keys, count = workload.seq_len_kv, keys_per_row(workload)
    seed = int(workload.mask.parameters.get("seed", 0))
    first_step, second_step = (coprime_step(scramble(seed, index), keys) for index in (0, 1))
    row_step = 1 + scramble(seed, 2) % min(PRIME - 1, (INTEGER_LIMIT - PRIME) // workload.seq_len_q)
    row_start = scramble(seed, 3) % PRIME
    span = 1 << (keys - 1).bit_length()  # the power of two that holds every key index

    def random_mod(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        row = (q_idx * row_step + row_start) % PRIME
        row = row * row % PRIME
        other = row * row % PRIME
        place = (kv_idx * first_step + row) % keys
        # Swapping places that differ in some bits, where both exist, breaks the even spacing of multiples.
        swapped = place ^ (other % span)
        place = place + (swapped - place) * (swapped < keys)
        return (place * second_step + other) % keys < count

    return random_mod


def _check(workload: Workload) -> None:
    refuse_is_causal(workload)
    read_share(workload, "density")
    read_int(workload, "seed", least=0, most=SEED_LIMIT, default=0)


RANDOM = Mask(
    slug="random",
    title="random: as many keys for every query, at scattered places",
    source="Zaheer et al., 2020 (BigBird), section 2: random attention with a fixed number of keys a query",
    parameters=(DENSITY, SEED),
    build_mod=_build_mod,
    count_allowed=lambda workload: workload.batch_size * workload.seq_len_q * keys_per_row(workload),
    count_dead_rows=lambda workload: 0,
    resolve_form=resolve_dense_form,
    check=_check,
)
