// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/power_history.h"

#include <utility>

namespace quire::torture {
namespace {

constexpr size_t kMostProblems = 20;
constexpr size_t kMostStepBytes = 160;

std::string NameOf(SegmentId segment) {
  return "segment " + std::to_string(segment.index) + " of chain " + std::to_string(segment.chain);
}
std::string NameOf(uint32_t chain) { return "document of chain " + std::to_string(chain); }

}  // namespace

void PowerHistory::Keep(Entry& entry, std::string_view step) {
  if (!entry.last_steps.empty()) entry.last_steps += ", ";
  entry.last_steps += step;
  if (entry.last_steps.size() <= kMostStepBytes) return;
  const size_t cut = entry.last_steps.find(", ", entry.last_steps.size() - kMostStepBytes);
  entry.last_steps = "..." + entry.last_steps.substr(cut);
}

void PowerHistory::End(bool ok, bool persisted) {
  if (!ok) {
    ++totals_.failed;
    return;
  }
  ++totals_.acknowledged;
  if (persisted) ++totals_.persisted;
}

void PowerHistory::PutStarts(SegmentId segment) {
  MutexLock lock(mutex_);
  Entry& entry = segments_[segment];
  Keep(entry, "put");
  // A segment that is there stays there, whatever becomes of the put.
  if (entry.now != State::kThere) entry.now = State::kEither;
  if (entry.after != State::kThere) entry.after = State::kEither;
}

void PowerHistory::PutEnds(SegmentId segment, bool ok, bool persisted) {
  MutexLock lock(mutex_);
  Entry& entry = segments_[segment];
  End(ok, persisted);
  Keep(entry, !ok ? "failed" : persisted ? "persisted" : "in memory");
  if (!ok) return;
  entry.now = State::kThere;
  if (persisted) entry.after = State::kThere;
}

void PowerHistory::DeleteStarts(SegmentId segment) {
  MutexLock lock(mutex_);
  Entry& entry = segments_[segment];
  Keep(entry, "delete");
  if (entry.now != State::kMissing) entry.now = State::kEither;
  if (entry.after != State::kMissing) entry.after = State::kEither;
}

void PowerHistory::DeleteEnds(SegmentId segment, bool ok, bool missing) {
  MutexLock lock(mutex_);
  Entry& entry = segments_[segment];
  End(ok || missing, /*persisted=*/false);
  Keep(entry, ok ? "deleted" : missing ? "missing" : "failed");
  if (ok || missing) entry.now = State::kMissing;
}

void PowerHistory::WasRead(SegmentId segment, Found found, std::string_view answer) {
  MutexLock lock(mutex_);
  const Entry& entry = segments_[segment];
  Check(entry.now, found, NameOf(segment) + " was read:", entry, answer);
}

void PowerHistory::RegisterStarts(uint32_t chain) {
  MutexLock lock(mutex_);
  Entry& entry = documents_[chain];
  Keep(entry, "register");
  if (entry.after != State::kThere) entry.after = State::kEither;
}

void PowerHistory::RegisterEnds(uint32_t chain, bool ok) {
  MutexLock lock(mutex_);
  Entry& entry = documents_[chain];
  End(ok, /*persisted=*/true);
  Keep(entry, ok ? "registered" : "failed");
  if (ok) entry.after = State::kThere;
}

void PowerHistory::UnregisterStarts(uint32_t chain, uint32_t segments) {
  MutexLock lock(mutex_);
  Entry& entry = documents_[chain];
  Keep(entry, "delete");
  if (entry.after != State::kMissing) entry.after = State::kEither;
  for (uint32_t index = 0; index < segments; ++index) {
    Entry& segment = segments_[{chain, index}];
    Keep(segment, "document deleted");
    if (segment.now != State::kMissing) segment.now = State::kEither;
    if (segment.after != State::kMissing) segment.after = State::kEither;
  }
}

void PowerHistory::UnregisterEnds(uint32_t chain, bool ok) {
  MutexLock lock(mutex_);
  Entry& entry = documents_[chain];
  End(ok, /*persisted=*/true);
  Keep(entry, ok ? "deleted" : "failed");
  if (ok) entry.after = State::kMissing;
}

void PowerHistory::Check(State expected, Found found, std::string_view what, const Entry& entry,
                         std::string_view answer) {
  switch (found) {
    case Found::kWhole:
      if (expected == State::kMissing) Wrong(&Totals::appeared, what, entry, answer);
      return;
    case Found::kMissing:
      if (expected == State::kThere) Wrong(&Totals::lost, what, entry, answer);
      return;
    case Found::kUnreadable:
      Wrong(expected == State::kThere ? &Totals::lost : &Totals::half, what, entry, answer);
      return;
    case Found::kWrong:
      Wrong(&Totals::corrupt, what, entry, answer);
      return;
  }
}

void PowerHistory::Compare(SegmentId segment, Found found, std::string_view answer) {
  MutexLock lock(mutex_);
  Entry& entry = segments_[segment];
  Check(entry.after, found, NameOf(segment), entry, answer);
  const bool there = found == Found::kWhole;
  Keep(entry, there ? "power lost, there" : "power lost, gone");
  entry.now = there ? State::kThere : State::kMissing;
  // Being found is no promise. Only what was acknowledged as persisted must survive again.
  if (!there) {
    entry.after = State::kMissing;
  } else if (entry.after == State::kMissing) {
    entry.after = State::kEither;
  }
}

void PowerHistory::CompareDocument(uint32_t chain, bool found, std::string_view answer) {
  MutexLock lock(mutex_);
  Entry& entry = documents_[chain];
  Check(entry.after, found ? Found::kWhole : Found::kMissing, NameOf(chain), entry, answer);
  Keep(entry, found ? "power lost, there" : "power lost, gone");
  entry.after = found ? State::kThere : State::kMissing;
}

void PowerHistory::Forget() {
  MutexLock lock(mutex_);
  segments_.clear();
  documents_.clear();
}

void PowerHistory::Wrong(uint64_t Totals::*kind, std::string_view what, const Entry& entry,
                         std::string_view answer) {
  ++(totals_.*kind);
  if (problems_.size() >= kMostProblems) return;
  const std::string_view name = kind == &Totals::lost       ? " lost ("
                                : kind == &Totals::half     ? " half there ("
                                : kind == &Totals::appeared ? " appeared ("
                                                            : " wrong bytes (";
  std::string problem(what);
  problem.append(name).append(answer).append(") after ").append(entry.last_steps);
  problems_.push_back(std::move(problem));
}

PowerHistory::Totals PowerHistory::totals() const {
  MutexLock lock(mutex_);
  return totals_;
}

std::vector<std::string> PowerHistory::TakeProblems() {
  MutexLock lock(mutex_);
  return std::exchange(problems_, {});
}

}  // namespace quire::torture
