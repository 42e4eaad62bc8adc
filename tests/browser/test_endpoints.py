"""The Gradio endpoints over HTTP: the page's report as JSON, its files, and its one-line messages."""

import json
from pathlib import Path

import pytest

from tests.conftest import TRACES

gradio_client = pytest.importorskip("gradio_client", reason="gradio is not installed")


@pytest.fixture(scope="module")
def client(serve_state, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("files")
    return gradio_client.Client(serve_state("recorded"), verbose=False, download_files=str(folder))


def test_profile_returns_the_report_and_its_files(client) -> None:
    report, files = client.predict(backend="naive", seed=7, api_name="/profile")
    assert report["workload"]["seed"] == 7
    assert report["device_items_per_step"] == {"kernels": 5.0, "memcpy": 1.0, "memset": 1.0}
    names = {Path(file["path"] if isinstance(file, dict) else file).name for file in files}
    assert {"trace.json.gz", "report.json", "report.md", "kernels.csv", "replay.py"} <= names


def test_profile_of_a_refusing_backend_is_a_result(client) -> None:
    report, _ = client.predict(backend="sdpa_flash", dtype="float32", api_name="/profile")
    assert report["failures"][0]["kind"] == "refused"
    assert report["kernels"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kv_heads": 3}, "kv_heads=3 does not divide num_heads=16; choose 1, 2, 4, 8 or 16."),
        ({"backend": "sdpa_flesh"}, "did you mean sdpa_flash"),
        ({"batch_size": 0}, "batch_size=0 is out of range"),
    ],
)
@pytest.mark.parametrize("endpoint", ["/profile", "/check"])
def test_bad_value_gets_the_one_line_message(client, endpoint: str, arguments: dict, message: str) -> None:
    with pytest.raises(gradio_client.exceptions.AppError, match=message.split(";")[0]):
        client.predict(**arguments, api_name=endpoint)


def test_check_returns_every_backends_verdict(client) -> None:
    decisions = client.predict(dtype="float32", api_name="/check")["decisions"]
    verdicts = {decision["backend"]: decision["verdict"] for decision in decisions}
    assert verdicts["sdpa_flash"] == "rejected"
    assert verdicts["sdpa_math"] == "accepted"
    assert all(decision["reason"] for decision in decisions)


def test_environment_names_the_machine(client) -> None:
    assert client.predict(api_name="/environment")["device_name"] == "NVIDIA H200"


def test_analyze_reads_a_trace(client) -> None:
    trace = gradio_client.handle_file(TRACES / "math.json.gz")
    report, files, comparison = client.predict(trace, api_name="/analyze")
    assert report["device_items_per_step"]["kernels"] == 20
    read = next(path for path in files if Path(path).name == "report.json")
    assert json.loads(Path(read).read_text()) == report
    assert comparison is None


def test_analyze_compares_two_files(client) -> None:
    after, before = (gradio_client.handle_file(TRACES / f"{name}.json.gz") for name in ("flash", "naive"))
    _, _, comparison = client.predict(file=after, against=before, api_name="/analyze")
    assert (comparison["before_title"], comparison["after_title"]) == ("naive.json.gz", "flash.json.gz")
    assert comparison["total"]["change"] == "faster"
    assert sum(row["difference_ns"] for row in comparison["rows"]) == comparison["total"]["difference_ns"]


def test_analyze_refuses_a_file_of_the_server(client) -> None:
    with pytest.raises(gradio_client.exceptions.AppError):
        client.predict({"path": "/etc/hostname", "meta": {"_type": "gradio.FileData"}}, api_name="/analyze")


def test_analyze_says_what_is_wrong_with_the_file(client, tmp_path: Path) -> None:
    wrong = tmp_path / "holiday.json"
    wrong.write_text('{"beach": true}')
    with pytest.raises(gradio_client.exceptions.AppError, match="Not a profiler trace"):
        client.predict(gradio_client.handle_file(wrong), api_name="/analyze")
