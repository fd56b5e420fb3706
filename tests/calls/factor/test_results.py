"""Named results: the tuples of the array API standard, with NumPy's field names, for every form of batch."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mansard as ms

PAIR = np.array([[4.0, 2.0], [2.0, 5.0]])
RESULTS: dict[str, tuple[Callable[..., Any], type]] = {
    "eigh": (ms.linalg.eigh, ms.linalg.EighResult),
    "svd": (ms.linalg.svd, ms.linalg.SVDResult),
    "qr": (ms.linalg.qr, ms.linalg.QRResult),
    "slogdet": (ms.linalg.slogdet, ms.linalg.SlogdetResult),
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "matrix": lambda a: a,
    "stack": lambda a: np.stack([a, 2 * a]),
    "list": lambda a: [a, 2 * a],
    "list of two sizes": lambda a: [a, a[:1, :1]],
    "nested list": lambda a: a.tolist(),
    "np.matrix": np.asmatrix,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RESULTS)
def test_fields_are_those_of_the_array_api(name: str, form: str) -> None:
    call, kind = RESULTS[name]
    found = call(FORMS[form](PAIR), backend="reference")
    of_numpy = getattr(np.linalg, name)(PAIR)
    assert type(found) is kind and found._fields == type(of_numpy)._fields
    assert kind.__name__ == type(of_numpy).__name__
    if form in ("matrix", "nested list"):
        assert [np.shape(one) for one in found] == [np.shape(one) for one in of_numpy]


def test_other_results_are_named_too() -> None:
    assert ms.linalg.lstsq(PAIR, PAIR[0], backend="reference")._fields == ("x", "residuals", "rank", "s")
    assert ms.linalg.polar(PAIR)._fields and ms.linalg.procrustes(PAIR, PAIR)._fields
    for name in ms.linalg.__all__:
        if name.endswith("Result"):
            assert issubclass(getattr(ms.linalg, name), tuple) and getattr(ms.linalg, name).__doc__


def test_results_pickle() -> None:
    found = ms.linalg.eigh(PAIR, backend="reference")
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is ms.linalg.EighResult and np.array_equal(again.eigenvectors, found.eigenvectors)
