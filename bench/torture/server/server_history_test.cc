// SPDX-License-Identifier: Apache-2.0
//
// The comparison after a power failure or a crash can fail: each kind of fault is found, and
// correct states are accepted.
#include "bench/torture/server/server_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::torture {
namespace {

using ::testing::ElementsAre;

constexpr SegmentId kPut{.chain = 3, .index = 1};

constexpr uint32_t kChain = kPut.chain;
constexpr int64_t kNoExpiry = ServerEvent::kNever;

class ServerHistoryTest : public ::testing::Test {
 protected:
  using Kind = ServerEvent::Kind;
  /// Applies an event of the segment, or of the document of its chain.
  void Tell(Kind kind, bool ok = true, bool flag = false, int64_t micros = kNoExpiry) {
    history_.Apply({.kind = kind, .ok = ok, .flag = flag, .segment = kPut, .micros = micros});
  }
  void Put(bool persisted) {
    Tell(Kind::kPutStarts);
    Tell(Kind::kPutEnds, /*ok=*/true, persisted);
  }
  void Delete(bool held = false) {
    Tell(Kind::kDeleteStarts);
    Tell(Kind::kDeleteEnds, /*ok=*/true, held);
  }
  void Register(int64_t expires = kNoExpiry) {
    Tell(Kind::kRegisterStarts, true, false, expires);
    Tell(Kind::kRegisterEnds, true, /*existed=*/false, expires);
  }
  void Unregister() {
    Tell(Kind::kUnregisterStarts);
    Tell(Kind::kUnregisterEnds);
  }
  void Pin() {
    Tell(Kind::kPinStarts);
    Tell(Kind::kPinEnds);
  }
  void Read(Found found) { history_.Apply({.kind = Kind::kRead, .found = found, .segment = kPut}); }
  ServerHistory::Totals Compared(Found found) {
    history_.Compare(kPut, found, "");
    return history_.totals();
  }
  ServerHistory::Totals DocumentCompared(bool found, int64_t expires = kNoExpiry) {
    history_.CompareDocument(kChain, found, expires, "");
    return history_.totals();
  }
  ServerHistory::Totals PinCompared(bool found) {
    history_.ComparePin(kChain, found);
    return history_.totals();
  }
  ServerHistory history_;
};

TEST_F(ServerHistoryTest, WhatWasPersistedMustBeWhole) {
  Put(true);
  EXPECT_TRUE(Compared(Found::kWhole).sound());
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u) << "also after the next failure";
}

TEST_F(ServerHistoryTest, WhatWasPersistedAndCannotBeReadIsLost) {
  Put(true);
  EXPECT_EQ(Compared(Found::kUnreadable).lost, 1u);
}

TEST_F(ServerHistoryTest, WhatWasPutInMemoryMayBeGoneAndIsNeverHalfThere) {
  Put(false);
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  Put(false);
  EXPECT_TRUE(Compared(Found::kWhole).sound());
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  Put(false);
  EXPECT_EQ(Compared(Found::kUnreadable).half, 1u);
}

TEST_F(ServerHistoryTest, APutInMemoryOfWhatWasPersistedTakesNothingBack) {
  Put(true);
  Put(false);
  Tell(Kind::kPutStarts);
  Tell(Kind::kPutEnds, /*ok=*/false);
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u);
}

TEST_F(ServerHistoryTest, ADeletedSegmentMayComeBackAndIsWholeThen) {
  Put(true);
  Delete();
  EXPECT_TRUE(Compared(Found::kWhole).sound());
  Put(true);
  Delete();
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  EXPECT_EQ(Compared(Found::kWhole).appeared, 1u) << "nobody put it since";
}

TEST_F(ServerHistoryTest, ADeleteThatStartedMayHaveHappened) {
  Put(true);
  Tell(Kind::kDeleteStarts);
  EXPECT_TRUE(Compared(Found::kMissing).sound());
}

TEST_F(ServerHistoryTest, OtherBytesAreAlwaysWrong) {
  EXPECT_EQ(Compared(Found::kWrong).corrupt, 1u);
}

TEST_F(ServerHistoryTest, WhileThePowerIsOnWhatWasPutCanBeRead) {
  Put(false);
  Read(Found::kWhole);
  EXPECT_TRUE(history_.totals().sound());
  Read(Found::kUnreadable);
  EXPECT_EQ(history_.totals().lost, 1u);
  Delete();
  Read(Found::kWhole);
  EXPECT_EQ(history_.totals().appeared, 1u);
}

TEST_F(ServerHistoryTest, ADocumentIsThereOnceItIsRegisteredAndGoneOnceItIsDeleted) {
  Tell(Kind::kRegisterStarts);
  DocumentCompared(true);
  Tell(Kind::kUnregisterStarts);
  DocumentCompared(false);
  Register();
  EXPECT_TRUE(history_.totals().sound());
  EXPECT_EQ(DocumentCompared(false).lost, 1u);
  Register();
  Unregister();
  EXPECT_EQ(DocumentCompared(true).appeared, 1u);
}

