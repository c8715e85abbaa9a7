// SPDX-License-Identifier: Apache-2.0
//
// UcxGather: the parts of a message. Many small ones are copied into UCX's send buffer by this
// program: UCX would copy one part after the other as well, but does not fetch the next one
// meanwhile, and scattered units are never in the cache. Few large ones can be sent from where they
// lie, without that copy. Parts are memory of the processor. Ownership: nobody's; the bytes, and
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

  /// UCX sends as many parts at most from where they lie: 16 pieces, two of which are its own.
  static constexpr size_t kMaxPartsInPlace = 14;
  /// Smaller parts are cheaper to copy.
  static constexpr size_t kPartBytesInPlace = 64 << 10;
  /// Whether the parts are so few and, on average, so large that they had better be sent from where
  /// they lie.
  bool FewAndLarge() const {
    return parts_.size() > 1 && parts_.size() <= kMaxPartsInPlace &&
           size_bytes_ >= parts_.size() * kPartBytesInPlace;
  }
  /// Has them sent so. UCX's settings must allow it (UcxSettings::in_place).
  void SendInPlace() {
    for (const auto part : parts_) {
      pieces_.push_back({const_cast<std::byte*>(part.data()), part.size()});
    }
  }
  /// The parts for UCX, when SendInPlace was called.
  std::span<const ucp_dt_iov_t> pieces() const { return pieces_; }

  /// Copies the bytes from `offset` on to `out`, as many as it has room for, and tells how many.
  /// UCX asks for them in order; it may begin again.
  size_t Pack(size_t offset, std::span<std::byte> out);
  /// How UCX packs a message whose buffer is a UcxGather and whose count is 1. There is one in the
  /// process.
  static ucp_datatype_t Type();

 private:
  std::vector<std::span<const std::byte>> parts_;
  size_t size_bytes_ = 0;
  std::vector<ucp_dt_iov_t> pieces_;
  // Where the last call has stopped.
  size_t part_ = 0;
  size_t part_begin_ = 0;  ///< Bytes before that part.
};

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_GATHER_H_
