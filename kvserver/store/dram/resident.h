// SPDX-License-Identifier: Apache-2.0
//
// Resident: an extent in its slot, with all that a reader needs. It is made once, when the extent
// is put, and filled before it is shared. A read copies its shared pointer, which is one addition
// (docs/design/0010-hand-out.md). The last reference frees the slot; a reader may hold it
// after the extent's eviction and the tier's destruction.
//
// Thread-safety: constant once shared. Its maker fills the bytes before.
#ifndef QUIRE_KVSERVER_STORE_DRAM_RESIDENT_H_
#define QUIRE_KVSERVER_STORE_DRAM_RESIDENT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/memory/checksum.h"
#include "kvserver/store/dram/arena.h"
#include "kvserver/store/extent_view.h"

namespace quire::kvserver {

class Resident {
 public:
  /// Takes over `slot` for an extent of the size and number of units of `extent`. Copies nothing.
  /// REQUIRES: `slot` is live and large enough; `tenant` outlives every call of tenant().
  Resident(std::shared_ptr<Arena> arena, const Arena::Slot& slot, const ExtentView& extent,
           std::string_view tenant)
      : begin_(arena->Bytes(slot).data()),
        unit_bytes_(extent.unit_bytes()),
        unit_crc32c_(std::make_unique<uint32_t[]>(extent.unit_crc32c.size())),
        tenant_(tenant),
        num_units_(static_cast<uint32_t>(extent.unit_crc32c.size())),
        codec_(extent.codec),
        listed_(extent.listed),
        slot_(slot),
        slot_bytes_(Arena::SlotBytes(extent.full_bytes)),
        arena_(std::move(arena)) {}
  ~Resident() { arena_->Free(slot_); }
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

  /// REQUIRES: `self` has the unit.
  static UnitBytes Unit(const std::shared_ptr<const Resident>& self, uint32_t unit) {
    const std::byte* const begin = self->begin_ + unit * self->unit_bytes_;
    return {Slice{.bytes = {begin, self->unit_bytes_}, .owner = self}, self->unit_crc32c_[unit],
            self->codec_};
  }

  /// Returns the whole extent, for use on the server; nullopt when a unit does not match its
  /// checksum.
  std::optional<std::span<const std::byte>> Verify() const {
    for (uint32_t unit = 0; unit < num_units_; ++unit) {
      const std::span<const std::byte> bytes(begin_ + unit * unit_bytes_, unit_bytes_);
      if (Crc32c(bytes) != unit_crc32c_[unit]) return std::nullopt;
    }
    return bytes_to_send();
  }

  uint32_t num_units() const { return num_units_; }
  std::string_view tenant() const { return tenant_; }
  uint64_t size_bytes() const { return num_units_ * unit_bytes_; }
  /// Returns the bytes unverified. The receiver verifies them.
  std::span<const std::byte> bytes_to_send() const { return {begin_, size_bytes()}; }
  /// Returns writable bytes, for its maker only, before it is shared.
  std::span<std::byte> mutable_bytes() { return {begin_, num_units_ * unit_bytes_}; }
  void SetChecksums(std::span<const uint32_t> unit_crc32c) {
    std::ranges::copy(unit_crc32c, unit_crc32c_.get());
  }
  const Arena::Slot& slot() const { return slot_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  /// As ExtentView::listed.
  bool listed() const { return listed_; }

 private:
  // Fields of the read path, together so that a read touches few cache lines.
  std::byte* const begin_;
  const uint64_t unit_bytes_;
  const std::unique_ptr<uint32_t[]> unit_crc32c_;
  const std::string_view tenant_;
  const uint32_t num_units_;
  const UnitCodec codec_;
  const bool listed_;

  const Arena::Slot slot_;
  const uint64_t slot_bytes_;
  const std::shared_ptr<Arena> arena_;
};

using ResidentPtr = std::shared_ptr<const Resident>;

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_DRAM_RESIDENT_H_
