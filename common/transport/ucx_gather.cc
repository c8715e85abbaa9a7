// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_gather.h"

#include <algorithm>
#include <new>

#include "common/base/unit_copy.h"

namespace quire {

size_t UcxGather::Pack(size_t offset, std::span<std::byte> out) {
  if (offset < part_begin_) part_ = part_begin_ = 0;
  size_t packed = 0;
  while (part_ < parts_.size() && packed < out.size()) {
    const std::span<const std::byte> part = parts_[part_];
    const auto left = part.subspan(std::min(offset + packed - part_begin_, part.size()));
    const auto piece = left.first(std::min(left.size(), out.size() - packed));
    const bool more = part_ + 1 < parts_.size();
    CopyFetchingAhead(piece, out.data() + packed, more ? parts_[part_ + 1].data() : nullptr);
    packed += piece.size();
    if (piece.size() < left.size()) break;
    part_begin_ += part.size();
    ++part_;
  }
  return packed;
}

ucp_datatype_t UcxGather::Type() {
  static const ucp_datatype_t type = [] {
    ucp_generic_dt_ops_t ops = {};
    ops.start_pack = [](void*, const void* buffer, size_t) { return const_cast<void*>(buffer); };
    ops.packed_size = [](void* gather) {
      return static_cast<const UcxGather*>(gather)->size_bytes();
    };
    ops.pack = [](void* gather, size_t offset, void* out, size_t bytes) {
      return static_cast<UcxGather*>(gather)->Pack(offset, {static_cast<std::byte*>(out), bytes});
    };
    ops.finish = [](void*) {};
    ucp_datatype_t made;
    if (ucp_dt_create_generic(&ops, nullptr, &made) != UCS_OK) throw std::bad_alloc();
    return made;
  }();
  return type;
}

}  // namespace quire
