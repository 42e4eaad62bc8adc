"""Numbers as words: units, rounding at their borders, None, and what may never be said."""

import inspect
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling import format as formatting
from profiling.format import (
    NOT_RECORDED,
    format_bytes,
    format_comparison,
    format_count,
    format_duration,
    format_error,
    format_quantity,
    format_rate,
    format_ratio,
    format_share,
    format_spread,
)

THIN = "\u2009"
UNIT_NS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
UNIT_BYTES = {unit: 1024**power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}


def spaced(text: str) -> str:
    return text.replace(" ", THIN)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"),
        (57, "57 ns"),
        (57.26, "57.3 ns"),
        (0.25, "0.250 ns"),
        (999, "999 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (1_000, "1.00 µs"),
        (57_500, "57.5 µs"),
        (999_499, "999 µs"),
        (999_600, "1.00 ms"),
        (7_239_000, "7.24 ms"),
        (999_600_000, "1.00 s"),
        (12_345_000_000_000, "12345 s"),
        (-57_500, "−57.5 µs"),
        (float("nan"), "NaN s"),
        (float("-inf"), "−∞ s"),
    ],
)
def test_duration(ns: float, text: str) -> None:
    assert format_duration(ns) == spaced(text)


@given(st.integers(min_value=1, max_value=10**13))
def test_duration_reads_back_within_half_of_the_last_figure(ns: int) -> None:
    number, unit = format_duration(ns).split(THIN)
    assert abs(float(number) * UNIT_NS[unit] - ns) <= 0.005 * ns
    assert float(number) < 1000 or unit == "s"
    assert float(number) >= 1


@given(st.integers(min_value=1, max_value=10**15))
def test_a_longer_duration_never_reads_as_shorter(ns: int) -> None:
    def read(text: str) -> float:
        number, unit = text.split(THIN)
        return float(number) * UNIT_NS[unit]

    assert read(format_duration(ns)) <= read(format_duration(ns + 1)) * (1 + 1e-12)


@given(st.integers(min_value=1, max_value=10**13))
def test_a_negative_duration_is_the_positive_one_with_a_minus(ns: int) -> None:
    assert format_duration(-ns) == f"−{format_duration(ns)}"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.50 KiB"),
        (1024 * 1023, "1023 KiB"),
        (1024 * 1023.6, "1.00 MiB"),
        (134_144, "131 KiB"),
        (2**28, "256 MiB"),
        (2**26, "64 MiB"),
        (150_000_000_000, "140 GiB"),
        (2**80, "1048576 EiB"),
        (-2048, "−2 KiB"),
    ],
)
def test_bytes(size: float, text: str) -> None:
    assert format_bytes(size) == spaced(text)


@given(st.integers(min_value=1, max_value=2**63))
def test_bytes_read_back_within_half_of_the_last_figure(size: int) -> None:
    number, unit = format_bytes(size).split(THIN)
    assert abs(float(number) * UNIT_BYTES[unit] - size) <= 0.005 * size
    assert float(number) < 1024


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (5, "5"),
        (5.0, "5"),
        (5.3333, "5.33"),
        (68_692, "68,692"),
        (999_999, "999,999"),
        (1_000_000, "1.00 M"),
        (999_600_000.0, "1.00 G"),
        (17_179_869_184, "17.2 G"),
        (-1500, "−1,500"),
    ],
)
def test_count(count: float, text: str) -> None:
    assert format_count(count) == spaced(text)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0, "0 %"),
        (1e-9, "< 0.1 %"),
        (0.0004999, "< 0.1 %"),
        (0.0005, "0.1 %"),
        (0.123, "12.3 %"),
        (0.9994, "99.9 %"),
        (0.99999, "> 99.9 %"),
        (1, "100 %"),
        (1.037, "103.7 %"),
        (-0.5, "−50.0 %"),
    ],
)
def test_share(share: float, text: str) -> None:
    assert format_share(share) == spaced(text)


@given(st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True))
def test_a_part_never_reads_as_nothing_or_as_all(share: float) -> None:
    assert format_share(share) not in (format_share(0), format_share(1))


