"""What one call beyond attention is: the operation, its sizes, dtype, backend and seed, checked on construction.

Nothing here imports torch. Activations are ``[tokens, hidden_size]`` at every public door.
"""

from dataclasses import dataclass
from enum import StrEnum

from attention.workload import SEED_LIMIT, Direction, DType, InvalidWorkload


class FusionOperation(StrEnum):
    SWIGLU = "swiglu"
    RESIDUAL_RMS_NORM = "residual_rms_norm"

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes that a call of it has."""
        return ("tokens", "hidden_size", *(("intermediate_size",) if self is FusionOperation.SWIGLU else ()))


# Wide enough for any published model, small enough that element counts stay far from 2**63.
FUSION_SIZE_LIMITS = {"tokens": 1_048_576, "hidden_size": 65_536, "intermediate_size": 262_144}


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionWorkload:
    """One call of ``operation``, forward alone. ``intermediate_size`` None: the operation has no such size.

    Raises:
        InvalidWorkload: a size is out of bounds, missing, or none of this operation's.
    """

    operation: FusionOperation
    backend: str
    tokens: int
    hidden_size: int
    intermediate_size: int | None = None
    dtype: DType = DType.BFLOAT16
    direction: Direction = Direction.FORWARD
    seed: int = 0

    def __post_init__(self) -> None:
        for name, limit in FUSION_SIZE_LIMITS.items():
            _check_size(self.operation, name, getattr(self, name), limit)
        if self.direction is not Direction.FORWARD:
            raise InvalidWorkload(
                "direction",
                self.direction.value,
                f"is not offered for {self.operation}, which is measured without gradients",
                "choose forward",
            )
        if not 0 <= self.seed <= SEED_LIMIT:
            raise InvalidWorkload("seed", self.seed, "is out of range", f"choose 0 to {SEED_LIMIT}")

    @property
    def hidden_count(self) -> int:
        """Elements of one activation ``[tokens, hidden_size]``, the output among them."""
        return self.tokens * self.hidden_size

    @property
    def widest(self) -> int:
        """Elements of a token's widest row in any tensor of the call."""
        return max(self.hidden_size, self.intermediate_size or 0)

    def describe(self) -> str:
        """One short line: ``swiglu T2048 H4096 I14336 bfloat16``, for tokens, hidden and intermediate size."""
        intermediate = f" I{self.intermediate_size}" if self.intermediate_size is not None else ""
        return f"{self.operation} T{self.tokens} H{self.hidden_size}{intermediate} {self.dtype}"


def _check_size(operation: FusionOperation, name: str, value: object, limit: int) -> None:
    remedy = f"choose 1 to {limit}"
    if name not in operation.sizes:
        if value is not None:
            raise InvalidWorkload(name, value, f"is not a parameter of {operation}", "leave it out")
        return
    if value is None:
        raise InvalidWorkload(name, value, f"is missing, and {operation} needs it", remedy)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidWorkload(name, value, "is not a whole number", remedy)
    if not 1 <= value <= limit:
        raise InvalidWorkload(name, value, "is out of range", remedy)
