// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/metadata/segment_catalog.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/kit/temp_dir.h"

namespace quire::kvserver {
namespace {

std::shared_ptr<const SegmentRecord> RecordOf(uint64_t incarnation) {
  SegmentRecord record;
  record.tenant = "default";
  record.incarnation = incarnation;
  return std::make_shared<const SegmentRecord>(record);
}

// Promise 1: the first bytes stand. A reader that started before a damaged segment was replaced
// finds bytes that do not match its record. The new ones are not damaged by that.
TEST(SegmentCatalogTest, WhatReplacedDamagedBytesIsNotMarkedByWhoReadTheOldOnes) {
  quire::testing::TempDir dir;
  const auto database = Database::Open({.path = dir.path()}).value();
  SegmentCatalog catalog(database.get(), 1 << 20);
  SegmentKey key;
  key.bytes[0] = 1;
  const auto before = RecordOf(4), after = RecordOf(5);
  catalog.Remember(key, before);
  catalog.MarkDamaged(key, *before);
  EXPECT_TRUE(catalog.IsDamaged(key));
  catalog.Remember(key, after);
  EXPECT_FALSE(catalog.IsDamaged(key));
  catalog.MarkDamaged(key, *before);
  EXPECT_FALSE(catalog.IsDamaged(key)) << "its bytes have gone";
  catalog.MarkDamaged(key, *after);
  EXPECT_TRUE(catalog.IsDamaged(key));
}

}  // namespace
}  // namespace quire::kvserver
