#pragma once
// Products by the BLAS that NumPy has loaded, in the memory of the CPU, without Python code:
//
//   gemm   C = op(A) op(B)          gemv   y = op(A) x          syrk, herk   one triangle of C = A A', or C with both
//
// of one matrix or of a stack, whose matrices lie at equal distances. An operand that BLAS does not read as it lies
// (neither rows nor columns adjacent, or conjugated without being transposed) is gathered into memory of the thread
// first; a result that lies so is scattered from there. `backends/cblas.py` says what is asked, and does the same in
// Python.

#include <algorithm>
#include <complex>

#include "native/python.hpp"

namespace mansard {

// How numbers of a dtype are passed to CBLAS: real ones by value, complex ones by address.
template <class T>
struct Factor {
  using Type = T;
  static Type of(const T& value) { return value; }
};
template <class R>
struct Factor<std::complex<R>> {
  using Type = const void*;
  static Type of(const std::complex<R>& value) { return &value; }
};

template <class T>
T conjugate(T value) {
  return value;
}
template <class R>
std::complex<R> conjugate(std::complex<R> value) {
  return std::conj(value);
}

template <class T>
struct RealOf {
  using Type = T;
};
template <class R>
struct RealOf<std::complex<R>> {
  using Type = R;
};

// Memory of a thread for gathered operands. What is large goes back when the call is over.
class Gathered {
 public:
  static constexpr std::size_t KEPT = 1 << 20;  // bytes
  ~Gathered() { std::free(memory_); }

  char* reserve(std::size_t bytes) {
    if (bytes > size_) {
      std::free(memory_);
      size_ = (bytes + 4095) / 4096 * 4096;
      memory_ = static_cast<char*>(std::aligned_alloc(64, size_));
      if (!memory_) size_ = 0;
    }
    return memory_;
  }
  void release() {
    if (size_ > KEPT) std::free(memory_), memory_ = nullptr, size_ = 0;
  }

 private:
  char* memory_ = nullptr;
  std::size_t size_ = 0;
};

class BlasProduct {
 public:
  enum Routine { GEMM, GEMV, SYRK, HERK };

  // ("cblas", routine, letter of the dtype, bits of an integer, function, (option, option, option), (m, n, k),
  //  (operand, pitch, step, gathered, rows, columns, row stride, column stride, conjugated) three times, matrices,
  //  written triangle (0: all, 1: lower, 2: upper), whether the other one is filled, whether values are conjugated,
  //  multiply-adds of all)
  bool read(PyObject* entry) {
    const char *name, *letter;
    long long sizes[3];
    int bits;
    Side* s = sides_;
    if (!PyArg_ParseTuple(entry, "sisiK(iii)(LLL)((iLLpLLLLp)(iLLpLLLLp)(iLLpLLLLp))Lippd", &name, &routine_, &letter,
                          &bits, &function_, options_, options_ + 1, options_ + 2, sizes, sizes + 1, sizes + 2,
                          &s[0].operand, &s[0].pitch, &s[0].step, &s[0].gathered, &s[0].rows, &s[0].columns, &s[0].row,
                          &s[0].column, &s[0].conjugated, &s[1].operand, &s[1].pitch, &s[1].step, &s[1].gathered,
                          &s[1].rows, &s[1].columns, &s[1].row, &s[1].column, &s[1].conjugated, &s[2].operand,
                          &s[2].pitch, &s[2].step, &s[2].gathered, &s[2].rows, &s[2].columns, &s[2].row, &s[2].column,
                          &s[2].conjugated, &batch_, &triangle_, &mirrored_, &turned_, &work_))
      return false;
    std::copy(sizes, sizes + 3, sizes_);
    letter_ = letter[0], wide_ = bits == 64;
    bool fits = routine_ >= GEMM && routine_ <= HERK && std::strchr("sdcz", letter_) && batch_ > 0 && function_;
    for (const Side& one : sides_) fits = fits && one.operand >= 0 && one.operand < 3;
    if (!fits) return PyErr_SetString(PyExc_ValueError, "entry: no product by BLAS"), false;
    return true;
  }

