"""Noise taken from an image: singular values of all its patches

Every 8 x 8 patch is a small matrix. `ms.linalg.svd` factors all of them in one call, small singular values are set to
zero, and a batched product puts the patches together again.
"""

import numpy as np

import mansard as ms

PATCH = 8


def image(side):
    """Discs, stripes and a slope."""
    y, x = np.mgrid[:side, :side] / side
    found = 0.3 * x + 0.2 * np.sin(40 * x) * (y > 0.6)
    for cx, cy, r in ((0.3, 0.3, 0.2), (0.7, 0.35, 0.15), (0.55, 0.75, 0.18)):
        found += 0.5 * ((x - cx) ** 2 + (y - cy) ** 2 < r * r)
    return found


def run(side=96, noise=0.15, stride=2):
    clean = image(side)
    noisy = clean + noise * np.random.default_rng(4).standard_normal(clean.shape)
    patches = np.lib.stride_tricks.sliding_window_view(noisy, (PATCH, PATCH))[::stride, ::stride]
    U, s, Vh = ms.linalg.svd(np.ascontiguousarray(patches), full_matrices=False)
    s = np.where(s > 2.4 * noise * np.sqrt(PATCH), s, 0)  # 2 sqrt(n) noise is the largest of pure noise
    kept = ms.matmul(U * s[..., None, :], Vh)
    total, count = np.zeros_like(noisy), np.zeros_like(noisy)
    for i, j in np.ndindex(kept.shape[:2]):
        place = np.s_[stride * i : stride * i + PATCH, stride * j : stride * j + PATCH]
        total[place] += kept[i, j]
        count[place] += 1
    found = np.where(count, total / np.maximum(count, 1), noisy)
    assert np.abs(found - clean).mean() < 0.6 * np.abs(noisy - clean).mean()
    return clean, noisy, found


def draw(found):
    from _picture import axes

    figure, panels = axes(3)
    names = ("clean", "with noise", "small singular values left out")
    for panel, picture, name in zip(panels, found, names, strict=True):
        panel.imshow(picture, cmap="gray", vmin=-0.2, vmax=1)
        panel.set(title=name, xticks=[], yticks=[])
    return figure


if __name__ == "__main__":
    from _picture import save

    save(draw(run()), __file__)
