// SPDX-License-Identifier: Apache-2.0
//
// The comparison can fail: each kind of fault is found, and correct states are accepted.
#include "bench/torture/store/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

namespace quire::torture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Operation = Event::Operation;
using Outcome = Event::Outcome;

constexpr SegmentId kSegment{.chain = 3, .index = 1};

struct Step {
  Operation operation;
  Outcome outcome;
};

History After(std::initializer_list<Step> steps) {
  History history;
  for (const Step& step : steps) {
    history.Apply({.segment = kSegment, .operation = step.operation, .outcome = step.outcome});
  }
  return history;
}

History::Totals Compared(std::initializer_list<Step> steps, Found found) {
  History history = After(steps);
  history.Compare(kSegment, found);
  return history.totals();
}

constexpr Step kPutStarts{Operation::kPut, Outcome::kStarted};
constexpr Step kPutDone{Operation::kPut, Outcome::kDone};
constexpr Step kPutExisted{Operation::kPut, Outcome::kExisted};
constexpr Step kPutRefused{Operation::kPut, Outcome::kRefused};
constexpr Step kPutFails{Operation::kPut, Outcome::kFailed};
constexpr Step kDeleteStarts{Operation::kDelete, Outcome::kStarted};
constexpr Step kDeleteDone{Operation::kDelete, Outcome::kDone};
constexpr Step kDeleteMissing{Operation::kDelete, Outcome::kMissing};

TEST(HistoryTest, AnAcknowledgedPutMustBeWhole) {
  EXPECT_TRUE(Compared({kPutStarts, kPutDone}, Found::kWhole).sound());
  EXPECT_EQ(Compared({kPutStarts, kPutDone}, Found::kMissing).lost, 1u);
  EXPECT_EQ(Compared({kPutStarts, kPutDone}, Found::kUnreadable).lost, 1u);
  EXPECT_EQ(Compared({kPutStarts, kPutDone}, Found::kWrong).corrupt, 1u);
  EXPECT_EQ(Compared({kPutStarts, kPutDone}, Found::kWhole).acknowledged, 1u);
}

TEST(HistoryTest, AnAcknowledgedDeleteStaysDeleted) {
  const auto found = [](Found how) {
    return Compared({kPutStarts, kPutDone, kDeleteStarts, kDeleteDone}, how);
  };
  EXPECT_TRUE(found(Found::kMissing).sound());
  EXPECT_EQ(found(Found::kWhole).appeared, 1u);
  EXPECT_EQ(found(Found::kUnreadable).appeared, 1u);
}

TEST(HistoryTest, NothingAppearsThatWasNeverPut) {
  EXPECT_TRUE(Compared({}, Found::kMissing).sound());
  EXPECT_EQ(Compared({}, Found::kWhole).appeared, 1u);
  EXPECT_EQ(After({kPutStarts, kPutExisted}).totals().appeared, 1u);
  EXPECT_EQ(After({kDeleteStarts, kDeleteDone}).totals().appeared, 1u);
  History history;
  history.CountStrangers(2);
  EXPECT_EQ(history.totals().appeared, 2u);
}

TEST(HistoryTest, WhatNeverEndedIsWholeOrMissing) {
  for (const auto& steps : {std::initializer_list<Step>{kPutStarts},
                            {kPutStarts, kPutDone, kDeleteStarts},
                            {kPutStarts, kPutFails}}) {
    EXPECT_TRUE(Compared(steps, Found::kWhole).sound());
    EXPECT_TRUE(Compared(steps, Found::kMissing).sound());
    EXPECT_EQ(Compared(steps, Found::kUnreadable).half, 1u);
    EXPECT_EQ(Compared(steps, Found::kWrong).corrupt, 1u);
  }
}

