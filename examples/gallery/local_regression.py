"""A thousand small regressions: a curve from noise, with its slope

Around every place a parabola is fitted by weighted least squares (LOESS). The normal matrices are one batched product,
3 x 3 each, with a little ridge; one batched Cholesky solve gives value and slope everywhere.
"""

import numpy as np

import mansard as ms


def run(samples=600, places=1000, width=0.25):
    rng = np.random.default_rng(8)
    x = np.sort(rng.random(samples)) * 6
    y = np.sin(x) + 0.3 * np.sin(4 * x) + 0.2 * rng.standard_normal(samples)
    at = np.linspace(0.2, 5.8, places)
    window = 48  # the nearest samples
    first = np.clip(np.searchsorted(x, at) - window // 2, 0, samples - window)
    near = first[:, None] + np.arange(window)
    t = (x[near] - at[:, None]) / width
    weight = np.exp(-0.5 * t * t)
    X = np.stack([np.ones_like(t), t, t * t], -1)  # (places, window, 3)
    XtW = (X * weight[..., None]).swapaxes(-1, -2)
    normal = ms.matmul(XtW, X) + 1e-6 * np.eye(3)
    beta = ms.linalg.solve(normal, ms.matmul(XtW, y[near][..., None]), assume_a="pos")[..., 0]
    value, slope = beta[:, 0], beta[:, 1] / width
    truth = np.sin(at) + 0.3 * np.sin(4 * at)
    assert np.sqrt(((value - truth) ** 2).mean()) < 0.1
    return x, y, at, value, slope, truth


def draw(found):
    from _picture import axes

    x, y, at, value, slope, truth = found
    figure, (left, right) = axes(2)
    left.plot(x, y, ".", ms=2, color="0.6")
    left.plot(at, truth, "k--", lw=1, label="true")
    left.plot(at, value, label="fitted")
    left.set(title="value")
    left.legend()
    right.plot(at, np.cos(at) + 1.2 * np.cos(4 * at), "k--", lw=1)
    right.plot(at, slope)
    right.set(title="slope")
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
