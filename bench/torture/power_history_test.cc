// SPDX-License-Identifier: Apache-2.0
//
// The comparison after a power failure can fail: each kind of wrong is found, and what is right is
// not.
#include "bench/torture/power_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::torture {
namespace {

using ::testing::ElementsAre;

constexpr SegmentId kPut{.chain = 3, .index = 1};

class PowerHistoryTest : public ::testing::Test {
 protected:
  void Put(bool persisted) {
    history_.PutStarts(kPut);
    history_.PutEnds(kPut, /*ok=*/true, persisted);
  }
  void Delete() {
    history_.DeleteStarts(kPut);
    history_.DeleteEnds(kPut, /*ok=*/true, /*missing=*/false);
  }
  PowerHistory::Totals Compared(Found found) {
    history_.Compare(kPut, found, "");
    return history_.totals();
  }
  PowerHistory history_;
};

TEST_F(PowerHistoryTest, WhatWasPersistedMustBeWhole) {
  Put(true);
  EXPECT_TRUE(Compared(Found::kWhole).sound());
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u) << "also after the next failure";
}

TEST_F(PowerHistoryTest, WhatWasPersistedAndCannotBeReadIsLost) {
  Put(true);
  EXPECT_EQ(Compared(Found::kUnreadable).lost, 1u);
}

TEST_F(PowerHistoryTest, WhatWasPutInMemoryMayBeGoneAndIsNeverHalfThere) {
  Put(false);
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  Put(false);
  EXPECT_TRUE(Compared(Found::kWhole).sound());
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  Put(false);
  EXPECT_EQ(Compared(Found::kUnreadable).half, 1u);
}

TEST_F(PowerHistoryTest, APutInMemoryOfWhatWasPersistedTakesNothingBack) {
  Put(true);
  Put(false);
  history_.PutStarts(kPut);
  history_.PutEnds(kPut, /*ok=*/false, /*persisted=*/false);
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u);
}

TEST_F(PowerHistoryTest, ADeletedSegmentMayComeBackAndIsWholeThen) {
  Put(true);
  Delete();
  EXPECT_TRUE(Compared(Found::kWhole).sound());
  Put(true);
  Delete();
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  EXPECT_EQ(Compared(Found::kWhole).appeared, 1u) << "nobody put it since";
}

TEST_F(PowerHistoryTest, ADeleteThatStartedMayHaveHappened) {
  Put(true);
  history_.DeleteStarts(kPut);
  EXPECT_TRUE(Compared(Found::kMissing).sound());
}

TEST_F(PowerHistoryTest, OtherBytesAreAlwaysWrong) {
  EXPECT_EQ(Compared(Found::kWrong).corrupt, 1u);
}

TEST_F(PowerHistoryTest, WhileThePowerIsOnWhatWasPutCanBeRead) {
  Put(false);
  history_.WasRead(kPut, Found::kWhole, "");
  EXPECT_TRUE(history_.totals().sound());
  history_.WasRead(kPut, Found::kUnreadable, "");
  EXPECT_EQ(history_.totals().lost, 1u);
  Delete();
  history_.WasRead(kPut, Found::kWhole, "");
  EXPECT_EQ(history_.totals().appeared, 1u);
}

TEST_F(PowerHistoryTest, ADocumentIsThereOnceItIsRegisteredAndGoneOnceItIsDeleted) {
  history_.RegisterStarts(3);
  history_.CompareDocument(3, true, "");
  history_.UnregisterStarts(3, 1);
  history_.CompareDocument(3, false, "");
  history_.RegisterStarts(3);
  history_.RegisterEnds(3, true);
  EXPECT_TRUE(history_.totals().sound());
  history_.CompareDocument(3, false, "");
  EXPECT_EQ(history_.totals().lost, 1u);
  history_.RegisterStarts(3);
  history_.RegisterEnds(3, true);
  history_.UnregisterStarts(3, 1);
  history_.UnregisterEnds(3, true);
  history_.CompareDocument(3, true, "");
  EXPECT_EQ(history_.totals().appeared, 1u);
}

TEST_F(PowerHistoryTest, ADocumentThatIsDeletedMayTakeItsSegmentsAlong) {
  Put(true);
  history_.UnregisterStarts(kPut.chain, 2);
  EXPECT_TRUE(Compared(Found::kMissing).sound());
}

TEST_F(PowerHistoryTest, WhatIsWrongIsToldWithItsHistory) {
  Put(true);
  history_.Compare(kPut, Found::kMissing, "NOT_FOUND: gone");
  EXPECT_THAT(history_.TakeProblems(),
              ElementsAre("segment 1 of chain 3 lost (NOT_FOUND: gone) after put, persisted"));
  EXPECT_TRUE(history_.TakeProblems().empty());
}

}  // namespace
}  // namespace quire::torture
