"""Reading a mask's parameters: required, of the right type and in range, or the error that says what is allowed."""

from attention.masks.mask import MaskParameter
from attention.workload import InvalidWorkload, MaskForm, Workload

LENGTHS = MaskParameter(
    name="lengths",
    label="lengths",
    kind="text",
    help="whole numbers with commas between; document: one a document, padding: one for all or one a batch entry",
)


def read_int(workload: Workload, name: str, *, least: int, most: int, default: int | None = None) -> int:
    """The whole number of parameter ``name``; ``default`` None: it has to be given.

    Raises:
        InvalidWorkload: it is missing, no whole number or out of range.
    """
    value = workload.mask.parameters.get(name, default)
    remedy = f"give a whole number from {least} to {most}"
    if value is None:
        raise _missing(workload, name, remedy)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidWorkload(f"mask_{name}", value, "is not a whole number", remedy)
    if not least <= value <= most:
        raise InvalidWorkload(f"mask_{name}", value, "is out of range", remedy)
    return value


def read_share(workload: Workload, name: str) -> float:
    """The number of parameter ``name``, above 0 and up to 1.

    Raises:
        InvalidWorkload: it is missing, no number or out of range.
    """
    value = workload.mask.parameters.get(name)
    remedy = "give a number above 0 and up to 1, such as 0.25"
    if value is None:
        raise _missing(workload, name, remedy)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise InvalidWorkload(f"mask_{name}", value, "is not a number", remedy)
    if not 0 < value <= 1:  # not nan either
        raise InvalidWorkload(f"mask_{name}", value, "is out of range", remedy)
    return float(value)


def split_lengths(workload: Workload) -> list[int]:
    """The numbers of a ``lengths`` that was checked."""
    return [int(part) for part in str(workload.mask.parameters["lengths"]).split(",")]


def read_lengths(workload: Workload, *, least: int, most: int, example: str) -> list[int]:
    """The numbers of parameter ``lengths``.

    Raises:
        InvalidWorkload: it is missing, or a part of it is no whole number or out of range.
    """
    given = workload.mask.parameters.get("lengths")
    remedy = f"give whole numbers from {least} to {most} with commas between, such as {example}"
    if given is None:
        raise _missing(workload, "lengths", remedy)
    for part in str(given).split(","):
        # A longer number is out of range anyway, and int() takes digits of other scripts.
        if not (part.isascii() and part.isdigit() and len(part) <= 20):
            raise InvalidWorkload("mask_lengths", given, f"holds {part!r}, which is not a whole number", remedy)
        if not least <= int(part) <= most:
            raise InvalidWorkload("mask_lengths", given, f"holds {part}, which is out of range", remedy)
    return split_lengths(workload)


def refuse_is_causal(workload: Workload) -> None:
    """Raises: InvalidWorkload: the call would get SDPA's causal flag, which says another mask."""
    if workload.mask.form is MaskForm.IS_CAUSAL:
        raise InvalidWorkload(
            "mask_form",
            workload.mask.form.value,
            f"cannot say mask {workload.mask.name}, only mask causal",
            "choose auto, bool, additive or additive_float32",
        )


def _missing(workload: Workload, name: str, remedy: str) -> InvalidWorkload:
    return InvalidWorkload(f"mask_{name}", None, f"is missing, and mask {workload.mask.name} needs it", remedy)
