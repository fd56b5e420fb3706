// X = A^-1 B for a batch of tiny matrices A and any number of right-hand sides, by one launch.
//
//   solve       P A = L U with partial pivoting, then L U x = P b
//   positive    A = L L^H from the lower triangle, then L L^H x = b
//   lu, transposed, adjoint    A holds L and U: A x = b, A^T x = b, A^H x = b
//   cholesky    A holds L, or U with A = U^H U
//
// Team. TEAM lanes of a warp have a matrix and SIDES of its right-hand sides (an item); a matrix with more of them is
// factored once more for each further item. Lane i has row i (and i + TEAM, ...) of an elimination; afterwards lane c
// has right-hand side c (and c + TEAM, ...) in registers. All strides are arguments; a stride of zero between matrices
// repeats A and its pivots, or B.
//
// Shared memory, per team:
//   a      N x PITCH numbers: A, then its factors; PITCH is odd, so that rows begin in different banks
//   order  N numbers of rows: row i of P b is row order[i] of b
//
// Barriers, of the warp:
//   1  a and order are about to be overwritten; all lanes have solved with those of the last item
//   2  a and order are complete                   -> a, order -> the lanes that read them from memory
//   3  column k is about to be exchanged          -> a        -> all lanes have searched it (solve)
//   4  rows k and its pivot are exchanged         -> a        -> a lane per column (solve)
//   5  column k is scaled                         -> a        -> a lane per row (positive)
//   6  step k is complete                         -> a        -> a lane per row
//
// Limits: latency of the elimination's N steps (two or three barriers each); then memory.
//
//   N     rows
//   TEAM  lanes per matrix, a power of two
//   WARPS per block
#pragma once
#include "kernels/factor/systems/substitute.cuh"

namespace mansard {

enum class Want { solve, positive, lu, transposed, adjoint, cholesky };
enum class Uplo { lower, upper };

template <class P>
struct TinySystem {
  using T = typename P::T;
  using R = typename Scalar<T>::Real;
  static constexpr int N = P::N, TEAM = P::TEAM, PITCH = N | 1, TEAMS = 32 / TEAM;
  static constexpr int MATRIX_BYTES = N * PITCH * int(sizeof(T)), BYTES = MATRIX_BYTES + (N * 4 + 15) / 16 * 16;
  static constexpr Want WANT = P::WANT;
  static constexpr bool FACTORS = WANT == Want::lu || WANT == Want::transposed || WANT == Want::adjoint;
  static_assert(P::WARPS * TEAMS * BYTES <= P::SHARED_BYTES, "shared memory");

  // LU of the matrix in shared memory, as LAPACK's getrf chooses pivots; the result is `info`.
  static MANSARD_DEVICE int eliminate(T* a, int* order, int lane) {
    int info = 0;
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < N; ++k) {
      if constexpr (P::PIVOT) {
        int chosen = k;
        R largest = modulus_1(a[k * PITCH + k]);  // a NaN is chosen only if it comes first
        MANSARD_UNROLL_BY(4)
        for (int i = k + 1; i < N; ++i) {
          const R size = modulus_1(a[i * PITCH + k]);
          if (size > largest) {
            largest = size;
            chosen = i;
          }
        }
        __syncwarp();  // rows are about to be exchanged; all lanes have searched column k
        if (chosen != k) {
          for (int j = lane; j < N; j += TEAM) {
            const T own = a[k * PITCH + j];
            a[k * PITCH + j] = a[chosen * PITCH + j];
            a[chosen * PITCH + j] = own;
          }
          if (lane == 0) {
            const int own = order[k];
            order[k] = order[chosen];
            order[chosen] = own;
          }
        }
        __syncwarp();  // row k is the pivot's, written by a lane per column
      }
      const T pivot = a[k * PITCH + k];
      if (is_zero(pivot)) {
        info = info == 0 ? k + 1 : info;
      } else {
        for (int i = lane; i < N; i += TEAM)
          if (i > k) {
            const T factor = divided(a[i * PITCH + k], pivot);
            a[i * PITCH + k] = factor;
            MANSARD_UNROLL_BY(4)
            for (int j = k + 1; j < N; ++j) multiply_subtract<false>(a[i * PITCH + j], factor, a[k * PITCH + j]);
          }
      }
      __syncwarp();  // step k is complete, written by a lane per row
    }
    return info;
  }

  // L of the lower triangle in shared memory; the result is `info`. NaN is no positive pivot.
  static MANSARD_DEVICE int cholesky(T* a, int lane) {
    int info = 0;
    MANSARD_UNROLL_BY(1)
    for (int k = 0; k < N; ++k) {
      const R square = real_part(a[k * PITCH + k]);
      if (!(square > R(0)) && info == 0) info = k + 1;
      const R root = sqrt(square);
      __syncwarp();  // column k is about to be scaled; all lanes have read its diagonal entry
      for (int i = lane; i < N; i += TEAM)
        if (i >= k) a[i * PITCH + k] = i == k ? from_real<T>(root) : divided(a[i * PITCH + k], root);
      __syncwarp();  // column k is scaled, written by a lane per row
      for (int i = lane; i < N; i += TEAM) {
        MANSARD_UNROLL_BY(4)
        for (int j = k + 1; j <= i; ++j)
          multiply_subtract<true>(a[i * PITCH + j], a[j * PITCH + k], a[i * PITCH + k]);  // a_ij -= conj(l_jk) l_ik
      }
      __syncwarp();  // step k is complete, written by a lane per row
    }
    return info;
  }

