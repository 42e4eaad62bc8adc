"""Dead rows: the last query rows may attend to nothing, the others to everything.

What a call gives for such rows is not defined by the formula: softmax divides by zero. Some paths give zeros,
others NaN, and this mask shows which.
"""

from typing import Any

from attention.masks.mask import Mask, MaskMod, MaskParameter, resolve_dense_form
from attention.masks.parameters import read_int, refuse_is_causal
from attention.workload import InvalidWorkload, Workload

COUNT = MaskParameter(
    name="count",
    label="dead rows",
    kind="int",
    help="last query rows, which may attend to nothing; 1 to seq_len_q - 1",
)


def _live_rows(workload: Workload) -> int:
    return workload.seq_len_q - int(workload.mask.parameters["count"])


def _build_mod(workload: Workload) -> MaskMod:
    live_rows = _live_rows(workload)

    def dead_rows_mod(batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
        return q_idx < live_rows

    return dead_rows_mod


def _check(workload: Workload) -> None:
    refuse_is_causal(workload)
    rows = workload.seq_len_q
    if rows == 1:
        raise InvalidWorkload(
            "seq_len_q", rows, "leaves mask dead_rows no row besides a dead one", "choose 2 or more, or another mask"
        )
    if workload.mask.parameters.get("count") == rows:
        raise InvalidWorkload(
            "mask_count", rows, "leaves no allowed pair: every row would be dead", f"give 1 to {rows - 1}"
        )
    read_int(workload, "count", least=1, most=rows - 1)


DEAD_ROWS = Mask(
    slug="dead_rows",
    title="dead rows: the last query rows may attend to nothing",
    source="pytorch/pytorch#41508: NaN in rows whose keys are all masked",
    parameters=(COUNT,),
    build_mod=_build_mod,
    count_allowed=lambda workload: workload.batch_size * _live_rows(workload) * workload.seq_len_kv,
    count_dead_rows=lambda workload: workload.batch_size * (workload.seq_len_q - _live_rows(workload)),
    resolve_form=resolve_dense_form,
    check=_check,
)
