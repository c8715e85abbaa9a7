// SPDX-License-Identifier: Apache-2.0
#include "python/native/host_pieces.h"

#include <nanobind/stl/vector.h>

#include <cstddef>
#include <span>

#include "python/native/errors.h"

namespace quire::python {

namespace nb = nanobind;

HostPieces::HostPieces(const std::vector<uint64_t>& addresses, const std::vector<uint64_t>& sizes) {
  if (addresses.size() != sizes.size()) {
    throw StatusError(InvalidArgument(addresses.size(), " addresses and ", sizes.size(),
                                      " sizes: give one size for each address"));
  }
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] == 0 || sizes[i] == 0) {
      throw StatusError(InvalidArgument("piece ", i, " is of ", sizes[i], " bytes at address ",
                                        addresses[i], ": both must be above 0"));
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as numbers.
    memory_.Append({reinterpret_cast<std::byte*>(addresses[i]), sizes[i]});
  }
}

HostBytes::HostBytes(nb::handle object, std::string_view what, HostArray::Use use) {
  if (nb::isinstance<HostPieces>(object)) {
    pieces_owner_ = nb::borrow(object);
    pieces_ = nb::inst_ptr<HostPieces>(object);
  } else {
    array_.emplace(object, what, use);
  }
}

Payload HostBytes::ToRead() const {
  Payload bytes;
  if (pieces_ == nullptr) {
    bytes.Append(Slice{array_->bytes(), nullptr});
    return bytes;
  }
  bytes.Reserve(pieces_->memory().pieces().size());
  for (const std::span<std::byte> piece : pieces_->memory().pieces()) {
    bytes.Append(Slice{piece, nullptr});
  }
  return bytes;
}

Destination HostBytes::ToWrite() {
  return pieces_ != nullptr ? pieces_->memory() : Destination(array_->writable());
}

void BindHostPieces(nb::module_& module) {
  nb::class_<HostPieces>(
      module, "HostPieces",
      "Memory of this process by its addresses, in pieces that follow each other as\n"
      "bytes do: a value of an object to put, and memory to read objects to.")
      .def(nb::init<const std::vector<uint64_t>&, const std::vector<uint64_t>&>(),
           nb::arg("addresses"), nb::arg("sizes"),
           "The memory must be there for as long as the pieces are used: nothing can check that.")
      .def_prop_ro(
          "nbytes", [](const HostPieces& self) { return self.memory().size_bytes(); },
          "Bytes of all pieces.");
}

}  // namespace quire::python
