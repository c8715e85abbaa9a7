// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/history.h"

namespace quire::torture {

void History::Apply(const Event& event) {
  Entry& entry = entries_[event.segment];
  const bool changes = event.operation != Event::Operation::kRead;
  if (changes) entry.running = event.outcome == Event::Outcome::kStarted;
  switch (event.outcome) {
    case Event::Outcome::kStarted:
      return;
    case Event::Outcome::kDone:
    case Event::Outcome::kExisted:
      if (changes) Acknowledge(event, &entry, &totals_);
      return;
    case Event::Outcome::kMissing:
      if (entry.state == State::kThere) ++totals_.lost;
      if (entry.state != State::kEither) entry.state = State::kMissing;
      return;
    case Event::Outcome::kRefused:
      ++totals_.refused;
      return;
    case Event::Outcome::kFailed:
      ++totals_.refused;
      if (changes) entry.state = State::kEither;
      return;
    case Event::Outcome::kWrongBytes:
      ++totals_.corrupt;
      return;
  }
}

void History::Acknowledge(const Event& event, Entry* entry, Totals* totals) {
  ++totals->acknowledged;
  const bool is_put = event.operation == Event::Operation::kPut;
  const bool was_there = !is_put || event.outcome == Event::Outcome::kExisted;
  if (was_there && entry->state == State::kMissing) ++totals->appeared;
  entry->state = is_put ? State::kThere : State::kMissing;
}

void History::Compare(SegmentId segment, Found found) {
  Entry& entry = entries_[segment];
  const State expected = entry.running ? State::kEither : entry.state;
  entry.running = false;
  switch (found) {
    case Found::kWhole:
      if (expected == State::kMissing) ++totals_.appeared;
      break;
    case Found::kMissing:
      if (expected == State::kThere) ++totals_.lost;
      break;
    case Found::kUnreadable:
      ++(expected == State::kThere    ? totals_.lost
         : expected == State::kEither ? totals_.half
                                      : totals_.appeared);
      break;
    case Found::kWrong:
      ++totals_.corrupt;
      break;
  }
  entry.state = found == Found::kMissing ? State::kMissing : State::kThere;
}

}  // namespace quire::torture
