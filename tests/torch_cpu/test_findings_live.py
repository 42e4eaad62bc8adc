"""Rules on traces that this machine's PyTorch writes: each fires on the code that it is about, and only there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from profiling.report import analyze_trace  # noqa: E402

NEG_INF = float("-inf")
# Whatever the machine's load: these rules ask which operators ran, not how long they took.
WATCHED = {"mask_rebuilt", "safe_softmax", "dropout_in_inference", "in_place_training"}


def record(call: Callable[[], object], path: Path, *, grad: bool = False, warm_up: int = 3) -> bytes:
    """The trace of three labelled steps of ``call``, with shapes."""
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    with torch.set_grad_enabled(grad):
        for _ in range(warm_up):
            call()
        plan = schedule(wait=1, warmup=1, active=3)
        with profile(activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True) as profiler:
            for _ in range(5):
                with record_function("attn_fwd"):
                    call()
                profiler.step()
    profiler.export_chrome_trace(str(path))
    return path.read_bytes()


def fired(data: bytes) -> dict[str, str | None]:
    return {v.rule: v.severity for v in analyze_trace(data).report.verdicts if v.status == "fired"}


def tensors(*, grad: bool = False) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 4, 256, 64, generator=generator, requires_grad=grad) for _ in range(3)]


def sdpa(*arguments: Any, **options: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(*arguments, **options)


def math_path(half: bool = False) -> Callable[[], object]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    inputs = [tensor.half() if half else tensor for tensor in tensors()]

    def call() -> object:
        with sdpa_kernel(SDPBackend.MATH):
            return sdpa(*inputs, is_causal=True)

    return call


def own_mask() -> Callable[[], object]:
    query, key, value = tensors()
    return lambda: sdpa(query, key, value, attn_mask=torch.ones(256, 256, dtype=torch.bool).tril())


def composed(*, in_place: bool = False, dropout: bool = False, train: bool = False) -> Callable[[], object]:
    query, key, value = tensors(grad=train)
    hidden = torch.ones(256, 256, dtype=torch.bool).triu(1)

    def call() -> object:
        scores = (query @ key.transpose(-2, -1)) * 0.125
        scores = scores.masked_fill_(hidden, NEG_INF) if in_place else scores.masked_fill(hidden, NEG_INF)
        weights = torch.softmax(scores, -1)
        if dropout:
            weights = torch.nn.functional.dropout(weights, 0.1)
        output = weights @ value
        if train:
            output.sum().backward()
        return output

    return call


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (math_path(), {"mask_rebuilt", "safe_softmax"}),
        (math_path(half=True), {"mask_rebuilt", "safe_softmax"}),
        (own_mask(), {"mask_rebuilt"}),
        (composed(), set()),
        (composed(in_place=True), set()),
        (composed(dropout=True), {"dropout_in_inference"}),
    ],
    ids=["math", "math half", "own mask", "naive", "in place", "dropout"],
)
def test_inference(call: Callable[[], object], expected: set[str], tmp_path: Path) -> None:
    assert fired(record(call, tmp_path / "trace.json")).keys() & WATCHED == expected


def test_in_place_is_told_of_training_and_dropout_is_not(tmp_path: Path) -> None:
    call = composed(in_place=True, dropout=True, train=True)
    assert fired(record(call, tmp_path / "trace.json", grad=True)).keys() & WATCHED == {"in_place_training"}
    # Autograd clones the gradient under masked_fill; that copy is none of the caller's.
    assert "hidden_copy" not in fired((tmp_path / "trace.json").read_bytes())


def test_hidden_copy_follows_the_underscore(tmp_path: Path) -> None:
    verdicts = {
        in_place: next(
            verdict
            for verdict in analyze_trace(
                record(composed(in_place=in_place), tmp_path / f"{in_place}.json")
            ).report.verdicts
            if verdict.rule == "hidden_copy"
        )
        for in_place in (False, True)
    }
    assert "aten::masked_fill" in verdicts[False].explanation
    assert verdicts[True].status == "clear"
    assert "aten::masked_fill" not in verdicts[True].explanation


def test_score_matrix_is_sized_by_recorded_shapes(tmp_path: Path) -> None:
    report = analyze_trace(record(composed(), tmp_path / "trace.json")).report
    verdict = next(verdict for verdict in report.verdicts if verdict.rule == "score_matrix")
    assert verdict.status == "fired"
    assert "(1, 4, 256, 256)" in verdict.explanation
    # 4 × 256 × 256 elements of two bytes at least.
    assert "at least 512\u2009KiB" in verdict.explanation


@pytest.mark.parametrize(
    ("call", "rule", "operator"),
    [
        (lambda x: x.transpose(1, 2).contiguous(), "layout_copies", "aten::contiguous"),
        (lambda x: x.transpose(1, 2).reshape(1, 256, 256), "layout_copies", "aten::reshape"),
        (lambda x: x[:, :1].repeat_interleave(4, 1), "layout_copies", "aten::repeat_interleave"),
        (lambda x: x.half().float(), "cast_copies", "aten::_to_copy"),
    ],
    ids=["contiguous", "reshape", "repeated heads", "cast"],
)
def test_copies_are_told_by_their_cause(call: Any, rule: str, operator: str, tmp_path: Path) -> None:
    [tensor, _, _] = tensors()
    analysis = analyze_trace(record(lambda: call(tensor), tmp_path / "trace.json"))
    verdicts = {verdict.rule: verdict for verdict in analysis.report.verdicts}
    assert verdicts[rule].status == "fired"  # nothing else runs, so the copy takes most of the time
    assert operator in " ".join(evidence.text for evidence in verdicts[rule].evidence)
    others = {"layout_copies", "cast_copies", "realign_copies", "hidden_copy"} - {rule}
    assert {verdicts[other].status for other in others} == {"clear"}


def test_mask_that_sdpa_turns_into_numbers_is_realigned(tmp_path: Path) -> None:
    query, key, value = tensors()
    allowed = torch.ones(256, 256, dtype=torch.bool).tril()
    analysis = analyze_trace(record(lambda: sdpa(query, key, value, attn_mask=allowed), tmp_path / "trace.json"))
    verdict = next(verdict for verdict in analysis.report.verdicts if verdict.rule == "realign_copies")
    assert "inside SDPA before its kernel" in verdict.explanation
    assert "1 copy" in verdict.explanation


def test_compiling_inside_the_window_is_told(tmp_path: Path) -> None:
    [tensor, _, _] = tensors()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.softmax(x * 2, -1), backend="eager")
    analysis = analyze_trace(record(lambda: compiled(tensor), tmp_path / "trace.json", warm_up=1))
    verdict = next(verdict for verdict in analysis.report.verdicts if verdict.rule == "start_up_in_window")
    assert "torch.compile works" not in verdict.explanation
    fresh = iter(range(100))

    def recompile() -> object:
        torch._dynamo.reset()
        return torch.compile(lambda x: torch.softmax(x * next(fresh), -1), backend="eager")(tensor)

    analysis = analyze_trace(record(recompile, tmp_path / "trace.json", warm_up=0))
    verdict = next(verdict for verdict in analysis.report.verdicts if verdict.rule == "start_up_in_window")
    assert "torch.compile works inside the window" in verdict.explanation
