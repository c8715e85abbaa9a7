// SPDX-License-Identifier: Apache-2.0
//
// Resident: an extent in its slot, and all that a reader needs to hand out units of it. It is made
// once, when the extent is put; a hand-out is a copy of its shared pointer, that is, one addition
// (docs/design/0008-hand-out.md). The slot goes back to the arena with the last reference, which
// may be a reader's, after the extent was evicted and the tier destroyed.
//
// Thread-safety: constant once it is shared; whoever made it fills `bytes` before.
#ifndef QUIRE_KVSERVER_STORE_RESIDENT_H_
#define QUIRE_KVSERVER_STORE_RESIDENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvserver/store/arena.h"
#include "kvserver/store/tier.h"

namespace quire::kvserver {

struct Resident {
  Resident(std::shared_ptr<Arena> in, const Arena::Slot& at, const ExtentView& extent)
      : arena(std::move(in)),
        slot(at),
        bytes(arena->Bytes(at).first(extent.bytes.size())),
        slot_bytes(Arena::SlotBytes(extent.full_bytes)),
        unit_bytes(extent.unit_bytes()),
        unit_crc32c(extent.unit_crc32c.begin(), extent.unit_crc32c.end()),
        encoded(extent.encoded),
        tenant(extent.tenant) {}
  ~Resident() { arena->Free(slot); }
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;

  /// REQUIRES: `self` owns a Resident that has the unit.
  static UnitBytes Unit(const std::shared_ptr<const Resident>& self, uint32_t unit) {
    const std::span<const std::byte> bytes = self->bytes;
    return {
        .slice = {.bytes = bytes.subspan(unit * self->unit_bytes, self->unit_bytes), .owner = self},
        .crc32c = self->unit_crc32c[unit],
        .encoded = self->encoded};
  }

  const std::shared_ptr<Arena> arena;
  const Arena::Slot slot;
  const std::span<std::byte> bytes;
  const uint64_t slot_bytes;
  const uint64_t unit_bytes;
  const std::vector<uint32_t> unit_crc32c;
  const bool encoded;
  const std::string tenant;
};

using ResidentPtr = std::shared_ptr<const Resident>;

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_RESIDENT_H_
