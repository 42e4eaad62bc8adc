"""Hub kernels on a CPU: the real ``kernels`` library loads a small local repository, and a whole run goes through it.

The repository holds flash-attn's signature in plain torch operators, behind an operator of its own namespace, as the
builds on the Hub have one. No network is used: a socket that tries is an error.
"""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from attention.backends import DeviceFacts
from attention.backends.flash_attn4 import FLASH_ATTN4, VERSION
from attention.backends.hub import FLASH_ATTN2, FLASH_ATTN3, HUB_FLASH_ATTN2, HUB_FLASH_ATTN3, load_hub_kernel
from attention.call import build_call
from attention.inputs import build_inputs
from attention.kernel_source import KernelRefusal
from attention.validation import default_fields, parse_workload
from profiling import recorder
from profiling.correctness import check_results
from profiling.recording import Recording, RunRequest
from profiling.report import analyze_recording

kernels = pytest.importorskip("kernels", reason="the kernels library is not installed")

SMALL = {"num_heads": 4, "kv_heads": 2, "seq_len_q": 24, "seq_len_kv": 24, "head_dim": 16, "dtype": "bfloat16"}
HOPPER = DeviceFacts(kind="cuda", name="facts of a test", compute_capability=(9, 0), torch_version=(2, 11))

# Scores and softmax are written without the operators by which a naive formula is known.
KERNEL = '''
import torch

library = torch.library.Library("{namespace}", "FRAGMENT")
library.define("fwd(Tensor q, Tensor k, Tensor v, float scale, bool causal, int left, int right) -> Tensor")


def attend(q, k, v, scale, causal, left, right):
    """The words of flash_attn_func's docstring, [batch, seq_len, heads, dim]: lower right, inclusive, else zero."""
    groups = q.shape[2] // k.shape[2]
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.unsqueeze(2).expand(-1, -1, groups, -1, -1).flatten(1, 2) for x in (k, v))
    scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) * scale
    rows, keys = scores.shape[-2:]
    distance = torch.arange(keys) - torch.arange(rows)[:, None] - (keys - rows)
    allowed = torch.ones(rows, keys, dtype=torch.bool)
    right = 0 if causal else right
    if right >= 0:
        allowed &= distance <= right
    if left >= 0:
        allowed &= distance >= -left
    weights = torch.where(allowed, (scores - scores.amax(-1, keepdim=True)).exp(), 0.0)
    weights = weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)
    return (weights.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2).transpose(1, 2)


library.impl("fwd", attend, "CompositeImplicitAutograd")


def flash_attn_func(q, k, v, {dropout}softmax_scale=None, causal=False, window_size=(-1, -1)):
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    out = torch.ops.{namespace}.fwd(q, k, v, scale, causal, *window_size)
    return {result}
'''
# Version 3 has no dropout, and some of its releases give back the row statistics too.
RESULTS = {"flash-attn2": ("dropout_p=0.0, ", "out.to(q.dtype)"), "flash-attn3": ("", "out.to(q.dtype), None")}


