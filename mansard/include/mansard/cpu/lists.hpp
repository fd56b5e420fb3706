// Lists of NumPy arrays: where the arrays are and of what shape, and copies between them and one buffer.
//
// Arrays are read as NumPy's C interface defines them: what follows an object's head is `ArrayFields`, the same in every
// version of NumPy (ndarraytypes.h). Whoever calls checks that once per process, on arrays it knows.
//
// A list of 1000 small matrices is described in 10 us and copied at the speed of the caches. Python takes 0.3 us for
// each array that it asks for one attribute.
#pragma once
#include "mansard/cpu/simd.hpp"

namespace mansard {

struct ArrayFields {
  char* data;
  int dimensions;
  const std::ptrdiff_t* shape;
  const std::ptrdiff_t* strides;  // bytes
  const void* base;               // whose memory it is; null: its own
  const void* dtype;
  int flags;
};

enum class ListTask : i64 { describe, gather, scatter };
enum class ListPart : i64 { whole, lower, upper, unit_lower, unit_upper };

// What makes an array one that a kernel may read or write where it is (ndarraytypes.h).
enum ArrayFlag : int { ROWS_ADJACENT = 0x0001, ALIGNED = 0x0100, WRITEABLE = 0x0400 };

// The first two dimensions of an array; a vector is a column.
struct ListedMatrix {
  char* data;
  i64 rows, columns, row, column;  // strides in bytes
  explicit ListedMatrix(const ArrayFields& array)
      : data(array.data), rows(array.shape[0]), columns(array.dimensions == 1 ? 1 : array.shape[1]),
        row(array.strides[0]), column(array.dimensions == 1 ? 0 : array.strides[1]) {}
};

template <class Arguments>
MANSARD_INLINE const char* listed_object(const Arguments& a, i64 i) {
  return static_cast<const char* const*>(a.objects)[i];
}
template <class Arguments>
MANSARD_INLINE const ArrayFields& listed_array(const Arguments& a, i64 i) {
  return *reinterpret_cast<const ArrayFields*>(listed_object(a, i) + a.head);
}

// Write the tables of all arrays: rows, columns, and addresses in units of the item size. `report` gets the number of
// arrays like the first one, up to the first that differs in type, dtype or dimensions; the flags that all have in common.
template <class Arguments>
void describe_list(const Arguments& a) {
  constexpr i64 AHEAD = 8;  // arrays whose fields are on their way from memory
  i64* const rows = static_cast<i64*>(a.tables);
  i64 *const columns = rows + a.count, *const places = columns + a.count, *const report = static_cast<i64*>(a.report);
  int common = ROWS_ADJACENT | ALIGNED | WRITEABLE;
  bool in_units = true;
  report[0] = report[1] = 0;
  for (i64 i = 0; i < a.count; ++i) {
    if (i + AHEAD < a.count) __builtin_prefetch(listed_object(a, i + AHEAD) + a.head);
    const void* type;
    std::memcpy(&type, listed_object(a, i) + a.head - sizeof(void*), sizeof type);
    if (type != a.type) return;
    const ArrayFields& array = listed_array(a, i);
    if (array.dtype != a.dtype || array.dimensions != a.dimensions) return;
    const ListedMatrix matrix(array);
    rows[i] = matrix.rows, columns[i] = matrix.columns;
    const i64 address = reinterpret_cast<i64>(array.data);
    places[i] = address / a.item;
    in_units = in_units && address % a.item == 0;
    common &= array.flags;
    report[0] = i + 1;
  }
  report[1] = in_units ? common : common & ~ROWS_ADJACENT;
}

// Entries [begin, end) of a row that belong to a part; outside of it gathered rows are zero.
struct PartOfRow {
  i64 begin, end;
  PartOfRow(ListPart part, i64 row, i64 columns) : begin(0), end(columns) {
    if (part == ListPart::lower || part == ListPart::unit_lower) end = row + 1 < columns ? row + 1 : columns;
    if (part == ListPart::upper || part == ListPart::unit_upper) begin = row < columns ? row : columns;
  }
};

template <class Item>
void gather_matrix(Item* to, const ListedMatrix& from, ListPart part, const Item& one) {
  const bool is_whole = part == ListPart::whole, adjacent = from.column == sizeof(Item);
  for (i64 i = 0; i < from.rows; ++i, to += from.columns) {
    const char* const row = from.data + i * from.row;
    const PartOfRow some(part, i, from.columns);
    if (!is_whole) std::memset(static_cast<void*>(to), 0, from.columns * sizeof(Item));
    if (adjacent) std::memcpy(to + some.begin, row + some.begin * sizeof(Item), (some.end - some.begin) * sizeof(Item));
    else
      for (i64 j = some.begin; j < some.end; ++j) std::memcpy(to + j, row + j * from.column, sizeof(Item));
    if ((part == ListPart::unit_lower || part == ListPart::unit_upper) && i < from.columns) to[i] = one;
  }
}

template <class Item>
void scatter_matrix(const ListedMatrix& to, const Item* from, ListPart part) {
  for (i64 i = 0; i < to.rows; ++i, from += to.columns) {
    char* const row = to.data + i * to.row;
    const PartOfRow some(part, i, to.columns);
    if (to.column == sizeof(Item))
      std::memcpy(row + some.begin * sizeof(Item), from + some.begin, (some.end - some.begin) * sizeof(Item));
    else
      for (i64 j = some.begin; j < some.end; ++j) std::memcpy(row + j * to.column, from + j, sizeof(Item));
  }
}

// Copy all matrices from (to) a buffer, in which matrix i begins at entry places[i], row after row.
template <class Item, class Arguments>
void copy_list(const Arguments& a) {
  const auto part = static_cast<ListPart>(a.part);
  const i64* const places = static_cast<const i64*>(a.places);
  Item one;
  std::memcpy(&one, a.one, sizeof one);
  for (i64 i = 0; i < a.count; ++i) {
    Item* const at = static_cast<Item*>(a.buffer) + places[i];
    const ListedMatrix matrix(listed_array(a, i));
    if (static_cast<ListTask>(a.task) == ListTask::gather) gather_matrix(at, matrix, part, one);
    else scatter_matrix(matrix, at, part);
  }
}

template <class Arguments>
int run_list_task(const Arguments& a) {
  struct Pair {
    i64 first, second;
  };
  if (static_cast<ListTask>(a.task) == ListTask::describe) describe_list(a);
  else if (a.item == 4) copy_list<u32>(a);
  else if (a.item == 8) copy_list<i64>(a);
  else copy_list<Pair>(a);
  return 0;
}

}  // namespace mansard
