#pragma once
// DLPack's description of an array, and the functions by which a library answers in C (DLPack 1.2 and later).
// https://dmlc.github.io/dlpack/latest/c_api.html

#include <cstdint>

namespace mansard {

enum { DL_CPU = 1, DL_CUDA = 2 };                    // DLDeviceType
enum { DL_INT = 0, DL_FLOAT = 2, DL_COMPLEX = 5 };   // DLDataTypeCode

struct DLDevice {
  std::int32_t type, ordinal;
};

struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t dimensions;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // elements
  std::uint64_t byte_offset;
};

struct DLPackExchangeAPI {
  std::uint32_t major, minor;
  void* previous;
  void* allocate;
  void* from_object;
  void* to_object;
  int (*describe)(void* object, DLTensor* found);  // without ownership, for as long as the object is left alone
  int (*current_stream)(std::int32_t device_type, std::int32_t ordinal, void** stream);
};

}  // namespace mansard
