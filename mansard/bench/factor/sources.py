"""The C++ of the compiled peers of factorizations. Every operation is one function `run` over a batch.

Matrices lie row by row. LAPACK takes columns and sees their transposes, which serves Cholesky, inverses, determinants
and (with `T`) systems as well; for LU and QR the columns of A are adjacent, and so are those of the result.
"""

from __future__ import annotations

_TYPES = {
    "float32": "float", "float64": "double", "complex64": "std::complex<float>", "complex128": "std::complex<double>",
}  # fmt: skip

_HEAD = """#include <algorithm>
#include <complex>
#include <cstdint>
#include <vector>
using T = %(type)s;
using I = std::int64_t;
"""

_LAPACK = """
using Potrf = void (*)(const char*, const int*, T*, const int*, int*);
using Getrf = void (*)(const int*, const int*, T*, const int*, int*, int*);
using Getrs = void (*)(const char*, const int*, const int*, const T*, const int*, const int*, T*, const int*, int*);
using Getri = void (*)(const int*, T*, const int*, const int*, T*, const int*, int*);
using Geqrf = void (*)(const int*, const int*, T*, const int*, T*, T*, const int*, int*);
using Orgqr = void (*)(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);

extern "C" void run(void* first, void* second, int threads, I count, int n, const T* a, const T* b, T* f, T* x,
                    T* q, T* tau, int* pivots, int* info) {
  const I size = I(n) * n;
  const int one = 1, room = 64 * n;
  (void)first, (void)second, (void)b, (void)x, (void)q, (void)tau, (void)pivots, (void)one, (void)room;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<T> work(room), own(size);
    std::vector<int> rows(n);
#pragma omp for schedule(static)
    for (I i = 0; i < count; ++i) {
      int failed = 0;
      %(body)s
      info[i] = failed;
    }
  }
}
"""

_COPY = "std::copy(a + i * size, a + (i + 1) * size, f + i * size);"
_OWN = "std::copy(a + i * size, a + (i + 1) * size, own.begin());"
_FACTORED = _OWN + " reinterpret_cast<Getrf>(first)(&n, &n, own.data(), &n, rows.data(), &failed);"
_GEQRF = "reinterpret_cast<Geqrf>(first)(&n, &n, %s, &n, tau + i * n, work.data(), &room, &failed);"
_BODIES = {
    "cholesky": _COPY + ' reinterpret_cast<Potrf>(first)("U", &n, f + i * size, &n, &failed);',
    "lu": _COPY + " reinterpret_cast<Getrf>(first)(&n, &n, f + i * size, &n, pivots + i * n, &failed);",
    "qr": _COPY + " " + _GEQRF % "f + i * size",
    "qrq": "std::copy(a + i * size, a + (i + 1) * size, q + i * size); " + _GEQRF % "q + i * size" + """
      for (int c = 0; c < n; ++c)
        for (int r = 0; r < n; ++r) f[i * size + I(c) * n + r] = r <= c ? q[i * size + I(c) * n + r] : T(0);
      reinterpret_cast<Orgqr>(second)(&n, &n, &n, q + i * size, &n, tau + i * n, work.data(), &room, &failed);""",
    "solve": _FACTORED + """
      std::copy(b + i * n, b + (i + 1) * n, x + i * n);
      int trouble = 0;
      reinterpret_cast<Getrs>(second)("T", &n, &one, own.data(), &n, rows.data(), x + i * n, &n, &trouble);""",
    "inverse": _COPY + """
      reinterpret_cast<Getrf>(first)(&n, &n, f + i * size, &n, rows.data(), &failed);
      reinterpret_cast<Getri>(second)(&n, f + i * size, &n, rows.data(), work.data(), &room, &failed);""",
    "determinant": _FACTORED + """
      T product(1);
      for (int k = 0; k < n; ++k) product *= (rows[k] == k + 1 ? T(1) : T(-1)) * own[I(k) * n + k];
      f[i] = product;""",
}  # fmt: skip

_EIGEN = """#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <Eigen/QR>
constexpr int SIZE = %(n)d;
using Square = Eigen::Matrix<T, SIZE, SIZE, Eigen::RowMajor>;
using Vector = Eigen::Matrix<T, SIZE, 1>;

extern "C" void run(int threads, I count, int n, const T* a, const T* b, T* f, T* x, T* q, T* tau, int* pivots,
                    int* info) {
  const I size = I(n) * n;
  (void)b, (void)f, (void)x, (void)q, (void)tau, (void)pivots;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (I i = 0; i < count; ++i) {
    Eigen::Map<const Square> A(a + i * size, n, n);
    info[i] = 0;
    %(body)s
  }
}
"""

_RESULT = "Eigen::Map<Square> F(f + i * size, n, n); "
_EIGEN_BODIES = {
    "cholesky": _RESULT + """const Eigen::LLT<Square> made(A);
    F = made.matrixL();
    info[i] = made.info() != Eigen::Success;""",
    "lu": _RESULT + """const Eigen::PartialPivLU<Square> made(A);
    F = made.matrixLU();
    const auto& rows = made.permutationP().indices();  // where each row went
    int at[SIZE], from[SIZE], order[SIZE];
    for (int k = 0; k < n; ++k) at[k] = from[k] = k, order[rows[k]] = k;
    for (int k = 0; k < n; ++k) {  // as exchanges, one after the other
      const int where = at[order[k]], other = from[k];
      pivots[i * n + k] = where;
      std::swap(from[k], from[where]);
      at[other] = where, at[order[k]] = k;
    }""",
    "qrq": _RESULT + """const Eigen::HouseholderQR<Square> made(A);
    Eigen::Map<Square> Q(q + i * size, n, n);
    Q = made.householderQ();
    F = made.matrixQR().template triangularView<Eigen::Upper>();""",
    "solve": """Eigen::Map<const Vector> B(b + i * n, n);
    Eigen::Map<Vector> X(x + i * n, n);
    X = Eigen::PartialPivLU<Square>(A).solve(B);""",
    "inverse": _RESULT + "F = Eigen::PartialPivLU<Square>(A).inverse();",
    "determinant": "f[i] = Eigen::PartialPivLU<Square>(A).determinant();",
}  # fmt: skip
EIGEN = tuple(_EIGEN_BODIES)


def lapack(dtype: str, operation: str) -> str:
    """A loop over LAPACK's routines, whose addresses are handed over."""
    return _HEAD % {"type": _TYPES[dtype]} + _LAPACK % {"body": _BODIES[operation]}


def eigen(dtype: str, operation: str, n: int) -> str:
    """Eigen's decompositions of matrices whose size is known."""
    return _HEAD % {"type": _TYPES[dtype]} + _EIGEN % {"n": n, "body": _EIGEN_BODIES[operation]}
