"""What a run still owes its caller: which workloads have no recording yet, and how far each one came.

Whoever runs a recorder in another process needs it, because that process can end between two recordings.
"""

from attention.kinds import AnyWorkload
from profiling.recording import Failure, FailureKind, Progress, Recording, RunRequest, Stage


class Delivery:
    """Follows one request's items; afterwards ``fail_rest`` accounts for every workload without a recording."""

    def __init__(self, request: RunRequest) -> None:
        # A request for the environment alone names no workload and is owed one recording all the same.
        self._owed: dict[int, AnyWorkload | None] = dict(enumerate(request.workloads or (None,)))
        self._stages: dict[int, Stage] = {}
        self.progress = Progress(
            stage="queue",
            workload_index=0,
            workload_count=len(request.workloads),
            done=0,
            total=max(1, len(self._owed)),
        )
        self.context_lost = False  # a sticky CUDA error was delivered: its process must not run anything else

    @property
    def complete(self) -> bool:
        """Whether every workload has its recording."""
        return not self._owed

    def note(self, item: Progress | Recording) -> None:
        """Takes one item of the run into account."""
        if isinstance(item, Progress):
            self.progress = item
            self._stages[item.workload_index] = item.stage
            return
        self.context_lost = self.context_lost or any(failure.sticky for failure in item.failures)
        if self._owed:
            same = (index for index, workload in self._owed.items() if workload == item.workload)
            del self._owed[next(same, min(self._owed))]

    def fail_rest(self, *, kind: FailureKind, message: str, hint: str) -> tuple[Recording, ...]:
        """One recording for each workload that has none; its failure names the last stage this workload reached.

        After a lost context that is the reason, and what the process said as it was ended for it is not.
        """
        if self.context_lost:
            kind = "crashed"
            message = "Did not run: an earlier workload of this run lost the CUDA context."
            hint = "Run this workload apart from the one that failed; the next run starts in a new process."
        return tuple(
            Recording(
                workload=workload,
                failures=(Failure(stage=self._stages.get(index, "queue"), kind=kind, message=message, hint=hint),),
            )
            for index, workload in self._owed.items()
        )