TEST_F(ServerHistoryTest, WhatIsRegisteredIsReadWhileThePowerIsOnAndNoMoreDurableThanItsPut) {
  history_.StartAfresh({.evicts = true});
  Put(false);
  Register();
  Read(Found::kMissing);
  EXPECT_EQ(history_.totals().lost, 1u);
  DocumentCompared(true);
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u) << "its put was in memory";
}

TEST_F(ServerHistoryTest, WhatIsPersistedKeepsWhatItContinues) {
  Put(false);
  history_.Apply({.kind = Kind::kPutEnds, .ok = true, .flag = true, .segment = {kChain, 2}});
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u);
}

TEST_F(ServerHistoryTest, ADocumentThatIsDeletedMayTakeItsSegmentsAlong) {
  Put(true);
  Tell(Kind::kUnregisterStarts);
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  Put(true);
  Tell(Kind::kUnregisterStarts, true, /*keeps_segments=*/true);
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u);
}

TEST_F(ServerHistoryTest, ADocumentIsThereUntilItExpiresAndGoneFromThenOn) {
  Register(/*expires=*/100);
  Put(true);
  Tell(Kind::kTimeIs, true, false, 99);
  EXPECT_TRUE(DocumentCompared(true, 100).sound());
  Tell(Kind::kTimeIs, true, false, 100);
  Put(true);
  EXPECT_TRUE(DocumentCompared(false).sound());
  EXPECT_TRUE(Compared(Found::kMissing).sound()) << "its document may have taken it along";
  EXPECT_EQ(DocumentCompared(true, 100).appeared, 1u);
}

TEST_F(ServerHistoryTest, WhatIsPutAfterAnExpiryWasDoneStays) {
  Register(/*expires=*/100);
  Tell(Kind::kTimeIs, true, false, 100);
  Tell(Kind::kExpiredRemoved);
  Put(true);
  DocumentCompared(false);
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u);
}

TEST_F(ServerHistoryTest, APinThatWasAcknowledgedHoldsAndOneThatWasTakenBackDoesNot) {
  Register();
  Tell(Kind::kPinStarts);
  DocumentCompared(true);
  EXPECT_TRUE(PinCompared(false).sound()) << "it was in flight";
  Pin();
  DocumentCompared(true);
  EXPECT_EQ(PinCompared(true).pins_kept, 1u);
  EXPECT_EQ(PinCompared(false).lost, 1u);
  Tell(Kind::kUnpinStarts);
  Tell(Kind::kUnpinEnds);
  EXPECT_EQ(PinCompared(true).appeared, 1u);
}

TEST_F(ServerHistoryTest, APinGoesWithItsDocumentAndANewOneHasNone) {
  Register();
  Pin();
  Unregister();
  Tell(Kind::kRegisterStarts);
  Tell(Kind::kRegisterEnds);
  DocumentCompared(true);
  EXPECT_EQ(PinCompared(true).appeared, 1u);
  Unregister();
  DocumentCompared(false);
  EXPECT_EQ(PinCompared(true).appeared, 2u);
}

TEST_F(ServerHistoryTest, WhereThereIsALimitOnlyWhatIsNamedMustBeThere) {
  history_.StartAfresh({.evicts = true});
  Put(true);
  Read(Found::kMissing);
  EXPECT_TRUE(Compared(Found::kMissing).sound());
  Put(true);
  Register();
  Read(Found::kMissing);
  EXPECT_EQ(history_.totals().lost, 1u);
  DocumentCompared(true);
  EXPECT_EQ(Compared(Found::kMissing).lost, 2u);
}

TEST_F(ServerHistoryTest, WhatMayHaveBeenEvictedIsAsDurableAsItsLastPut) {
  history_.StartAfresh({.evicts = true});
  Put(true);
  Put(false);
  Register();
  EXPECT_TRUE(Compared(Found::kMissing).sound());
}

TEST_F(ServerHistoryTest, ACrashTakesNothingAlongAndUndoesNothing) {
  history_.StartAfresh({.keeps_everything = true});
  Put(false);
  EXPECT_EQ(Compared(Found::kMissing).lost, 1u);
  Put(false);
  Delete();
  EXPECT_EQ(Compared(Found::kWhole).appeared, 1u);
  Delete(/*held=*/true);
  EXPECT_TRUE(Compared(Found::kMissing).appeared == 1u);
}

TEST_F(ServerHistoryTest, WhatIsWrongIsToldWithItsHistory) {
  Put(true);
  history_.Compare(kPut, Found::kMissing, "NOT_FOUND: gone");
  EXPECT_THAT(history_.TakeProblems(),
              ElementsAre("segment 1 of chain 3 lost (NOT_FOUND: gone) after put, persisted"));
  EXPECT_TRUE(history_.TakeProblems().empty());
}

}  // namespace
}  // namespace quire::torture
