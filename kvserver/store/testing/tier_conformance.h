// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of tiers (extent_view.h):
//   INSTANTIATE_TEST_SUITE_P(Dram, TierConformanceTest, ::testing::Values(MakeDramHarness));
#ifndef QUIRE_KVSERVER_STORE_TESTING_TIER_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_TESTING_TIER_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/memory/checksum.h"
#include "kvserver/store/extent_view.h"
#include "kvserver/store/testing/owned_extent.h"
#include "tests/kit/same_bytes.h"

namespace quire::kvserver::testing {

/// A tier and its backend.
class TierHarness {
 public:
  virtual ~TierHarness() = default;
  /// Puts all of the extents, or none.
  virtual Status Put(std::span<const ExtentView> extents) = 0;
  virtual StatusOr<UnitBytes> ReadUnit(const ExtentId& id, uint32_t unit) = 0;
  virtual Status Erase(const SegmentKey& segment) = 0;
};
using MakeTierHarness = std::unique_ptr<TierHarness> (*)();

class TierConformanceTest : public ::testing::TestWithParam<MakeTierHarness> {
 protected:
  TierHarness& tier() { return *harness_; }
  bool Has(const ExtentId& id) { return tier().ReadUnit(id, 0).ok(); }
  Status PutOne(const OwnedExtent& extent) {
    const ExtentView view = extent.view();
    return tier().Put({&view, 1});
  }
  /// Reads every unit and compares it.
  void ExpectHeld(const OwnedExtent& extent) {
    for (uint32_t unit = 0; unit < extent.crcs.size(); ++unit) {
      const auto read = tier().ReadUnit(extent.id, unit);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(quire::testing::SameBytes(read->ToSend().slice.bytes, extent.Unit(unit)))
          << "unit " << unit;
      EXPECT_EQ(read->crc32c(), extent.crcs[unit]);
    }
  }

 private:
  std::unique_ptr<TierHarness> harness_ = GetParam()();
};

TEST_P(TierConformanceTest, ReadsBackWhatWasPutUnitByUnit) {
  for (const uint64_t unit_bytes : {1, 63, 128, 4096, 16384}) {
    for (const uint32_t units : {1, 2, 7}) {
      const OwnedExtent extent(unit_bytes * 100 + units, 3, units, unit_bytes);
      ASSERT_TRUE(PutOne(extent).ok());
      ExpectHeld(extent);
    }
  }
}

TEST_P(TierConformanceTest, WhatIsNotHeldIsNotFound) {
  const OwnedExtent extent(1, 0, 2, 64);
  ASSERT_TRUE(PutOne(extent).ok());
  EXPECT_EQ(tier().ReadUnit({extent.id.segment, 1}, 0).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(tier().ReadUnit(extent.id, 2).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(tier().ReadUnit({OwnedExtent::SegmentNumber(2), 0}, 0).status().code(),
            StatusCode::kNotFound);
}

TEST_P(TierConformanceTest, PutsSeveralExtentsAtOnce) {
  const OwnedExtent a(1, 0, 2, 64), b(1, 1, 2, 64), c(2, 0, 1, 64);
  const std::vector<ExtentView> views = {a.view(), b.view(), c.view()};
  ASSERT_TRUE(tier().Put(views).ok());
  for (const OwnedExtent* extent : {&a, &b, &c}) ExpectHeld(*extent);
}

TEST_P(TierConformanceTest, APutReplacesAnExtent) {
  const OwnedExtent before(1, 0, 2, 64, 1), after(1, 0, 2, 64, 2);
  ASSERT_TRUE(PutOne(before).ok());
  ASSERT_TRUE(PutOne(after).ok());
  ExpectHeld(after);
}

TEST_P(TierConformanceTest, EraseForgetsEveryExtentOfTheSegmentAndNoOther) {
  const OwnedExtent a(1, 0, 2, 64), b(1, 5, 2, 64), other(2, 0, 2, 64);
  for (const OwnedExtent* extent : {&a, &b, &other}) ASSERT_TRUE(PutOne(*extent).ok());
  ASSERT_TRUE(tier().Erase(a.id.segment).ok());
  EXPECT_FALSE(Has(a.id));
  EXPECT_FALSE(Has(b.id));
  EXPECT_EQ(tier().ReadUnit(a.id, 0).status().code(), StatusCode::kNotFound);
  ExpectHeld(other);
  EXPECT_TRUE(tier().Erase(a.id.segment).ok()) << "erasing what is not there is no error";
  ASSERT_TRUE(PutOne(a).ok()) << "an erased extent can be put again";
  ExpectHeld(a);
}

TEST_P(TierConformanceTest, AReadersBytesOutliveReplacementAndErase) {
  const OwnedExtent before(1, 0, 2, 4096, 1), after(1, 0, 2, 4096, 2);
  ASSERT_TRUE(PutOne(before).ok());
  const auto held = tier().ReadUnit(before.id, 1);
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(PutOne(after).ok());
  ASSERT_TRUE(tier().Erase(before.id.segment).ok());
  for (uint64_t other = 10; other < 20; ++other) ASSERT_TRUE(PutOne({other, 0, 2, 4096}).ok());
  EXPECT_TRUE(quire::testing::SameBytes(held->ToSend().slice.bytes, before.Unit(1)));
}

TEST_P(TierConformanceTest, ConcurrentReadersSeeWholeExtentsOrNone) {
  const OwnedExtent odd(1, 0, 4, 256, 1), even(1, 0, 4, 256, 2);
  ASSERT_TRUE(PutOne(odd).ok());
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(PutOne(i % 2 == 0 ? even : odd).ok());
      if (i % 10 == 0) {
        EXPECT_TRUE(tier().Erase(odd.id.segment).ok());
      }
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const auto read = tier().ReadUnit(odd.id, static_cast<uint32_t>(i % 4));
    if (!read.ok()) {
      EXPECT_EQ(read.status().code(), StatusCode::kNotFound);
      continue;
    }
    EXPECT_EQ(Crc32c(read->ToSend().slice.bytes), read->crc32c());
  }
  writer.join();
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_TESTING_TIER_CONFORMANCE_H_
