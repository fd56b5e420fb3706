#pragma once
// Plans by the integers of their keys: open addressing, one probe in the usual case. Everything happens under the
// interpreter's lock, and no Python code runs between a look and the use of what it found.

#include "native/arrays.hpp"

namespace mansard {

// Operation, backend and options by their addresses (`Table::name` keeps them alive), then three signatures.
struct Key {
  static constexpr int WORDS = 5 + 3 * (1 + 2 * DIMENSIONS);
  std::int64_t words[WORDS];
  int count = 0;
  std::uint64_t hash = 0x9e3779b97f4a7c15;

  void add(std::int64_t word) {
    words[count++] = word;
    hash = (hash ^ std::uint64_t(word)) * 0xff51afd7ed558ccd;
    hash ^= hash >> 32;
  }
  void add(PyObject* object) { add(std::int64_t(reinterpret_cast<std::uintptr_t>(object))); }
  void add(const Described* array) {
    if (!array) return add(std::int64_t(-1));
    for (int i = 0; i < array->count; ++i) add(array->words[i]);
  }
  bool operator==(const Key& other) const {
    return hash == other.hash && count == other.count && !std::memcmp(words, other.words, sizeof(*words) * count);
  }
};

class Table {
 public:
  static constexpr int MOST = 4096;  // plans; one more, and the table begins anew

  // The object that stands for all equal to this one (options, names of backends); null: it has no hash.
  PyObject* name(PyObject* object) {
    if (object == Py_None) return object;
    if (!names_ && !(names_ = PyDict_New())) return PyErr_Clear(), nullptr;
    PyObject* found = PyDict_SetDefault(names_, object, object);
    if (!found) PyErr_Clear();
    return found;
  }

  PyObject* find(const Key& key) const {  // borrowed
    if (!slots_) return nullptr;
    for (std::uint64_t at = key.hash;; ++at) {
      const Slot& slot = slots_[at % SLOTS];
      if (!slot.key) return nullptr;
      if (*slot.key == key) return slot.run;
    }
  }

  void keep(const Key& key, PyObject* run) {
    if (find(key)) return;
    if (!slots_) slots_ = static_cast<Slot*>(std::calloc(SLOTS, sizeof(Slot)));
    Key* own = slots_ ? static_cast<Key*>(std::malloc(sizeof(Key))) : nullptr;
    if (!own) return;
    *own = key;
    std::uint64_t at = key.hash;
    while (slots_[at % SLOTS].key) ++at;
    slots_[at % SLOTS] = Slot{own, Py_NewRef(run)};
    ++count_;
  }

  bool is_full() const { return count_ >= MOST; }

  // What is released may run Python code, which finds the table empty.
  void clear() {
    Slot* slots = slots_;
    PyObject* names = names_;
    slots_ = nullptr, names_ = nullptr, count_ = 0;
    for (int i = 0; slots && i < SLOTS; ++i) {
      std::free(slots[i].key);
      Py_XDECREF(slots[i].run);
    }
    std::free(slots);
    Py_XDECREF(names);
  }

  int size() const { return count_; }

 private:
  static constexpr int SLOTS = 4 * MOST;
  struct Slot {
    Key* key;
    PyObject* run;
  };
  Slot* slots_ = nullptr;
  PyObject* names_ = nullptr;
  int count_ = 0;
};

}  // namespace mansard
