"""A recorder without a machine, for the command line's tests."""

from collections.abc import Iterator
from dataclasses import replace

from attention.kinds import AnyWorkload
from profiling.recording import Failure, Progress, Recording, RunRequest


class FakeMachine:
    """A recorder without a machine: answers with stored recordings and remembers what it was asked."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.requests: list[RunRequest] = []

    def __call__(self, request: RunRequest) -> Iterator[Progress | Recording]:
        self.requests.append(request)
        yield Progress(stage="environment", workload_index=0, workload_count=len(request.workloads), done=0, total=1)
        if request.depth == "environment":
            yield Recording(environment=self.recording.environment)
            return
        (workload,) = request.workloads
        whole = replace(self.recording, workload=workload, schedule=request.schedule)
        if request.depth == "check":
            whole = Recording(workload=workload, environment=whole.environment, decisions=whole.decisions)
        yield whole

    @property
    def ran(self) -> AnyWorkload:
        (workload,) = self.requests[-1].workloads
        return workload


def failing(machine: FakeMachine, **failure: object) -> FakeMachine:
    whole = replace(machine.recording, failures=(Failure(**failure),), correctness=(), trace_gz=None)  # type: ignore[arg-type]
    return FakeMachine(whole)
