// SPDX-License-Identifier: Apache-2.0
//
// Silent damage in memory, as by a cosmic ray or a bad module.
#ifndef QUIRE_KVSERVER_STORE_TESTING_MEMORY_DAMAGE_H_
#define QUIRE_KVSERVER_STORE_TESTING_MEMORY_DAMAGE_H_

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver::testing {

/// Flips one bit in the middle of `bytes`. REQUIRES: they are in writable memory.
inline void FlipBit(std::span<const std::byte> bytes) {
  *const_cast<std::byte*>(bytes.data() + bytes.size() / 2) ^= std::byte{0x20};
}

/// Flips a bit of a unit in the arena.
inline void FlipBit(DramTier& dram, const ExtentId& id, uint32_t unit) {
  const StatusOr<UnitBytes> held = dram.ReadUnit(id, unit);
  ASSERT_TRUE(held.ok()) << held.status();
  FlipBit(held->ToSend().slice.bytes);
}

/// As above, of a unit that the store returns in place: one in DRAM that is not encoded.
inline void FlipBit(PageStore& store, std::string_view tenant, const UnitAddress& address) {
  std::vector<UnitBytes> units;
  ASSERT_TRUE(store.ReadUnits(tenant, {&address, 1}, &units).ok());
  FlipBit(units.front().ToSend().slice.bytes);
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_MEMORY_DAMAGE_H_
