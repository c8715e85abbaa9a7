// SPDX-License-Identifier: Apache-2.0
//
// Damage in memory, as a cosmic ray or a bad module makes it: behind everybody's back.
#ifndef QUIRE_KVSERVER_STORE_TESTING_MEMORY_DAMAGE_H_
#define QUIRE_KVSERVER_STORE_TESTING_MEMORY_DAMAGE_H_

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver::testing {

/// Flips one bit in the middle of `bytes`. REQUIRES: they lie in memory that can be written.
inline void FlipBit(std::span<const std::byte> bytes) {
  *const_cast<std::byte*>(bytes.data() + bytes.size() / 2) ^= std::byte{0x20};
}

/// Flips a bit of a unit where it lies in the arena.
inline void FlipBit(DramTier& dram, const ExtentId& id, uint32_t unit) {
  const StatusOr<UnitBytes> held = dram.ReadUnit(id, unit);
  ASSERT_TRUE(held.ok()) << held.status();
  FlipBit(held->ToSend().slice.bytes);
}

/// The same of a unit that the store hands out in place: one in DRAM that is not encoded.
inline void FlipBit(PageStore& store, std::string_view tenant, const UnitAddress& address) {
  std::vector<UnitBytes> units;
  ASSERT_TRUE(store.ReadUnits(tenant, {&address, 1}, &units).ok());
  FlipBit(units.front().ToSend().slice.bytes);
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_MEMORY_DAMAGE_H_
