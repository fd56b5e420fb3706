"""Numbers that targets of sparse products and powers speak of, beside the columns of a row."""

from __future__ import annotations

from mansard.bench.rows import OURS, Row
from mansard.bench.sparse.calls import DELTA16, ELL, INT32, ONE_THREAD
from mansard.bench.sparse.entries import is_ours
from mansard.bench.sparse.gains import Found as Case
from mansard.bench.sparse.gains import allowed, by_case, gain, preparing
from mansard.bench.targets import Found, Metric, Others


def _case(row: Row, others: Others) -> Case:
    return by_case(others[row["case"]].values()).get(row["case"], {})


def _wide(found: Case) -> Row | None:
    """The faster of our formats with 32-bit columns."""
    return min((found[name] for name in (INT32, ELL) if name in found), key=lambda each: each["median"], default=None)


def _over_libraries(row: Row, found: Case, what: str = "") -> Found | None:
    """The fastest library's time over a row's."""
    peers = [(other["median"], name) for name, other in found.items() if not is_ours(name)]
    if not peers:
        return None
    median, name = min(peers)
    return Found(median / row["median"], f"{what}{median / row['median']:.2f} x {name}")


def times_library(row: Row, others: Others, of: str) -> Found | None:
    return _over_libraries(row, _case(row, others))


def wide_times_library(row: Row, others: Others, of: str) -> Found | None:
    found = _case(row, others)
    wide = _wide(found)
    return _over_libraries(wide, found, "32-bit columns: ") if wide else None


def wide_percent_limit(row: Row, others: Others, of: str) -> Found | None:
    wide = _wide(_case(row, others))
    return Found(wide["percent_limit"], f"32-bit columns: {wide['percent_limit']:.1f} % of the bound") if wide else None


def short_columns(row: Row, others: Others, of: str) -> Found | None:
    """Time with 32-bit columns over that with 16-bit ones."""
    found = _case(row, others)
    wide = _wide(found)
    if not wide or DELTA16 not in found:
        return None
    times = wide["median"] / found[DELTA16]["median"]
    return Found(times, f"16-bit columns: {times:.2f} x those of 32 bits")


def one_thread_times(row: Row, others: Others, of: str) -> Found | None:
    """A library's time over ours on one thread."""
    found = _case(row, others)
    if ONE_THREAD not in found or of not in found:
        return None
    times = found[of]["median"] / found[ONE_THREAD]["median"]
    return Found(times, f"one thread: {times:.2f} x {of}")


def times_own_products(row: Row, others: Others, of: str) -> Found | None:
    times = gain(_case(row, others), OURS)
    return Found(times, f"{times:.2f} x our own products") if times is not None else None


def share_of_equation(row: Row, others: Others, of: str) -> Found | None:
    """Our gain over what equation 4.8 allows from products in and out of the cache."""
    found = _case(row, others)
    times, most = gain(found), allowed(found)
    if times is None or most is None:
        return None
    return Found(100 * times / most, f"{times:.2f} x our own products, {times / most:.0%} of what equation 4.8 allows")


def preparing_in_products(row: Row, others: Others, of: str) -> Found | None:
    took = preparing(_case(row, others))
    return Found(took[1], f"prepared in {took[0]:.1f} s, {took[1]:.0f} products") if took else None


METRICS: dict[str, Metric] = {
    "times_library": times_library,
    "wide_times_library": wide_times_library,
    "wide_percent_limit": wide_percent_limit,
    "short_columns": short_columns,
    "one_thread_times": one_thread_times,
    "times_own_products": times_own_products,
    "share_of_equation_4_8": share_of_equation,
    "preparing_in_products": preparing_in_products,
}