// The log may hold a change that the running store rolled back.
TEST(HistoryTest, ThatItIsMissingSettlesNothingAfterAFailure) {
  for (const Found found : {Found::kWhole, Found::kMissing}) {
    EXPECT_TRUE(Compared({kPutStarts, kPutFails, kDeleteStarts, kDeleteMissing}, found).sound());
  }
  EXPECT_EQ(Compared({kPutStarts, kPutFails, kPutStarts, kPutDone, kDeleteStarts, kDeleteDone},
                     Found::kWhole)
                .appeared,
            1u);
}

TEST(HistoryTest, ARefusedChangeLeavesThingsAsTheyWere) {
  EXPECT_EQ(Compared({kPutStarts, kPutRefused}, Found::kWhole).appeared, 1u);
  EXPECT_EQ(Compared({kPutStarts, kPutDone, kPutStarts, kPutRefused}, Found::kMissing).lost, 1u);
  EXPECT_EQ(After({kPutStarts, kPutRefused}).totals().refused, 1u);
}

TEST(HistoryTest, ALoadThatMissesWhatItPutFoundALoss) {
  EXPECT_EQ(After({kPutStarts, kPutDone, kDeleteStarts, kDeleteMissing}).totals().lost, 1u);
  EXPECT_EQ(After({kPutStarts, kPutDone, {Operation::kRead, Outcome::kMissing}}).totals().lost, 1u);
  EXPECT_EQ(After({{Operation::kRead, Outcome::kWrongBytes}}).totals().corrupt, 1u);
  EXPECT_TRUE(After({kDeleteStarts, kDeleteMissing}).totals().sound());
}

// A put that found the segment promises that it stays, whatever failed before.
TEST(HistoryTest, APutThatExistedSettlesAFailure) {
  const auto steps = {kPutStarts,    kPutDone,
                      kDeleteStarts, Step{Operation::kDelete, Outcome::kFailed},
                      kPutStarts,    kPutExisted};
  EXPECT_EQ(Compared(steps, Found::kMissing).lost, 1u);
  EXPECT_TRUE(Compared(steps, Found::kWhole).sound());
}

TEST(HistoryTest, WhatIsWrongIsToldWithItsHistoryOnce) {
  History history = After({kPutStarts, kPutDone, kPutStarts, kPutFails, kPutStarts, kPutExisted});
  history.Compare(kSegment, Found::kMissing, "NOT_FOUND: gone");
  EXPECT_THAT(
      history.TakeProblems(),
      ElementsAre("segment 1 of chain 3: lost (NOT_FOUND: gone) after put done, put failed, "
                  "put existed"));
  EXPECT_THAT(history.TakeProblems(), IsEmpty());
  history.Apply({.segment = kSegment, .operation = Operation::kDelete});
  history.Compare(kSegment, Found::kUnreadable, "DATA_LOSS: torn");
  EXPECT_THAT(history.TakeProblems(), ElementsAre(HasSubstr("half there (DATA_LOSS: torn)")));
}

TEST(HistoryTest, OfALongHistoryTheEndIsTold) {
  History history;
  for (int i = 0; i < 20; ++i) {
    for (const Step& step : {kPutStarts, kPutExisted, kDeleteStarts, kDeleteDone}) {
      history.Apply({.segment = kSegment, .operation = step.operation, .outcome = step.outcome});
    }
    (void)history.TakeProblems();
  }
  history.Compare(kSegment, Found::kWhole, "OK");
  EXPECT_THAT(
      history.TakeProblems(),
      ElementsAre("segment 1 of chain 3: appeared (OK) after ..., put existed, delete done, "
                  "put existed, delete done, put existed, delete done, put existed, "
                  "delete done"));
}

TEST(HistoryTest, AComparisonSettlesWhatWasOpen) {
  History history = After({kPutStarts});
  history.Compare(kSegment, Found::kWhole);
  history.Compare(kSegment, Found::kMissing);
  EXPECT_EQ(history.totals().lost, 1u);
}

}  // namespace
}  // namespace quire::torture
