// SPDX-License-Identifier: Apache-2.0
//
// HostPieces: memory of this process by its addresses, as one array: how engines describe where a
// page lies in their pools. Nothing can check the addresses.
//
// Ownership: the memory belongs to whoever gave the addresses, and outlives every use.
// Thread-safety: immutable.
#ifndef QUIRE_PYTHON_NATIVE_HOST_PIECES_H_
#define QUIRE_PYTHON_NATIVE_HOST_PIECES_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "python/native/host_array.h"
#include "quire/destination.h"
#include "quire/payload.h"

namespace quire::python {

class HostPieces {
 public:
  /// Throws INVALID_ARGUMENT unless there is one size for each address, and none is 0.
  HostPieces(const std::vector<uint64_t>& addresses, const std::vector<uint64_t>& sizes);

  const Destination& memory() const { return memory_; }

 private:
  Destination memory_;
};

/// Bytes that Python gives or wants: an array, or HostPieces. Ownership and thread-safety: as
/// HostArray.
class HostBytes {
 public:
  /// Throws INVALID_ARGUMENT as HostArray.
  HostBytes(nanobind::handle object, std::string_view what, HostArray::Use use);

  Payload ToRead() const;
  /// REQUIRES: made for Use::kWrite.
  Destination ToWrite();

 private:
  nanobind::object pieces_owner_;
  const HostPieces* pieces_ = nullptr;
  std::optional<HostArray> array_;
};

void BindHostPieces(nanobind::module_& module);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_HOST_PIECES_H_
