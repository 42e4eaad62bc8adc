"""Run workloads under torch.profiler and hand back recordings. The only module that starts the profiler.

Order for each workload: inputs, first call, warm-up, un-profiled timing, memory, profile, correctness, decisions.
A stage that fails leaves a Failure; what came before it stands, and the next workload starts afresh.
"""

import gc
import gzip
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from warnings import WarningMessage

from attention.backends import Decision
from attention.call import build_call
from attention.inputs import fingerprint
from attention.kinds import AnyInputs, AnyWorkload, kind_of
from attention.lookup import find
from attention.validation import check_memory, check_workload
from attention.workload import Workload
from profiling import timing
from profiling.compilation import CompilerWatch
from profiling.eligibility import add_first_call, build_decisions, capture_warnings, read_refusal, refuse_by_rule
from profiling.environment import build_device_facts, capture_environment, choose_device
from profiling.failures import build_failure, build_refusal, is_refusal, is_sticky
from profiling.judgement import judge_results
from profiling.memory import MemoryGauge
from profiling.recording import (
    CapturedWarning,
    Environment,
    Failure,
    Latency,
    LedgerEntry,
    Progress,
    Recording,
    RunRequest,
    Stage,
)
from profiling.shared_work import SharedWork
from profiling.unlock_timing import measure_unlocks

if TYPE_CHECKING:
    import torch

TRACE_GZIP_LEVEL = 6
STAGES: tuple[Stage, ...] = get_args(Stage)[2:-1]  # without the queue, the machine, and what is asked for apart
# Without one of these nothing after it can run; the others stand alone.
NEEDED_STAGES: tuple[Stage, ...] = ("inputs", "first_call", "warmup")
CHECK_STAGES: tuple[Stage, ...] = ("inputs", "decisions")


def record(request: RunRequest) -> Iterator[Progress | Recording]:
    """Progress before each stage, and one Recording a workload, in the request's order.

    With ``depth`` "environment" one Recording that holds the machine alone. Failures travel inside recordings;
    after one that lost the CUDA context no further workload is tried in this process.
    """
    yield Progress(stage="environment", workload_index=0, workload_count=len(request.workloads), done=0, total=1)
    try:
        device = choose_device(request.device)
        environment = capture_environment(device)
    except (RuntimeError, ValueError) as error:
        failure = build_failure("environment", error)
        for workload in request.workloads or (None,):
            yield Recording(workload=workload, failures=(failure,))
        return
    if request.depth == "environment":
        yield Recording(environment=environment)
        return
    shared = SharedWork()
    for index, workload in enumerate(request.workloads):
        run = _Run(request, environment, workload, shared)
        yield from run.advance(index)
        if run.lost_context():
            return


def warm_up() -> Environment:
    """Load torch, the device's libraries and the profiler, so that a first run does not pay for it."""
    request = RunRequest(workloads=(_warm_up_workload(),))
    environment: Environment | None = None
    for item in record(request):
        if isinstance(item, Recording):
            environment = item.environment
    if environment is None:
        raise RuntimeError("the warm-up run gave no environment")
    return environment


def _warm_up_workload() -> Workload:
    # Small, and of the shape class of the defaults, so that the same libraries are loaded.
    return Workload(batch_size=1, num_heads=2, kv_heads=2, seq_len_q=128, seq_len_kv=128)


