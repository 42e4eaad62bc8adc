"""What one attention call is: shape, dtype, mask, backend and seed, checked on construction.

Nothing here imports torch, so that a form or a command line can validate before any device work.
Layout at every public door is ``[batch_size, num_heads, seq_len, head_dim]``.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class DType(StrEnum):
    FLOAT64 = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return {"float64": 8, "float32": 4}.get(self.value, 2)


class Direction(StrEnum):
    FORWARD = "forward"  # under no_grad
    FORWARD_BACKWARD = "forward_backward"  # with the gradients of query, key and value


class Layout(StrEnum):
    """How query, key and value lie in memory; their shapes stay ``[batch_size, heads, seq_len, dim]``."""

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"  # views of [batch_size, seq_len, heads, dim], as a projection leaves them
    EXPANDED_KV = "expanded_kv"  # key and value with the query's heads; stride 0 where kv_heads is 1


class MaskForm(StrEnum):
    """How the mask reaches the call; it decides which backends are eligible."""

    AUTO = "auto"
    IS_CAUSAL = "is_causal"
    BOOL = "bool"
    ADDITIVE = "additive"  # in the query's dtype
    ADDITIVE_FLOAT32 = "additive_float32"


Scalar = str | int | float

# Wide enough for any published model, small enough that element counts stay far from 2**63.
SIZE_LIMITS = {
    "batch_size": 65_536,
    "num_heads": 1_024,
    "kv_heads": 1_024,
    "seq_len_q": 1_048_576,
    "seq_len_kv": 1_048_576,
    "head_dim": 1_024,
    "head_dim_v": 1_024,
}
SEED_LIMIT = 2**63 - 1
# FLOPs of one call: 19 minutes at 1e15 a second. JSON writers hold 64 bits, and the largest sizes together go beyond.
DENSE_FLOPS_LIMIT = 2**60
# Far beyond any use: at 1 the softmax is close to one-hot. At 1e308 scores overflow even in the float64 reference.
SCALE_LIMIT = 1e4
_LONGEST_VALUE = 80  # characters of a wrong value that a one-line message repeats


class InvalidWorkload(ValueError):
    """Bad input: the field, its value, what is wrong and what to do instead."""

    def __init__(self, field: str, value: object, problem: str, remedy: str) -> None:
        self.field = field
        self.value = value
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{field}={_shorten(value)} {problem}; {remedy}.")

    def __reduce__(self) -> tuple[type["InvalidWorkload"], tuple[str, object, str, str]]:
        return type(self), (self.field, self.value, self.problem, self.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskSpec:
    """A mask by name, its parameters, and the form in which the call receives it."""

    name: str = "none"
    parameters: dict[str, Scalar] = field(default_factory=dict)
    form: MaskForm = MaskForm.AUTO


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One attention call. The defaults are the tutorial's case.

    ``head_dim_v`` None means ``head_dim``; ``scale`` None means 1/sqrt(head_dim).

    Raises:
        InvalidWorkload: a size is out of bounds or two fields contradict each other.
    """

    backend: str = "sdpa_auto"
    mask: MaskSpec = field(default_factory=lambda: MaskSpec(name="causal"))
    batch_size: int = 8
    num_heads: int = 16
    kv_heads: int = 16
    seq_len_q: int = 1024
    seq_len_kv: int = 1024
    head_dim: int = 64
    head_dim_v: int | None = None
    dtype: DType = DType.BFLOAT16
    direction: Direction = Direction.FORWARD
    layout: Layout = Layout.CONTIGUOUS
    dropout_p: float = 0.0
    scale: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, limit in SIZE_LIMITS.items():
            value = getattr(self, name)
            if name == "head_dim_v" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise InvalidWorkload(name, value, "is not a whole number", f"choose 1 to {limit}")
            if not 1 <= value <= limit:
                raise InvalidWorkload(name, value, "is out of range", f"choose 1 to {limit}")
        if self._dense_flops > DENSE_FLOPS_LIMIT:
            raise InvalidWorkload(
                "workload",
                self.describe(),
                f"takes {self._dense_flops:.1e} FLOPs forward and backward, above {DENSE_FLOPS_LIMIT:.1e}",
                "lower batch_size, the heads or the sequence lengths",
            )
        if self.num_heads % self.kv_heads:
            divisors = [n for n in range(1, self.num_heads + 1) if self.num_heads % n == 0]
            raise InvalidWorkload(
                "kv_heads",
                self.kv_heads,
                f"does not divide num_heads={self.num_heads}",
                f"choose {_either(divisors)}",
            )
        if not 0 <= self.seed <= SEED_LIMIT:
            raise InvalidWorkload("seed", self.seed, "is out of range", f"choose 0 to {SEED_LIMIT}")
        if self.dropout_p != 0.0:
            # Random zeros make every delta meaningless, and SDPA applies dropout in eval mode too.
            raise InvalidWorkload(
                "dropout_p", self.dropout_p, "would make the outputs random", "choose 0.0: correctness is checked"
            )
        if self.scale is not None and not 0 < self.scale <= SCALE_LIMIT:  # not nan either
            raise InvalidWorkload(
                "scale",
                self.scale,
                "is out of range",
                f"choose a number above 0 and up to {SCALE_LIMIT:g}, or leave it out for 1/sqrt(head_dim)",
            )

    @property
    def value_dim(self) -> int:
        """Head dimension of value and output."""
        return self.head_dim if self.head_dim_v is None else self.head_dim_v

    @property
    def presented_kv_heads(self) -> int:
        """Heads of key and value as the call receives them."""
        return self.num_heads if self.layout is Layout.EXPANDED_KV else self.kv_heads

    @property
    def stored_kv_heads(self) -> int:
        """Heads of key and value that lie in memory: expanding one head is a view, expanding more a copy."""
        return 1 if self.kv_heads == 1 else self.presented_kv_heads

    @property
    def softmax_scale(self) -> float:
        return self.head_dim**-0.5 if self.scale is None else self.scale

    @property
    def score_count(self) -> int:
        """Elements of the score matrix ``[batch_size, num_heads, seq_len_q, seq_len_kv]``."""
        return self.batch_size * self.num_heads * self.seq_len_q * self.seq_len_kv

    @property
    def _dense_flops(self) -> int:
        """FLOPs of all seven products of both directions over the whole score matrix."""
        return 2 * self.score_count * (4 * self.head_dim + 3 * self.value_dim)

    def describe(self) -> str:
        """One short line, in the field's shorthand: ``B8 H16 S1024 D64 bfloat16 causal``."""
        heads = f"H{self.num_heads}" + (f"/{self.kv_heads}" if self.kv_heads != self.num_heads else "")
        lengths = f"S{self.seq_len_q}" + (f"×{self.seq_len_kv}" if self.seq_len_kv != self.seq_len_q else "")
        dims = f"D{self.head_dim}" + (f"/{self.value_dim}" if self.value_dim != self.head_dim else "")
        return f"B{self.batch_size} {heads} {lengths} {dims} {self.dtype} {self.mask.name}"


def _shorten(value: object) -> str:
    try:
        shown = repr(value)
    except ValueError:  # Python writes out no whole number of more than 4300 digits
        return "(a number of thousands of digits)"
    if len(shown) <= _LONGEST_VALUE:
        return shown
    return f"{shown[: _LONGEST_VALUE // 2]}…{shown[-8:]} ({len(shown)} characters)"


def _either(values: list[int]) -> str:
    if len(values) == 1:
        return str(values[0])
    return ", ".join(map(str, values[:-1])) + f" or {values[-1]}"
