// The arithmetic functions CUDA has without a header. C's own are declared, not included: <cmath> would
// double the time a kernel takes to compile.
#pragma once

extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double sqrt(double) noexcept;
float sqrtf(float) noexcept;
double fabs(double) noexcept;
float fabsf(float) noexcept;
double hypot(double, double) noexcept;
float hypotf(float, float) noexcept;
double copysign(double, double) noexcept;
float copysignf(float, float) noexcept;
double fmin(double, double) noexcept;
double fmax(double, double) noexcept;
float fminf(float, float) noexcept;
float fmaxf(float, float) noexcept;
double floor(double) noexcept;
double ceil(double) noexcept;
double ldexp(double, int) noexcept;
double frexp(double, int*) noexcept;
void* memcpy(void* __restrict__, const void* __restrict__, decltype(sizeof 0)) noexcept;
void* memset(void*, int, decltype(sizeof 0)) noexcept;
int printf(const char*, ...);
}

inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline float sqrt(float a) { return sqrtf(a); }
inline float fabs(float a) { return fabsf(a); }
inline double abs(double a) { return fabs(a); }
inline float abs(float a) { return fabsf(a); }
inline int abs(int a) { return a < 0 ? -a : a; }
inline float hypot(float a, float b) { return hypotf(a, b); }
inline float copysign(float a, float b) { return copysignf(a, b); }
inline float fmin(float a, float b) { return fminf(a, b); }
inline float fmax(float a, float b) { return fmaxf(a, b); }
inline double rsqrt(double a) { return 1 / sqrt(a); }
inline float rsqrt(float a) { return 1 / sqrtf(a); }
inline float rsqrtf(float a) { return 1 / sqrtf(a); }

inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __drcp_rn(double a) { return 1 / a; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }

inline bool isnan(double a) { return __builtin_isnan(a); }
inline bool isinf(double a) { return __builtin_isinf(a); }
inline bool isfinite(double a) { return __builtin_isfinite(a); }
inline bool isnan(float a) { return __builtin_isnan(a); }
inline bool isinf(float a) { return __builtin_isinf(a); }
inline bool isfinite(float a) { return __builtin_isfinite(a); }

#define MANSARD_EMULATED_MIN_MAX(T)                   \
  constexpr T min(T a, T b) { return b < a ? b : a; } \
  constexpr T max(T a, T b) { return a < b ? b : a; }
MANSARD_EMULATED_MIN_MAX(int)
MANSARD_EMULATED_MIN_MAX(unsigned)
MANSARD_EMULATED_MIN_MAX(long)
MANSARD_EMULATED_MIN_MAX(unsigned long)
MANSARD_EMULATED_MIN_MAX(long long)
MANSARD_EMULATED_MIN_MAX(unsigned long long)
#undef MANSARD_EMULATED_MIN_MAX
// Of a number and a NaN the number, as CUDA's min and max.
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(1ull * a * b >> 32); }
inline long long __double_as_longlong(double value) {
  long long bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline double __longlong_as_double(long long bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
inline int __float_as_int(float value) {
  int bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __int_as_float(int bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned __float_as_uint(float x) { return static_cast<unsigned>(__float_as_int(x)); }
inline float __uint_as_float(unsigned x) { return __int_as_float(static_cast<int>(x)); }
