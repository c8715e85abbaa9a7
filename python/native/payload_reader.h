// SPDX-License-Identifier: Apache-2.0
//
// PayloadReader: goes through the bytes of a payload in order.
//
// Ownership: borrows the payload. Thread-safety: none; needs no GIL.
#ifndef QUIRE_PYTHON_NATIVE_PAYLOAD_READER_H_
#define QUIRE_PYTHON_NATIVE_PAYLOAD_READER_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "quire/payload.h"

namespace quire::python {

class PayloadReader {
 public:
  explicit PayloadReader(const Payload& payload) : slices_(payload.slices()) {}

  /// Copies the next `bytes`. REQUIRES: as many are left.
  void Read(size_t bytes, std::byte* out) {
    while (bytes > 0) {
      const auto& slice = slices_[slice_].bytes;
      const size_t count = std::min(bytes, slice.size() - offset_);
      std::memcpy(out, slice.data() + offset_, count);
      out += count;
      bytes -= count;
      Pass(count);
    }
  }
  /// The next `bytes` where they lie; in `*spare` where a slice ends among them. REQUIRES: as many
  /// are left, and at least one.
  const std::byte* Next(size_t bytes, std::vector<std::byte>* spare) {
    while (offset_ == slices_[slice_].bytes.size()) Pass(0);
    const auto& slice = slices_[slice_].bytes;
    if (bytes > slice.size() - offset_) {
      spare->resize(bytes);
      Read(bytes, spare->data());
      return spare->data();
    }
    const std::byte* const found = slice.data() + offset_;
    Pass(bytes);
    return found;
  }

 private:
  void Pass(size_t bytes) {
    offset_ += bytes;
    if (offset_ == slices_[slice_].bytes.size()) {
      ++slice_;
      offset_ = 0;
    }
  }

  const std::vector<Slice>& slices_;
  size_t slice_ = 0;
  size_t offset_ = 0;
};

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_PAYLOAD_READER_H_
