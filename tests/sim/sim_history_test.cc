// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TimePoint At(int64_t seconds) { return TimePoint(std::chrono::seconds(seconds)); }

SegmentKey Tip(uint8_t number) {
  SegmentKey key;
  key.bytes[0] = number;
  return key;
}

class SimHistoryTest : public ::testing::Test {
 protected:
  void Registered(uint64_t version, uint8_t tip, int64_t from, int64_t to) {
    history_.EndRegister(history_.BeginRegister("a", Tip(tip), At(from)), version, At(to));
  }
  void Deleted(uint64_t version, int64_t from, int64_t to) {
    history_.EndDelete(history_.BeginDelete("a", version, At(from)), At(to));
  }
  /// Adds a version to what is agreed in the end.
  void Agreed(uint64_t version, uint8_t tip) {
    AgreedName& name = agreed_["a"];
    name.highest = version;
    name.versions.push_back({.name = {.name = "a", .version = version}, .chain_tip = Tip(tip)});
  }
  const std::vector<std::string>& Broken() {
    history_.CheckEnd(agreed_);
    return history_.broken();
  }
  SimHistory history_;
  std::map<std::string, AgreedName> agreed_;
};

TEST_F(SimHistoryTest, WhatWasAcknowledgedIsThereAndWhatWasDeletedIsNot) {
  Registered(1, 1, 0, 1);
  Registered(2, 2, 2, 3);
  Deleted(1, 4, 5);
  Agreed(2, 2);
  EXPECT_TRUE(history_.MustExist("a", 2, Tip(2)));
  EXPECT_FALSE(history_.MustExist("a", 1, Tip(1)));
  EXPECT_THAT(Broken(), IsEmpty());
}

TEST_F(SimHistoryTest, AnAcknowledgedVersionMustNotBeGone) {
  Registered(1, 1, 0, 1);
  EXPECT_THAT(Broken(), ElementsAre(HasSubstr("a@1 is gone")));
}

TEST_F(SimHistoryTest, AnAcknowledgedVersionMustHaveItsChain) {
  Registered(1, 1, 0, 1);
  Agreed(1, 9);
  EXPECT_THAT(Broken(), ElementsAre(HasSubstr("a@1 is gone")));
}

TEST_F(SimHistoryTest, ADeletedVersionMustNotComeBack) {
  Registered(1, 1, 0, 1);
  Deleted(0, 2, 3);
  Agreed(1, 1);
  EXPECT_THAT(Broken(), ElementsAre(HasSubstr("was deleted, and is back")));
}

TEST_F(SimHistoryTest, AVersionNamesOneChain) {
  Registered(1, 1, 0, 1);
  Registered(1, 2, 2, 3);
  Agreed(1, 2);
  EXPECT_THAT(Broken(), ElementsAre(HasSubstr("two chains"), HasSubstr("is gone")));
}

TEST_F(SimHistoryTest, VersionsGrow) {
  Registered(5, 1, 0, 1);
  Registered(4, 2, 2, 3);
  Agreed(4, 2);
  Agreed(5, 1);
  EXPECT_THAT(Broken(), ElementsAre(HasSubstr("a@4 was acknowledged after a@5")));
}

TEST_F(SimHistoryTest, ANameThatWasDeletedBeginsAnew) {
  Registered(2, 1, 0, 1);
  Deleted(0, 2, 3);
  Registered(1, 2, 4, 5);
  Agreed(1, 2);
  EXPECT_THAT(Broken(), IsEmpty());
}

TEST_F(SimHistoryTest, ANameMayBeginAnewWhileARegistrationRuns) {
  const size_t slow = history_.BeginRegister("a", Tip(1), At(0));
  Registered(1, 2, 1, 2);
  Deleted(1, 3, 4);
  history_.EndRegister(slow, 1, At(5));
  Agreed(1, 1);
  EXPECT_THAT(Broken(), IsEmpty());
}

TEST_F(SimHistoryTest, ACallWithoutAnAnswerMayHaveDoneItOrNot) {
  (void)history_.BeginRegister("a", Tip(1), At(0));
  Registered(2, 2, 1, 2);
  (void)history_.BeginDelete("a", 2, At(3));
  EXPECT_THAT(Broken(), IsEmpty());
  Agreed(1, 1);
  Agreed(2, 2);
  EXPECT_THAT(Broken(), IsEmpty());
}

TEST_F(SimHistoryTest, ReadsFindWhatWasRegistered) {
  Registered(1, 1, 0, 1);
  history_.Found("a", 1, Tip(1));
  EXPECT_THAT(history_.broken(), IsEmpty());
  history_.NotFound("a", 1, At(0));  // It began before the acknowledgement.
  EXPECT_THAT(history_.broken(), IsEmpty());
  history_.NotFound("a", 1, At(2));
  history_.Found("a", 1, Tip(3));
  EXPECT_THAT(history_.broken(),
              ElementsAre(HasSubstr("there is no a@1"), HasSubstr("never registered")));
}

}  // namespace
}  // namespace quire::sim