  // Whether there was memory for what is gathered.
  bool run(const std::uint64_t* pointers) const {
    bool done = false;
    if (work_ < SHORT) return run_any(pointers);
    Py_BEGIN_ALLOW_THREADS;
    done = run_any(pointers);
    Py_END_ALLOW_THREADS;
    return done;
  }

 private:
  static constexpr double SHORT = 1 << 15;  // multiply-adds: about as long as giving the interpreter's lock away and back
  static constexpr int TILE = 32;           // rows and columns that are mirrored at a time: both tiles fit a cache

  struct Side {
    int operand = 0, gathered = 0, conjugated = 0;
    long long pitch = 0, step = 0, rows = 0, columns = 0, row = 0, column = 0;  // counted in numbers
    std::size_t count() const { return std::size_t(rows) * std::size_t(columns); }
  };

  bool run_any(const std::uint64_t* pointers) const {
    switch (letter_) {
      case 's': return wide_ ? run_of<std::int64_t, float>(pointers) : run_of<int, float>(pointers);
      case 'd': return wide_ ? run_of<std::int64_t, double>(pointers) : run_of<int, double>(pointers);
      case 'c':
        return wide_ ? run_of<std::int64_t, std::complex<float>>(pointers) : run_of<int, std::complex<float>>(pointers);
      default:
        return wide_ ? run_of<std::int64_t, std::complex<double>>(pointers)
                     : run_of<int, std::complex<double>>(pointers);
    }
  }

  template <class Int, class T>
  bool run_of(const std::uint64_t* pointers) const {
    thread_local Gathered gathered;
    std::size_t starts[4] = {};
    for (int i = 0; i < 3; ++i) starts[i + 1] = starts[i] + (sides_[i].gathered ? sides_[i].count() : 0);
    T* memory = nullptr;
    if (starts[3] && !(memory = reinterpret_cast<T*>(gathered.reserve(starts[3] * sizeof(T))))) return false;
    T *bases[3], *places[3];
    for (int i = 0; i < 3; ++i) {
      bases[i] = reinterpret_cast<T*>(std::uintptr_t(pointers[sides_[i].operand]));
      places[i] = sides_[i].gathered ? memory + starts[i] : bases[i];
    }
    for (long long matrix = 0; matrix < batch_; ++matrix) {
      for (int i = 0; i < 3; ++i) {
        const Side& side = sides_[i];
        T* at = bases[i] + matrix * side.step;
        if (!side.gathered)
          places[i] = at;
        else if (i < 2 && (matrix == 0 || side.step))
          copy(side, at, places[i]);
      }
      multiply<Int>(places[0], places[1], places[2]);
      finish(bases[2] + matrix * sides_[2].step, places[2]);
    }
    gathered.release();
    return true;
  }

  template <class T>
  static void copy(const Side& side, const T* from, T* to) {
    gather(side, from, to);
    if (side.conjugated) std::transform(to, to + side.count(), to, [](T value) { return conjugate(value); });
  }

  template <class T>
  static void gather(const Side& side, const T* from, T* to) {
    if (side.row == 1 && side.columns > 1) return gather_columns(side, from, to);
    for (long long i = 0; i < side.rows; ++i) {
      const T* at = from + i * side.row;
      for (long long j = 0; j < side.columns; ++j, at += side.column) to[j] = *at;
      to += side.columns;
    }
  }

  // `gather` where columns are adjacent: reads, of which there are cache lines, follow each other.
  template <class T>
  static void gather_columns(const Side& side, const T* from, T* to) {
    for (long long j = 0; j < side.columns; ++j)
      for (long long i = 0; i < side.rows; ++i) to[i * side.columns + j] = from[i + j * side.column];
  }