class _Run:
    """One workload on its way through the stages."""

    def __init__(
        self, request: RunRequest, environment: Environment, workload: AnyWorkload, shared: SharedWork
    ) -> None:
        self.request = request
        self.environment = environment
        self.device = environment.device
        self.facts = build_device_facts(environment)
        self.workload, self.kind = workload, kind_of(workload)
        self.shared = shared
        started = Recording(workload=workload, environment=environment, schedule=request.schedule)
        self.recording = replace(started, label=self.kind.label)
        self.ledger: list[LedgerEntry] = []
        self.warnings: list[CapturedWarning] = []
        self.context = ExitStack()
        self.refusal: Decision | None = None
        self.inputs: AnyInputs
        self.call: Callable[[], tuple[torch.Tensor, ...]]

    def advance(self, index: int) -> Iterator[Progress | Recording]:
        stages = CHECK_STAGES if self.request.depth == "check" else STAGES
        if self.request.measure_unlocks:
            stages = (*stages, "unlocks")
        count = len(self.request.workloads)
        began = time.perf_counter()
        with self.context:
            for position, stage in enumerate(stages):
                if self.refusal is not None and stage not in ("decisions", "unlocks"):
                    continue
                yield Progress(
                    stage=stage,
                    workload_index=index,
                    workload_count=count,
                    done=index * len(stages) + position,
                    total=count * len(stages),
                )
                if not self._run_stage(stage) and (stage in NEEDED_STAGES or self.lost_context()):
                    break
        self._release()
        yield replace(
            self.recording,
            ledger=tuple(self.ledger),
            warnings=tuple(self.warnings),
            gpu_seconds=time.perf_counter() - began,
        )

    def _run_stage(self, stage: Stage) -> bool:
        """Whether the next stage may run."""
        began = time.perf_counter_ns()
        try:
            with capture_warnings() as captured:
                getattr(self, f"_{stage}")()
        except Exception as error:  # noqa: BLE001  the stage boundary: whatever a backend raises becomes a Failure
            self._fail(build_failure(stage, error))
            return False
        finally:
            self.ledger.append(LedgerEntry(stage=stage, wall_ns=time.perf_counter_ns() - began))
            self._keep_warnings(stage, captured)
        return True

    def lost_context(self) -> bool:
        return any(failure.sticky for failure in self.recording.failures)

    def _keep_warnings(self, stage: Stage, captured: list[WarningMessage]) -> None:
        for warning in captured:
            name, text = warning.category.__name__, str(warning.message)
            self.warnings.append(CapturedWarning(stage=stage, category=name, message=text))

    def _fail(self, failure: Failure) -> None:
        self.recording = replace(self.recording, failures=(*self.recording.failures, failure))

    def _inputs(self) -> None:
        check_workload(self.workload)
        check_memory(self.workload, self.environment.free_memory_bytes, self.facts)
        tensors = self.shared.tensors(self.workload, self.device)
        self.inputs = self.kind.build_inputs(self.workload, self.device, tensors)
        self.recording = replace(self.recording, inputs_fingerprint=fingerprint(self.inputs))
        self.backend = find(self.workload.backend, self.kind.backends, field="backend")

    def _first_call(self) -> None:
        """This run's first call, timed to the end of its work. A process that lives on may have made others before."""
        predicted = self.backend.check(self.workload, self.facts)
        self.compiler, self.gauge = CompilerWatch(self.backend.compile_mode), MemoryGauge(self.device)
        self._synchronize()
        with capture_warnings() as captured:
            began = time.perf_counter_ns()
            try:
                refuse_by_rule(self.backend, predicted)
                self.call = self.context.enter_context(build_call(self.backend, self.workload, self.inputs))
                self.call()
                self._synchronize()
            except (RuntimeError, ValueError, NotImplementedError) as error:
                if not is_refusal(error) or is_sticky(error):
                    raise
                self._keep_warnings("first_call", captured)
                self.refusal = read_refusal(predicted, [str(warning.message) for warning in captured], error)
                self._fail(build_refusal(self.refusal))
                return
            first_call_ns = time.perf_counter_ns() - began
        self._keep_warnings("first_call", captured)
        source = None if self.backend.read_source is None else self.backend.read_source()
        self.recording = replace(self.recording, latency=Latency(first_call_ns=first_call_ns), kernel_source=source)
        self.recording = replace(self.recording, compilation=self.compiler.read())

    def _decisions(self) -> None:
        self.context.close()  # a pin around the probes would answer for PyTorch's selector
        tensors = self.shared.tensors(self.workload, self.device)
        decisions = self.shared.decisions(self.workload, lambda: build_decisions(self.workload, tensors, self.facts))
        ran = self.recording.latency.first_call_ns is not None
        decisions = add_first_call(decisions, self.backend, ran=ran, refusal=self.refusal)
        self.recording = replace(self.recording, decisions=decisions)

    def _unlocks(self) -> None:
        free = self.environment.free_memory_bytes
        for measured in measure_unlocks(self.workload, self.recording.decisions, self.facts, free):
            so_far = (*self.recording.unlock_measurements, measured)
            self.recording = replace(self.recording, unlock_measurements=so_far)

    def _warmup(self) -> None:
        for _ in range(timing.WARMUP_CALLS):
            self.call()
        self._synchronize()

    def _timing(self) -> None:
        submission, wall = timing.measure_host_clocks(self.call, self.device)
        latency = replace(self.recording.latency, submission=submission, wall=wall)
        self.recording = replace(self.recording, latency=latency)
        if self.device == "cpu":
            return
        wall_ns = min(wall.samples_ns)
        try:
            device = timing.measure_device(self.call, wall_ns, holds_graph=self.backend.holds_graph)
        except RuntimeError as error:
            if is_sticky(error):
                raise
            hint = "Device time is read from the kernel records of the trace instead."
            self._fail(Failure(stage="timing", kind="unavailable", message=str(error), hint=hint))
            return
        self.recording = replace(self.recording, latency=replace(latency, device=device))

    def _memory(self) -> None:
        holds_graph, paging = self.backend.holds_graph, self.backend.paging_of(self.workload)
        memory = self.gauge.measure(self.workload, self.inputs, self.call, holds_graph=holds_graph, paging=paging)
        self.recording = replace(self.recording, memory=memory, paging=paging)

    def _profile(self) -> None:
        self.recording = replace(self.recording, trace_gz=self._capture_trace())

    def _capture_trace(self) -> bytes:
        from torch import profiler

        activities = [profiler.ProfilerActivity.CPU]
        if self.device == "cuda":
            activities.append(profiler.ProfilerActivity.CUDA)
        schedule = self.request.schedule
        written: list[bytes] = []

        def keep(finished: Any) -> None:
            with tempfile.TemporaryDirectory(prefix="attnscope-") as folder:
                path = Path(folder) / "trace.json"
                finished.export_chrome_trace(str(path))
                written.append(path.read_bytes())

        with profiler.profile(
            activities=activities,
            schedule=profiler.schedule(wait=schedule.wait, warmup=schedule.warmup, active=schedule.active, repeat=1),
            on_trace_ready=keep,
        ) as running:
            for _ in range(schedule.wait + schedule.warmup + schedule.active):
                with profiler.record_function(self.recording.label):
                    self.call()
                # Without it kernels of one step end inside the next, and the first window opens on a busy device.
                self._synchronize()
                running.step()
        if len(written) != 1:
            raise RuntimeError(f"the profiler wrote {len(written)} traces where one was expected")
        return gzip.compress(written[0], compresslevel=TRACE_GZIP_LEVEL, mtime=0)

    def _correctness(self) -> None:
        judged = judge_results(self.recording, self.backend, self.workload, self.inputs, self.call)
        self.recording = replace(judged, compilation=self.compiler.read())

    def _release(self) -> None:
        """Give this workload's memory back before the next one is measured."""
        for name in ("inputs", "call", "context"):
            self.__dict__.pop(name, None)
        if self.recording.failures:
            gc.collect()  # the traceback of an error keeps tensors in a cycle; without one this costs 0.1 s for nothing
        if self.device == "cuda" and not self.lost_context():
            import torch

            torch.cuda.empty_cache()

    def _synchronize(self) -> None:
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()