  // order from LAPACK's exchanges, by one lane; a pivot that is no row exchanges nothing.
  static MANSARD_DEVICE void follow(const int* pivots, int* order) {
    for (int k = 0; k < N; ++k) order[k] = k;
    for (int k = 0; k < N; ++k) {
      const int other = pivots[k], own = order[k];
      if (other > k && other < N) {
        order[k] = order[other];
        order[other] = own;
      }
    }
  }

  // Both triangles; the second one is read anew, so that entries of Cholesky's one triangle are not kept for it.
  static MANSARD_DEVICE void solve(const T* a, T (&x)[N]) {
    const T* const again = a + renewed(0);
    if constexpr (WANT == Want::transposed || WANT == Want::adjoint) {  // U^T L^T P x = b
      constexpr bool CONJ = WANT == Want::adjoint;
      substitute<N, PITCH, true, true, CONJ, false>(a, x);
      substitute<N, PITCH, false, true, CONJ, true>(again, x);
    } else if constexpr (WANT == Want::solve || WANT == Want::lu) {
      substitute<N, PITCH, true, false, false, true>(a, x);
      substitute<N, PITCH, false, false, false, false>(again, x);
    } else if constexpr (WANT == Want::positive || P::UPLO == Uplo::lower) {
      substitute<N, PITCH, true, false, false, false>(a, x);
      substitute<N, PITCH, false, true, true, false>(again, x);
    } else {
      substitute<N, PITCH, true, true, true, false>(a, x);
      substitute<N, PITCH, false, false, false, false>(again, x);
    }
  }
};

template <class P, class Arguments>
MANSARD_DEVICE void systems_columns(const Arguments& arguments) {
  using S = TinySystem<P>;
  using T = typename P::T;
  constexpr int N = S::N, TEAM = S::TEAM, PITCH = S::PITCH;
  MANSARD_SHARED_ARENA(unsigned char, arena);
  const int lane = threadIdx.x % TEAM, team = threadIdx.x % 32 / TEAM;
  unsigned char* const own = arena + (threadIdx.x / TEAM) * S::BYTES;
  T* const a = reinterpret_cast<T*>(own);
  int* const order = reinterpret_cast<int*>(own + S::MATRIX_BYTES);

  const i64 parts = (arguments.NRHS + arguments.SIDES - 1) / arguments.SIDES, items = arguments.BATCH * parts;
  const i64 step = i64(gridDim.x) * P::WARPS * S::TEAMS;
  for (i64 first = (i64(blockIdx.x) * P::WARPS + threadIdx.x / 32) * S::TEAMS; first < items; first += step) {
    const bool active = first + team < items;  // teams without an item repeat the last one, and store nothing
    const i64 item = active ? first + team : items - 1, matrix = item / parts, part = item % parts;
    const T* const from = arguments.A + matrix * arguments.a_matrix;
    __syncwarp();  // a and order are about to be overwritten; all lanes have solved with them
    const bool by_columns = arguments.a_row < arguments.a_col;  // neighbouring lanes read neighbouring entries
    for (int e = lane; e < N * N; e += TEAM) {
      const int i = by_columns ? e % N : e / N, j = by_columns ? e / N : e % N;
      a[i * PITCH + j] = from[i * arguments.a_row + j * arguments.a_col];
    }
    if constexpr (S::FACTORS) {
      if (lane == 0) S::follow(arguments.PIVOTS + (arguments.a_matrix ? matrix * N : 0), order);
    } else {
      for (int i = lane; i < N; i += TEAM) order[i] = i;
    }
    __syncwarp();  // a and order are complete, written by all lanes

    if constexpr (S::WANT == Want::solve || S::WANT == Want::positive) {
      int info;
      if constexpr (S::WANT == Want::solve) info = S::eliminate(a, order, lane);
      else info = S::cholesky(a, lane);
      if (active && part == 0 && lane == 0) arguments.INFO[matrix] = info;
    }

    constexpr bool TURNED = S::WANT == Want::transposed || S::WANT == Want::adjoint;  // rows of X are exchanged, not of B
    const T* const right = arguments.B + matrix * arguments.b_matrix;
    T* const solution = arguments.X + matrix * arguments.x_matrix;
    const i64 end = min((part + 1) * arguments.SIDES, arguments.NRHS);
    MANSARD_UNROLL_BY(1)
    for (i64 c = part * arguments.SIDES + lane; c < end && active; c += TEAM) {
      const int again = renewed(0);  // factors are read anew for each right-hand side, not kept in registers
      const int* const rows = order + again;
      T x[N];
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) x[i] = right[(TURNED ? i : rows[i]) * arguments.b_row + c * arguments.b_col];
      S::solve(a + again, x);
      MANSARD_UNROLL
      for (int i = 0; i < N; ++i) solution[(TURNED ? rows[i] : i) * arguments.x_row + c * arguments.x_col] = x[i];
    }
  }
}

}  // namespace mansard
