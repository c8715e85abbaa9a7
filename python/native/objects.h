// SPDX-License-Identifier: Apache-2.0
//
// An object that was read, as a buffer of Python. Over shared memory it lies in the server's
// memory, and holds its lease.
//
// Ownership: an Object keeps its payload, and a view of it keeps the Object. Thread-safety: all
// methods may be called concurrently.
#ifndef QUIRE_PYTHON_NATIVE_OBJECTS_H_
#define QUIRE_PYTHON_NATIVE_OBJECTS_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "python/native/bind.h"
#include "quire/objects.h"
#include "quire/payload.h"

namespace quire::python {

class Object {
 public:
  explicit Object(ObjectBytes bytes) : object_(std::move(bytes)) {}

  /// The bytes that were read, in one piece: in place where they came so, otherwise a copy that is
  /// made once.
  std::span<const std::byte> bytes() const;
  /// True when bytes() is memory of the server.
  bool in_place() const { return is_lent() && object_.payload.slices().size() == 1; }
  uint64_t size_bytes() const { return object_.payload.size_bytes(); }
  uint64_t object_bytes() const { return object_.object_bytes; }
  const Payload& payload() const { return object_.payload; }
  /// True while the bytes are as they came.
  bool IsValid() const { return object_.payload.IsValid(); }

 private:
  bool is_lent() const { return !object_.payload.leases().empty(); }

  const ObjectBytes object_;
  mutable std::once_flag once_;
  mutable std::vector<std::byte> joined_;
};

void BindObjects(nanobind::module_& module);
void AddObjectCalls(ConnectionClass& connection);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_OBJECTS_H_
