"""Train a layer that solves a linear system per sample: it learns the matrix of x -> (W(x) + 4)^-1 x.

Gradients of the batched solve are computed by Mansard; PyTorch does the rest.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import mansard as ms

SIZE = 4  # unknowns of a system
SAMPLES = 64


class SolveLayer(torch.nn.Module):
    """x -> A(x)^-1 x, where A(x) = 4 + sum over k of tanh(x_k) W_k."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(0.1 * torch.randn(size, size, size, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        systems = torch.einsum("bk,kij->bij", x.tanh(), self.weights)
        systems = systems + 4 * torch.eye(x.shape[-1], dtype=x.dtype)
        return ms.linalg.solve(systems, x[..., None])[..., 0]


def train(steps: int) -> tuple[float, float]:
    """The loss before and after so many steps towards another layer of the same kind."""
    torch.manual_seed(0)
    target, layer = SolveLayer(SIZE), SolveLayer(SIZE)
    x = torch.randn(SAMPLES, SIZE, dtype=torch.float64)
    with torch.no_grad():
        wanted = target(x)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (layer(x) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses[0], losses[-1]


if __name__ == "__main__":
    first, last = train(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
    print(f"loss {first:.3e} before, {last:.3e} after training")
    assert last < first / 10