  template <class Int, class T>
  void multiply(const T* a, const T* b, T* c) const {
    using F = typename Factor<T>::Type;
    using R = typename RealOf<T>::Type;
    static const T unit(1), nothing(0);
    const F one = Factor<T>::of(unit), zero = Factor<T>::of(nothing);
    const Int m = Int(sizes_[0]), n = Int(sizes_[1]), k = Int(sizes_[2]);
    const Int p = Int(sides_[0].pitch), q = Int(sides_[1].pitch), r = Int(sides_[2].pitch);
    const int *o = options_;
    using Gemm = void(int, int, int, Int, Int, Int, F, const void*, Int, const void*, Int, F, void*, Int);
    using Gemv = void(int, int, Int, Int, F, const void*, Int, const void*, Int, F, void*, Int);
    using Syrk = void(int, int, int, Int, Int, F, const void*, Int, F, void*, Int);
    using Herk = void(int, int, int, Int, Int, R, const void*, Int, R, void*, Int);
    switch (routine_) {
      case GEMM: return as<Gemm>()(o[0], o[1], o[2], m, n, k, one, a, p, b, q, zero, c, r);
      case GEMV: {
        const Int rows = o[1] == NO_TRANS ? m : n;  // some versions of OpenBLAS multiply what was there by zero: NaN stays
        for (Int i = 0; i < rows; ++i) c[i * r] = nothing;
        return as<Gemv>()(o[0], o[1], m, n, one, a, p, b, q, zero, c, r);
      }
      case SYRK: return as<Syrk>()(o[0], o[1], o[2], n, k, one, a, p, zero, c, r);
      default: return as<Herk>()(o[0], o[1], o[2], n, k, R(1), a, p, R(0), c, r);
    }
  }

  // What is left to do with a product that was formed in `from`: scatter it, conjugate it, fill the other triangle.
  template <class T>
  void finish(T* to, T* from) const {
    const Side& side = sides_[2];
    if (!side.gathered && !mirrored_ && !turned_) return;
    const long long row = side.gathered ? side.columns : side.row, column = side.gathered ? 1 : side.column;
    if (!triangle_) {
      for (long long i = 0; i < side.rows; ++i)
        for (long long j = 0; j < side.columns; ++j) to[i * side.row + j * side.column] = from[i * row + j * column];
      return;
    }
    if (!side.gathered && !turned_) return mirror(to);
    const bool hermitian = routine_ == HERK;
    for (long long top = 0; top < side.rows; top += TILE)
      for (long long left = 0; left <= top; left += TILE)
        for (long long i = top; i < std::min(top + TILE, side.rows); ++i)
          for (long long j = left; j < std::min(left + TILE, i + 1); ++j) {
            const long long x = triangle_ == 1 ? i : j, y = triangle_ == 1 ? j : i;  // (x, y) was written
            const T value = turned_ ? conjugate(from[x * row + y * column]) : from[x * row + y * column];
            to[x * side.row + y * side.column] = value;
            if (mirrored_) to[y * side.row + x * side.column] = hermitian ? conjugate(value) : value;
          }
  }

  // The other triangle of a matrix whose first one is in its place.
  template <class T>
  void mirror(T* matrix) const {
    const Side& side = sides_[2];
    const bool is_lower = triangle_ == 1, hermitian = routine_ == HERK;
    const long long down = is_lower ? side.row : side.column, along = is_lower ? side.column : side.row;
    for (long long top = 0; top < side.rows; top += TILE)
      for (long long left = 0; left <= top; left += TILE)
        for (long long i = top; i < std::min(top + TILE, side.rows); ++i) {
          const T* from = matrix + i * down + left * along;
          T* to = matrix + left * down + i * along;
          for (long long j = left; j < std::min(left + TILE, i); ++j, from += along, to += down)
            *to = hermitian ? conjugate(*from) : *from;
        }
  }

  template <class F>
  F* as() const {
    return reinterpret_cast<F*>(std::uintptr_t(function_));
  }

  static constexpr int NO_TRANS = 111;  // CBLAS_TRANSPOSE
  unsigned long long function_ = 0;
  long long sizes_[3] = {}, batch_ = 0;
  int options_[3] = {};  // gemm: order and two transpositions; gemv: order and transposition; else order, triangle, transposition
  int routine_ = 0, triangle_ = 0, mirrored_ = 0, turned_ = 0;
  double work_ = 0;
  char letter_ = 'd';
  bool wide_ = false;
  Side sides_[3];
};

}  // namespace mansard