def test_ratio_rate_and_quantity() -> None:
    assert format_ratio(2.8) == "2.80×"
    assert format_ratio(0.71) == "0.710×"
    assert format_rate(292.3e12, "FLOP") == spaced("292 TFLOP/s")
    assert format_rate(4.37e12, "B") == spaced("4.37 TB/s")
    assert format_rate(999.7e9, "FLOP") == spaced("1.00 TFLOP/s")
    assert format_quantity(1980, "MHz") == spaced("1980 MHz")
    assert format_quantity(128.04, "FLOP/byte") == spaced("128 FLOP/byte")


def test_comparison() -> None:
    assert format_comparison(2626, 939) == "2.80× slower than"
    assert format_comparison(939, 2626) == "2.80× faster than"
    assert format_comparison(1000, 1001) == "as fast as"
    assert format_comparison(0, 5) == "not comparable with"
    assert format_comparison(5, float("nan")) == "not comparable with"


@given(st.floats(min_value=1, max_value=1e12), st.floats(min_value=1, max_value=1e12))
def test_a_comparison_never_shows_a_ratio_below_one_and_turns_with_its_sides(a: float, b: float) -> None:
    text, other = format_comparison(a, b), format_comparison(b, a)
    if text == "as fast as":
        assert other == text
        assert max(a, b) / min(a, b) < 1.01
        return
    number = re.match(r"[\d.]+", text)
    assert number is not None
    assert float(number[0]) > 1
    assert ("slower" in text) == (a > b)
    assert other == (text.replace("slower", "faster") if "slower" in text else text.replace("faster", "slower"))


@pytest.mark.parametrize(
    ("iqr_ns", "text"),
    [
        (0, "± 0 µs"),
        (800, "± 0.4 µs"),
        (60, "± 0.03 µs"),
        (24_600, "± 12 µs"),
        (2_460_000, "± 1.2 ms"),
        (1_999_000, "± 1 ms"),
    ],
)
def test_spread(iqr_ns: float, text: str) -> None:
    assert format_spread(iqr_ns) == spaced(text)


def test_a_spread_takes_the_unit_of_the_median_beside_it() -> None:
    assert format_spread(240_000, beside_ns=5_000_000) == spaced("± 0.12 ms")
    assert format_spread(240_000, beside_ns=500_000) == spaced("± 120 µs")
    assert format_spread(80, beside_ns=420) == spaced("± 40 ns")
    assert format_spread(800, beside_ns=57_500) == spaced("± 0.4 µs")


def test_a_spread_finer_than_the_median_shows_its_first_figure_and_never_zero() -> None:
    assert format_spread(8_000, beside_ns=8_000_000) == spaced("± 0.004 ms")
    assert format_spread(1_040, beside_ns=104_000) == spaced("± 1 µs")
    assert format_spread(840, beside_ns=104_000) == spaced("± 0.4 µs")
    assert format_spread(0, beside_ns=104_000) == spaced("± 0 µs")


@pytest.mark.parametrize(
    ("error", "text"),
    [(9.9e-3, "9.90e-3"), (0, "0"), (1.5, "1.50e0"), (9.999e-4, "1.00e-3"), (float("inf"), "∞"), (-2e-8, "−2.00e-8")],
)
def test_error(error: float, text: str) -> None:
    assert format_error(error) == text


def formatters() -> list[str]:
    return [name for name, _ in inspect.getmembers(formatting, inspect.isfunction) if name.startswith("format_")]


@pytest.mark.parametrize("name", formatters())
def test_every_formatter_says_not_recorded_for_none(name: str) -> None:
    function = getattr(formatting, name)
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    arguments = ["unit" if parameter.name == "unit" else None for parameter in required]
    assert function(*arguments) == NOT_RECORDED


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_no_number_makes_a_formatter_fail_or_answer_nothing(value: float) -> None:
    for text in (
        format_duration(value),
        format_spread(value),
        format_bytes(value),
        format_count(value),
        format_share(value),
        format_ratio(value),
        format_error(value),
        format_rate(value, "B"),
        format_quantity(value, "MHz"),
        format_comparison(value, 1.0),
    ):
        assert text
        assert NOT_RECORDED not in text
