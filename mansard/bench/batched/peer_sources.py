"""The C++ of the compiled peers. Matrices lie row by row; BLAS and libxsmm take columns and see their transposes."""

from __future__ import annotations

_TYPES = {
    "float32": "float", "float64": "double", "complex64": "std::complex<float>", "complex128": "std::complex<double>",
}  # fmt: skip

_BLAS = """#include <algorithm>
#include <complex>
#include <cstdint>
using T = %(type)s;
using I = std::int64_t;
using Gemm = void (*)(const char*, const char*, const int*, const int*, const int*, const T*, const T*, const int*,
                      const T*, const int*, const T*, T*, const int*);
using Gemv = void (*)(const char*, const int*, const int*, const T*, const T*, const int*, const T*, const int*,
                      const T*, T*, const int*);
using Trsv = void (*)(const char*, const char*, const char*, const int*, const T*, const int*, T*, const int*);
using Trsm = void (*)(const char*, const char*, const char*, const char*, const int*, const int*, const T*, const T*,
                      const int*, T*, const int*);
static const T zero(0), unit(1);
static const int step = 1;

template <class Each>
static void share(int threads, I count, const Each& each) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (I i = 0; i < count; ++i) each(i);
}

extern "C" {
void gemm(Gemm routine, int threads, I count, int m, int n, int k, int add, const T* a, const T* b, T* c) {
  share(threads, count, [&](I i) {
    routine("N", "N", &n, &m, &k, &unit, b + i * k * n, &n, a + i * m * k, &k, add ? &unit : &zero, c + i * m * n, &n);
  });
}
void gemv(Gemv routine, int threads, I count, int m, int n, int turned, const T* a, const T* x, T* y) {
  const I in = turned ? m : n, out = turned ? n : m;
  share(threads, count, [&](I i) {
    routine(turned ? "N" : "T", &n, &m, &unit, a + i * m * n, &n, x + i * in, &step, &zero, y + i * out, &step);
  });
}
void trsv(Trsv routine, int threads, I count, int m, int, int upper, const T* a, const T* b, T* x) {
  share(threads, count, [&](I i) {
    std::copy(b + i * m, b + (i + 1) * m, x + i * m);
    routine(upper ? "L" : "U", "T", "N", &m, a + i * m * m, &m, x + i * m, &step);
  });
}
void trsm(Trsm routine, int threads, I count, int m, int n, int upper, const T* a, const T* b, T* x) {
  share(threads, count, [&](I i) {
    std::copy(b + i * m * n, b + (i + 1) * m * n, x + i * m * n);
    routine("R", upper ? "L" : "U", "N", "N", &n, &m, &unit, a + i * m * m, &m, x + i * m * n, &n);
  });
}
void ragged(Gemm routine, int threads, I count, const I* rows, const I* columns, const I* at_a, const I* at_b,
            const I* at_c, const T* a, const T* b, T* c) {
#pragma omp parallel for schedule(dynamic, 64) num_threads(threads) if (threads > 1)
  for (I i = 0; i < count; ++i) {
    const int m = static_cast<int>(rows[i]), n = static_cast<int>(columns[i]);
    routine("N", "N", &n, &m, &m, &unit, b + at_b[i], &n, a + at_a[i], &m, &zero, c + at_c[i], &n);
  }
}
}
"""

_EIGEN = """#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <complex>
#include <cstdint>
using T = %(type)s;
using I = std::int64_t;
constexpr int M = %(m)d, N = %(n)d, K = %(k)d, FIXED = %(fixed)d;
template <int R, int C>  // a column has its own order
using Matrix = Eigen::Matrix<T, FIXED ? R : Eigen::Dynamic, FIXED ? C : Eigen::Dynamic,
                             (FIXED && C == 1 && R > 1) ? Eigen::ColMajor : Eigen::RowMajor>;

template <class Multiply>
static void share(int threads, I count, const T* a, const T* b, T* c, const Multiply& multiply) {
#pragma omp parallel for schedule(static) num_threads(threads)
  for (I i = 0; i < count; ++i) {
    Eigen::Map<const Matrix<M, K>> left(a + i * M * K, M, K);
    Eigen::Map<const Matrix<K, N>> right(b + i * K * N, K, N);
    Eigen::Map<Matrix<M, N>> result(c + i * M * N, M, N);
    multiply(left, right, result);
  }
}

extern "C" void product(int threads, I count, const T* a, const T* b, T* c) {
  share(threads, count, a, b, c, [](const auto& A, const auto& B, auto& C) { C.noalias() %(sign)s A * B; });
}
extern "C" void lazy(int threads, I count, const T* a, const T* b, T* c) {
  share(threads, count, a, b, c, [](const auto& A, const auto& B, auto& C) { C.noalias() %(sign)s A.lazyProduct(B); });
}
"""

_XSMM = """#include <libxsmm.h>
#include <cstdint>
using T = %(type)s;

extern "C" void product(int threads, std::int64_t count, const T* a, const T* b, T* c) {
  constexpr int M = %(m)d, N = %(n)d, K = %(k)d;
  const libxsmm_mmfunction<T> kernel(LIBXSMM_GEMM_FLAG_NONE, N, M, K, T(1), T(%(add)d));
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) kernel(b + i * K * N, a + i * M * K, c + i * M * N);
}
"""


def blas(dtype: str) -> str:
    """Loops over one routine, whose address is handed over; triangular systems begin with a copy of B."""
    return _BLAS % {"type": _TYPES[dtype]}


def eigen(dtype: str, m: int, n: int, k: int, add: bool, fixed: bool) -> str:
    """Eigen's own choice of algorithm, and its sums of products without one."""
    sizes = {"m": m, "n": n, "k": k, "fixed": int(fixed)}
    return _EIGEN % {"type": _TYPES[dtype], "sign": "+=" if add else "=", **sizes}


def xsmm(dtype: str, m: int, n: int, k: int, add: bool) -> str:
    """A kernel generated when it is asked for, and found again by its sizes."""
    return _XSMM % {"type": _TYPES[dtype], "m": m, "n": n, "k": k, "add": int(add)}
