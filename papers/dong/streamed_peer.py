"""A product at a time: a loop of the vendor's gemm over several streams, what batched routines were made to replace.

The loop is captured in a graph once, so that neither Python nor launching is measured: that is the best it can do.
"""

from __future__ import annotations

from typing import Any

from mansard.bench.cases import Case
from mansard.bench.peers import Product, TorchCudaPeer

_STREAMS = 16


class StreamedPeer(TorchCudaPeer):
    name = "cuBLAS, one by one in streams"
    captures = "it is a graph itself"

    def takes_part(self, case: Case) -> bool:
        return case.set == "streamed"

    def batched(self, case: Case) -> dict[str, Product]:
        graphs: dict[int, Any] = {}

        def run(A: Any, B: Any, out: Any) -> Any:
            key = out.data_ptr()
            if key not in graphs:
                graphs[key] = self._capture(A, B, out)
            graphs[key].replay()
            return out

        return {f"mm(a, b, out=c) for each, {_STREAMS} streams in a graph": run}

    def _capture(self, A: Any, B: Any, out: Any) -> Any:
        cuda = self.torch.cuda
        first, rest = cuda.Stream(), [cuda.Stream() for _ in range(_STREAMS)]
        for stream in (first, *rest):  # handles and workspaces, before anything is captured
            with cuda.stream(stream):
                self.torch.mm(A[0], B[0], out=out[0])
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, stream=first):
            for stream in rest:
                stream.wait_stream(first)
            for number, stream in enumerate(rest):
                mine = (operand[number::_STREAMS] for operand in (A, B, out))
                with cuda.stream(stream):
                    for a, b, c in zip(*mine, strict=True):
                        self.torch.mm(a, b, out=c)
            for stream in rest:
                first.wait_stream(stream)
        return graph
