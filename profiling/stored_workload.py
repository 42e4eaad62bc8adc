"""How a workload of either kind is written to JSON and read back: the one beyond attention names its operation."""

from collections.abc import Sequence
from typing import Annotated, Any

from attention.fusion.workload import FusionWorkload
from attention.kinds import AnyWorkload
from attention.workload import Workload

_KINDS: dict[str, type] = {"workload of attention": Workload, "workload beyond attention": FusionWorkload}


class _ByOperation:
    """Reads the type off the keys. Trying one type after the other would answer a mistake with the other's errors."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        # Imported late: `check --help` must answer without it.
        from pydantic_core import core_schema

        choices = {name: handler.generate_schema(kind) for name, kind in _KINDS.items()}
        return core_schema.tagged_union_schema(choices, discriminator=_name_kind)


def _name_kind(value: object) -> str:
    attention, other = _KINDS
    names_operation = "operation" in value if isinstance(value, dict) else isinstance(value, FusionWorkload)
    return other if names_operation else attention


StoredWorkload = Annotated[AnyWorkload, _ByOperation()]


def describe_place(place: Sequence[str | int]) -> str:
    """``workload.batch_size``: a validation error's place in the file, which has no level for the kind."""
    return ".".join(str(part) for part in place if part not in _KINDS)