def write_repository(folder: Path, name: str, number: int, *, metadata: bool = True) -> Path:
    """A kernel repository in the library's own layout, with the one build that any CPU or GPU torch of it takes."""
    import torch

    kind = "cuda" if torch.version.cuda else "cpu"
    identity = f"_{name.replace('-', '')}_{kind}_test{number}".replace("flashattn", "flash_attn")
    dropout, result = RESULTS[name]
    variant = folder / "build" / f"torch-{kind}"
    variant.mkdir(parents=True)
    source = KERNEL.format(namespace=identity, dropout=dropout, result=result)
    (variant / "__init__.py").write_text(source, encoding="utf-8")
    facts = {"id": identity, "name": name, "version": 1, "license": "Apache-2.0"}
    facts |= {"python-depends": [], "backend": {"type": kind}}
    if metadata:
        (variant / "metadata.json").write_text(json.dumps(facts), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise OSError("a test tried to reach the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    # The library reads these where it uses them.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("kernels.resolver.CACHE_DIR", str(tmp_path / "hub"))
    monkeypatch.delenv("LOCAL_KERNELS", raising=False)
    load_hub_kernel.cache_clear()
    yield
    load_hub_kernel.cache_clear()


numbers = iter(range(10_000))


@pytest.fixture
def repositories(tmp_path, monkeypatch):
    """Both repositories in folders that the library's LOCAL_KERNELS names."""
    named = []
    for kernel, name in ((FLASH_ATTN2, "flash-attn2"), (FLASH_ATTN3, "flash-attn3")):
        folder = write_repository(tmp_path / name, name, next(numbers))
        named.append(f"{kernel.repository}={folder}")
    monkeypatch.setenv("LOCAL_KERNELS", ":".join(named))


def build(backend, **fields):
    return parse_workload(default_fields("cpu") | SMALL | fields | {"backend": backend.slug})


def judge(backend, workload):
    inputs = build_inputs(workload, "cpu")
    with build_call(backend, workload, inputs) as call:
        call()
        results = call()
    return check_results(workload, inputs, results)


@pytest.mark.parametrize("backend", [HUB_FLASH_ATTN2, HUB_FLASH_ATTN3], ids=lambda backend: backend.slug)
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
@pytest.mark.parametrize(
    "fields",
    [
        {"mask": "none"},
        {"mask": "causal"},
        {"mask": "causal", "mask_alignment": "lower_right", "seq_len_q": 5},
        {"mask": "causal", "mask_alignment": "lower_right", "seq_len_q": 40},  # 16 rows may attend to nothing
        {"mask": "sliding_window", "mask_window": 1},
        {"mask": "sliding_window", "mask_window": 6, "mask_alignment": "lower_right", "seq_len_kv": 33},
        {"mask": "causal", "layout": "transposed", "kv_heads": 1},
        {"mask": "causal", "layout": "expanded_kv", "kv_heads": 1},
        {"mask": "causal", "scale": 0.5, "dtype": "float16"},
    ],
    ids=str,
)
def test_every_mask_reaches_the_kernel_as_what_it_is(repositories, backend, direction, fields):
    workload = build(backend, direction=direction, **fields)
    assert backend.check(workload, HOPPER).verdict == "accepted"
    deltas = judge(backend, workload)
    assert len(deltas) == (4 if direction == "forward_backward" else 1)
    assert all(delta.within_budget for delta in deltas), deltas


def test_a_wrong_corner_would_be_seen(repositories):
    # What the rule refuses: flash-attn's causal flag for a diagonal from the upper left.
    workload = build(HUB_FLASH_ATTN2, mask="causal", mask_alignment="upper_left", seq_len_q=5)
    assert HUB_FLASH_ATTN2.check(workload, HOPPER).verdict == "rejected"
    assert not judge(HUB_FLASH_ATTN2, workload)[0].within_budget


@pytest.fixture
def on_hopper_by_facts(monkeypatch):
    """The rules' facts are a GPU's, the tensors a CPU's; trials of the other backends are left to the rules."""
    monkeypatch.setattr(recorder, "build_device_facts", lambda environment: HOPPER)
    monkeypatch.setattr(
        recorder,
        "build_decisions",
        lambda workload, tensors, facts: tuple(
            backend.check(replace(workload, backend=backend.slug), facts)
            for backend in (HUB_FLASH_ATTN2, HUB_FLASH_ATTN3, FLASH_ATTN4)
        ),
    )


def run(workload):
    items = recorder.record(RunRequest(workloads=(workload,), device="cpu"))
    (recording,) = (item for item in items if isinstance(item, Recording))
    return recording


@pytest.mark.parametrize("backend", [HUB_FLASH_ATTN2, HUB_FLASH_ATTN3], ids=lambda backend: backend.slug)
def test_a_whole_run(repositories, on_hopper_by_facts, backend):
    recording = run(build(backend, mask="causal"))
    assert recording.failures == ()
    assert recording.correctness[0].within_budget
    source = recording.kernel_source
    assert (source.package, source.package_version) == ("kernels", kernels.__version__)
    assert (source.origin, source.revision) == ("folder", None)
    assert source.variant.startswith("torch-")
    report = analyze_recording(recording).report
    assert report.kernel_source == source
    (family,) = backend.families
    assert (report.observed_backend.family, report.observed_backend.confidence) == (family, "proven")
    assert any(f"operator {source.kernel_id}::fwd" in line for line in report.observed_backend.evidence)
    decision = next(decision for decision in report.decisions if decision.backend == backend.slug)
    assert (decision.verdict, decision.basis) == ("accepted", "probe")
    assert report.predicted_backend == backend.slug


def write_cache(folder, kernel, name, **options):
    """What a finished download leaves: the commit's files under its own name."""
    parts = kernel.repository.replace("/", "--")
    snapshot = folder / "hub" / f"kernels--{parts}" / "snapshots" / kernel.revision
    return write_repository(snapshot, name, next(numbers), **options)


def test_a_cached_commit_needs_no_network(tmp_path):
    write_cache(tmp_path, FLASH_ATTN2, "flash-attn2")
    source = load_hub_kernel(FLASH_ATTN2).source
    assert (source.origin, source.repository, source.revision) == (
        "cache",
        FLASH_ATTN2.repository,
        FLASH_ATTN2.revision,
    )
    assert all(delta.within_budget for delta in judge(HUB_FLASH_ATTN2, build(HUB_FLASH_ATTN2, mask="causal")))


def test_another_commit_in_the_cache_is_not_taken(tmp_path):
    write_cache(tmp_path, replace(FLASH_ATTN2, revision="0" * 40), "flash-attn2")
    with pytest.raises(KernelRefusal, match="did not answer"):
        load_hub_kernel(FLASH_ATTN2)


def test_a_download_that_was_cut_off_is_asked_for_again(tmp_path):
    write_cache(tmp_path, FLASH_ATTN2, "flash-attn2", metadata=False)
    with pytest.raises(KernelRefusal, match="did not answer"):
        load_hub_kernel(FLASH_ATTN2)


def test_an_unreachable_hub_is_a_result(on_hopper_by_facts):
    recording = run(build(HUB_FLASH_ATTN2, mask="causal"))
    (failure,) = recording.failures
    assert (failure.stage, failure.kind) == ("first_call", "unavailable")
    assert "did not answer" in failure.message
    assert "connection" in failure.hint
    assert recording.kernel_source is None
    decision = next(decision for decision in recording.decisions if decision.backend == "hub_flash_attn2")
    assert (decision.verdict, decision.basis, decision.remedy) == ("rejected", "probe", failure.hint)
    assert decision.raw_message  # the library's own words


def test_offline_on_purpose_is_told_apart(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(KernelRefusal) as raised:
        load_hub_kernel(FLASH_ATTN2)
    assert "HF_HUB_OFFLINE" in raised.value.remedy


def test_no_build_for_this_machine(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    variant = folder / "build" / "torch21-cxx11-cu118-x86_64-linux"
    variant.mkdir(parents=True)
    (variant / "__init__.py").write_text("raise AssertionError('must not be imported')\n", encoding="utf-8")
    monkeypatch.setenv("LOCAL_KERNELS", f"{FLASH_ATTN2.repository}={folder}")
    with pytest.raises(KernelRefusal, match="there is no build of") as raised:
        load_hub_kernel(FLASH_ATTN2)
    assert "torch21" in raised.value.said.replace(".", "") or "2.1" in raised.value.said
    assert raised.value.remedy


def test_a_build_that_does_not_import_is_a_result(tmp_path, monkeypatch):
    folder = write_repository(tmp_path / "broken", "flash-attn2", next(numbers))
    (module,) = folder.rglob("__init__.py")
    module.write_text("raise ImportError('undefined symbol: _ZN3c10')\n", encoding="utf-8")
    monkeypatch.setenv("LOCAL_KERNELS", f"{FLASH_ATTN2.repository}={folder}")
    with pytest.raises(KernelRefusal, match="did not load here") as raised:
        load_hub_kernel(FLASH_ATTN2)
    assert "undefined symbol" in raised.value.said


def test_a_machine_without_the_library_is_told_before_the_call(on_hopper_by_facts, monkeypatch):
    facts = replace(HOPPER, packages=(("flash-attn-4", VERSION),))
    monkeypatch.setattr(recorder, "build_device_facts", lambda environment: facts)
    recording = run(build(HUB_FLASH_ATTN3, mask="causal"))
    (failure,) = recording.failures
    assert failure.kind == "unavailable"
    assert "pip install --upgrade kernels" in failure.hint


def test_flash_attn4_where_it_is_not_installed(on_hopper_by_facts):
    from attention.kernel_source import FLASH_ATTN_4, read_packages

    if read_packages()[FLASH_ATTN_4] == VERSION:
        pytest.skip("flash-attn-4 is installed here")
    recording = run(build(FLASH_ATTN4, mask="causal"))
    (failure,) = recording.failures
    assert (failure.stage, failure.kind) == ("first_call", "unavailable")
    assert f"flash-attn-4=={VERSION}" in failure.hint


def test_on_a_cpu_all_three_are_refused_by_rule_and_nothing_is_loaded():
    for backend in (HUB_FLASH_ATTN2, HUB_FLASH_ATTN3, FLASH_ATTN4):
        recording = run(build(backend, mask="causal"))
        (failure,) = recording.failures
        assert failure.kind == "refused"
        assert "needs a CUDA device, this is cpu" in failure.message.replace("Needs", "needs")
