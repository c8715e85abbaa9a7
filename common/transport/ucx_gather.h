// SPDX-License-Identifier: Apache-2.0
//
// UcxGather: the parts of a message, copied into UCX's send buffer by this program. UCX would copy
// one part after the other as well, but does not fetch the next one meanwhile, and scattered units
// are never in the cache. Parts are memory of the processor. Ownership: nobody's; the bytes, and
// this, stay until UCX is done. Thread-safety: of the worker's thread alone.
#ifndef QUIRE_COMMON_TRANSPORT_UCX_GATHER_H_
#define QUIRE_COMMON_TRANSPORT_UCX_GATHER_H_

#include <ucp/api/ucp.h>

#include <cstddef>
#include <span>
#include <vector>

namespace quire {

class UcxGather {
 public:
  void Reserve(size_t parts) { parts_.reserve(parts); }
  void Append(std::span<const std::byte> bytes) {
    if (!bytes.empty()) parts_.push_back(bytes);
    size_bytes_ += bytes.size();
  }
  const std::vector<std::span<const std::byte>>& parts() const { return parts_; }
  size_t size_bytes() const { return size_bytes_; }

  /// Copies the bytes from `offset` on to `out`, as many as it has room for, and tells how many.
  /// UCX asks for them in order; it may begin again.
  size_t Pack(size_t offset, std::span<std::byte> out);
  /// How UCX packs a message whose buffer is a UcxGather and whose count is 1. There is one in the
  /// process.
  static ucp_datatype_t Type();

 private:
  std::vector<std::span<const std::byte>> parts_;
  size_t size_bytes_ = 0;
  // Where the last call has stopped.
  size_t part_ = 0;
  size_t part_begin_ = 0;  ///< Bytes before that part.
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_GATHER_H_
