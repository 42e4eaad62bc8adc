"""Numbers as words, and the only place where that happens: unit always, three significant figures.

Every formatter takes None and answers ``NOT_RECORDED``, so that an absent number never reads as zero.
Nanoseconds become ns, µs, ms or s; bytes binary units; counts and rates decimal prefixes.
"""

import math

NOT_RECORDED = "not recorded"
THIN_SPACE = "\u2009"
MINUS = "\u2212"

_DURATION_UNITS = (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_EXACT_COUNT_LIMIT = 1_000_000  # a whole count below this is short enough to be read in full
_SMALLEST_PLAIN = 1e-3  # below it, zeros after the point are harder to read than an exponent


def format_duration(ns: float | None) -> str:
    """``57.5 µs``: ns under 1 µs, µs under 1 ms, ms under 1 s, s above. A whole number of ns is shown as it is."""
    if ns is None:
        return NOT_RECORDED
    if not math.isfinite(ns):
        return _quantity(_non_finite(ns), "s")
    name, size = _duration_unit(ns)
    return _quantity(_exact_or_significant(ns) if size == 1.0 else _significant(ns / size), name)


def format_spread(iqr_ns: float | None, *, beside_ns: float | None = None) -> str:
    """``± 0.4 µs``: half the interquartile range, two significant figures, in µs or above.

    ``beside_ns`` is the median that the spread stands beside; given, the spread takes that number's unit and
    decimals, or as many as its own first figure needs.
    """
    if iqr_ns is None:
        return NOT_RECORDED
    half = abs(iqr_ns) / 2
    if not math.isfinite(half):
        return f"±{THIN_SPACE}{_quantity(_non_finite(half), 's')}"
    if beside_ns is None or not math.isfinite(beside_ns):
        name, size = _duration_unit(max(half, 1e3))
        text = _significant(half / size, figures=2)
        if "." in text and "e" not in text:
            text = text.rstrip("0").rstrip(".")
        return f"±{THIN_SPACE}{_quantity(text, name)}"
    name, size = _duration_unit(beside_ns)
    decimals = len(format_duration(beside_ns).partition(THIN_SPACE)[0].partition(".")[2])
    text = f"{half / size:.{decimals}f}"
    if float(text) == 0 and half:
        text = _significant(half / size, figures=1)
    return f"±{THIN_SPACE}{_quantity(text, name)}"


def format_bytes(n: float | None) -> str:
    """``256 MiB``: binary units; an exact multiple of its unit has no decimals."""
    if n is None:
        return NOT_RECORDED
    if not math.isfinite(n):
        return _quantity(_non_finite(n), "B")
    value = float(n)
    for unit in _BYTE_UNITS:
        text = _exact_or_significant(value)
        if abs(_number(text)) < 1024 or unit == _BYTE_UNITS[-1]:
            break
        value /= 1024
    return _quantity(text, unit)


def format_count(n: float | None) -> str:
    """``20``, ``5.33``, ``68,692`` or ``134 M``: whole counts in full below a million, then decimal prefixes."""
    if n is None:
        return NOT_RECORDED
    if not math.isfinite(n):
        return _non_finite(n)
    if float(n).is_integer() and abs(n) < _EXACT_COUNT_LIMIT:
        return _signed(f"{abs(n):,.0f}", n)
    text, prefix = _prefixed(n)
    return _quantity(text, prefix) if prefix else text


def format_items(count: float | None, one: str, many: str = "") -> str:
    """``no copies``, ``1 copy``, ``3 copies``; ``many`` where an s does not make the plural."""
    if count is None:
        return NOT_RECORDED
    several = many or f"{one}s"
    return f"{format_count(count) if count else 'no'} {one if count == 1 else several}"


def format_rate(per_second: float | None, unit: str) -> str:
    """``292 TFLOP/s``: decimal prefixes, also for bytes (``4.37 TB/s``), as vendors state peaks."""
    if per_second is None:
        return NOT_RECORDED
    if not math.isfinite(per_second):
        return _quantity(_non_finite(per_second), f"{unit}/s")
    text, prefix = _prefixed(per_second)
    return _quantity(text, f"{prefix}{unit}/s")


def format_quantity(value: float | None, unit: str) -> str:
    """``1980 MHz`` or ``128 FLOP/byte``: a number in its own unit, without a prefix."""
    if value is None:
        return NOT_RECORDED
    if not math.isfinite(value):
        return _quantity(_non_finite(value), unit)
    return _quantity(_exact_or_significant(value), unit)


def format_share(share: float | None) -> str:
    """``12.3 %`` of a 0-1 share, one decimal; a part of a whole never rounds to nothing or to all of it."""
    if share is None:
        return NOT_RECORDED
    if not math.isfinite(share):
        return _quantity(_non_finite(share), "%")
    percent = share * 100
    if 0 < percent < 0.05:
        return f"<{THIN_SPACE}{_quantity('0.1', '%')}"
    if 99.95 <= percent < 100:
        return f">{THIN_SPACE}{_quantity('99.9', '%')}"
    whole = float(percent) in (0.0, 100.0)
    return _quantity(_signed(f"{abs(percent):.0f}" if whole else f"{abs(percent):.1f}", percent), "%")


def format_ratio(ratio: float | None) -> str:
    """``2.80×``."""
    if ratio is None:
        return NOT_RECORDED
    return f"{_significant(ratio) if math.isfinite(ratio) else _non_finite(ratio)}×"


def format_comparison(a: float | None, b: float | None) -> str:
    """How the duration ``a`` stands to the duration ``b``, to be read as "a is … b".

    ``2.80× slower than`` or ``2.80× faster than``, the ratio never below 1; ``as fast as`` when it rounds to 1.00.
    """
    if a is None or b is None:
        return NOT_RECORDED
    if not (0 < a < math.inf and 0 < b < math.inf):
        return "not comparable with"
    ratio = format_ratio(max(a, b) / min(a, b))
    if ratio == format_ratio(1.0):
        return "as fast as"
    return f"{ratio} {'slower' if a > b else 'faster'} than"


def format_error(error: float | None) -> str:
    """``9.90e-3``: a numerical error, always with its exponent so that a column compares at a glance."""
    if error is None:
        return NOT_RECORDED
    if not math.isfinite(error):
        return _non_finite(error)
    if error == 0:
        return "0"
    return _signed(_scientific(abs(error), figures=3), error)


def _quantity(text: str, unit: str) -> str:
    return f"{text}{THIN_SPACE}{unit}"


def _duration_unit(ns: float) -> tuple[str, float]:
    """The unit in which ``ns`` reads below 1000 once rounded: 999.6 µs is 1.00 ms."""
    for name, size in _DURATION_UNITS:
        if abs(_number(_significant(ns / size))) < 1000:
            return name, size
    return _DURATION_UNITS[-1]


def _prefixed(value: float) -> tuple[str, str]:
    for prefix in _PREFIXES:
        text = _significant(value)
        if abs(_number(text)) < 1000 or prefix == _PREFIXES[-1]:
            break
        value /= 1000
    return text, prefix


def _exact_or_significant(value: float) -> str:
    return _signed(f"{abs(value):.0f}", value) if float(value).is_integer() else _significant(value)


def _significant(value: float, *, figures: int = 3) -> str:
    """``value`` rounded to ``figures``; whole digits are never replaced by zeros."""
    magnitude = abs(value)
    if magnitude == 0:
        return "0"
    if magnitude < _SMALLEST_PLAIN:
        return _signed(_scientific(magnitude, figures=figures), value)
    exponent = int(f"{magnitude:.{figures - 1}e}".partition("e")[2])  # after rounding, so 9.996 counts as 10.0
    return _signed(f"{magnitude:.{max(0, figures - 1 - exponent)}f}", value)


def _scientific(magnitude: float, *, figures: int) -> str:
    mantissa, _, exponent = f"{magnitude:.{figures - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _signed(magnitude: str, value: float) -> str:
    return f"{MINUS if value < 0 else ''}{magnitude}"


def _number(text: str) -> float:
    return float(text.replace(MINUS, "-"))


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else _signed("∞", value)
