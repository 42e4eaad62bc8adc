"""One value that a user may give for a workload: its name, its words, and how its text is read."""

import re
from dataclasses import dataclass, field
from typing import Literal

from attention.backends import BACKENDS
from attention.fusion.backends import FUSION_BACKENDS
from attention.fusion.workload import FUSION_SIZE_LIMITS, FusionOperation
from attention.lookup import find_name
from attention.workload import SIZE_LIMITS, InvalidWorkload, Scalar

ATTENTION_OPERATION = "attention"
FUSION_OPERATIONS = tuple(operation.value for operation in FusionOperation)
OPERATION_NAMES = (ATTENTION_OPERATION, *FUSION_OPERATIONS)
BACKEND_NAMES: dict[str, tuple[str, ...]] = {
    ATTENTION_OPERATION: tuple(backend.slug for backend in BACKENDS),
    **dict.fromkeys(FUSION_OPERATIONS, tuple(backend.slug for backend in FUSION_BACKENDS)),
}
TEXT_LIMIT = 2_000  # some hundred document lengths
_LIMITS = SIZE_LIMITS | FUSION_SIZE_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadField:
    """One value that a user may give. ``default`` is the tutorial's; None means it may be left out.

    ``operations``: those whose calls have this field. ``defaults``: by operation, where it is not ``default``.
    """

    name: str
    kind: Literal["choice", "int", "float", "text"]
    label: str
    help: str
    default: Scalar | None
    choices: tuple[str, ...] = ()
    operations: tuple[str, ...] = (ATTENTION_OPERATION,)
    defaults: dict[str, Scalar] = field(default_factory=dict)

    def default_of(self, operation: str) -> Scalar | None:
        """What stands for a value that was left out; None also where the operation has no such field."""
        return self.defaults.get(operation, self.default) if operation in self.operations else None

    def choices_of(self, operation: str) -> tuple[str, ...]:
        """The names that this operation takes."""
        return BACKEND_NAMES[operation] if self.name == "backend" else self.choices


def size_field(name: str, label: str, help: str, default: int | None) -> WorkloadField:
    """A size of an attention call."""
    return WorkloadField(name=name, kind="int", label=label, help=f"{help}; 1 to {SIZE_LIMITS[name]}", default=default)


def fusion_size_field(name: str, label: str, help: str, defaults: dict[str, Scalar]) -> WorkloadField:
    """A size of the operations that ``defaults`` names."""
    return WorkloadField(
        name=name,
        kind="int",
        label=label,
        help=f"of {' and '.join(defaults)}: {help}; 1 to {FUSION_SIZE_LIMITS[name]}",
        default=next(iter(defaults.values())),
        operations=tuple(defaults),
        defaults=defaults,
    )


def is_blank(value: object) -> bool:
    """Whether the value was left out."""
    return value is None or (isinstance(value, str) and not value.strip())


def parse_value(field: WorkloadField, value: object, operation: str) -> Scalar | None:
    """The value that ``operation`` gets for what was given: text, a number, or nothing for the default.

    Raises:
        InvalidWorkload: it is of the wrong type, or no name of this field.
    """
    if is_blank(value):
        return field.default_of(operation)
    if field.kind == "choice":
        choices = field.choices_of(operation)
        if isinstance(value, str) and value in field.choices and value not in choices:
            remedy = f"choose one of {', '.join(choices)}"
            raise InvalidWorkload(field.name, value, f"is not a {field.label} of {operation}", remedy)
        return find_name(value, choices, field=field.name)
    if field.kind == "text":
        return _parse_text(field, value)
    return _parse_int(field, value) if field.kind == "int" else _parse_float(field, value)


def _parse_text(field: WorkloadField, value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**20:
        value = str(value)  # a list of one, as JSON gives it
    if isinstance(value, list | tuple) and 0 < len(value) <= TEXT_LIMIT and all(type(part) is int for part in value):
        value = ",".join(map(str, value))  # a JSON list of lengths
    if isinstance(value, str) and len(value) <= TEXT_LIMIT:
        return "".join(value.split())
    remedy = f"give numbers with commas between them, such as 5,6, in at most {TEXT_LIMIT} characters"
    raise InvalidWorkload(field.name, value, "is not a short list of numbers", remedy)


def _parse_int(field: WorkloadField, value: object) -> int:
    limit = _LIMITS.get(field.name)
    # The range of a mask's number depends on the mask, which says it once the value is a number.
    remedy = f"choose 1 to {limit}" if limit else "give a whole number such as 4"
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # A number box of a page gives 8.0 for 8.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    # 20 digits hold every value in range; int() of a longer text is refused or slow.
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", value):
        return int(value)
    raise InvalidWorkload(field.name, value, "is not a whole number", remedy)


def _parse_float(field: WorkloadField, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # float() would also take 1_0 and digits of other scripts, which look like a slip.
    if number or (isinstance(value, str) and len(value) <= 40 and value.isascii() and "_" not in value):
        try:
            return float(value)  # type: ignore[arg-type]  # a number or text; Workload refuses nan and infinity
        except (ValueError, OverflowError):
            pass
    remedy = "leave it out for 1/sqrt(head_dim)" if field.name == "scale" else "give a number such as 0.25"
    raise InvalidWorkload(field.name, value, "is not a number", remedy)
