// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/server/server_history.h"

#include <algorithm>
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

void ServerHistory::Keep(std::string& last_steps, std::string_view step) {
  if (!last_steps.empty()) last_steps += ", ";
  last_steps += step;
  if (last_steps.size() <= kMostStepBytes) return;
  const size_t cut = last_steps.find(", ", last_steps.size() - kMostStepBytes);
  last_steps = "..." + last_steps.substr(cut);
}

void ServerHistory::MayCome(State& state) {
  if (state != State::kThere) state = State::kEither;
}

void ServerHistory::MayGo(State& state) {
  if (state != State::kMissing) state = State::kEither;
}

void ServerHistory::Apply(const ServerEvent& event) {
  using Kind = ServerEvent::Kind;
  MutexLock lock(mutex_);
  const uint32_t chain = event.segment.chain;
  switch (event.kind) {
    case Kind::kPutStarts:
      return PutStarts(event.segment);
    case Kind::kPutEnds:
      return PutEnds(event.segment, event.ok, event.flag);
    case Kind::kDeleteStarts:
      return DeleteStarts(event.segment);
    case Kind::kDeleteEnds:
      return DeleteEnds(event.segment, event.ok, event.flag);
    case Kind::kRead:
      return WasRead(event.segment, event.found);
    case Kind::kRegisterStarts:
      return RegisterStarts(chain, event.micros);
    case Kind::kRegisterEnds:
      return RegisterEnds(chain, event.ok, event.flag, event.micros);
    case Kind::kUnregisterStarts:
      return UnregisterStarts(chain, event.flag);
    case Kind::kUnregisterEnds:
      return UnregisterEnds(chain, event.ok);
    case Kind::kPinStarts:
    case Kind::kUnpinStarts:
      return PinStarts(chain, event.kind == Kind::kPinStarts);
    case Kind::kPinEnds:
    case Kind::kUnpinEnds:
      return PinEnds(chain, event.kind == Kind::kPinEnds, event.ok);
    case Kind::kTimeIs:
      return TimeIs(event.micros);
    case Kind::kExpiredRemoved:
      return ExpiredRemoved();
  }
}

int64_t ServerHistory::now_micros() const {
  MutexLock lock(mutex_);
  return now_micros_;
}

void ServerHistory::End(bool ok, bool persisted) {
  if (!ok) {
    ++totals_.failed;
    return;
  }
  ++totals_.acknowledged;
  if (persisted) ++totals_.persisted;
}

// --- Segments.

bool ServerHistory::IsNamed(uint32_t chain) const {
  const auto document = documents_.find(chain);
  return document != documents_.end() && document->second.state == State::kThere;
}

ServerHistory::State ServerHistory::Promised(State state, uint32_t chain) const {
  const bool may_be_evicted = options_.evicts && !IsNamed(chain);
  return state == State::kThere && may_be_evicted ? State::kEither : state;
}

void ServerHistory::PutStarts(SegmentId segment) {
  Entry& entry = segments_[segment];
  Keep(entry.last_steps, "put");
  // An existing segment stays, whatever happens to the put. An evicted one may come back with less
  // than it had.
  entry.now = Promised(entry.now, segment.chain);
  entry.after = Promised(entry.after, segment.chain);
  MayCome(entry.now);
  MayCome(entry.after);
}

void ServerHistory::PutEnds(SegmentId segment, bool ok, bool persisted) {
  Entry& entry = segments_[segment];
  const bool survives = persisted || options_.keeps_everything;
  End(ok, survives);
  Keep(entry.last_steps, !ok ? "failed" : persisted ? "persisted" : "in memory");
  // An expired document still deletes its segments.
  if (!ok || documents_[segment.chain].is_going) return;
  AreThere(segment.chain, segment.index + 1, survives);
}

void ServerHistory::AreThere(uint32_t chain, uint32_t count, bool after) {
  for (uint32_t index = 0; index < count; ++index) {
    Entry& entry = segments_[{chain, index}];
    entry.now = State::kThere;
    after ? void(entry.after = State::kThere) : MayCome(entry.after);
  }
}

void ServerHistory::DeleteStarts(SegmentId segment) {
  Entry& entry = segments_[segment];
  Keep(entry.last_steps, "delete");
  MayGo(entry.now);
  MayGo(entry.after);
}

void ServerHistory::DeleteEnds(SegmentId segment, bool ok, bool held) {
  Entry& entry = segments_[segment];
  End(ok, /*persisted=*/false);
  Keep(entry.last_steps, !ok ? "failed" : held ? "deleted while it is held" : "deleted");
  if (!ok || held) return;
  entry.now = State::kMissing;
  if (options_.keeps_everything) entry.after = State::kMissing;
}

void ServerHistory::WasRead(SegmentId segment, Found found) {
  const Entry& entry = segments_[segment];
  Check(Promised(entry.now, segment.chain), found, NameOf(segment) + " was read:", entry.last_steps,
        "");
}

void ServerHistory::SegmentsMayGo(uint32_t chain, std::string_view step) {
  for (uint32_t index = 0; index < options_.segments; ++index) {
    Entry& segment = segments_[{chain, index}];
    Keep(segment.last_steps, step);
    MayGo(segment.now);
    MayGo(segment.after);
  }
}

// --- Documents.

void ServerHistory::RegisterStarts(uint32_t chain, int64_t expires) {
  Document& document = documents_[chain];
  Keep(document.last_steps, "register");
  if (document.state == State::kThere) return;
  const bool is_first = document.state == State::kMissing;
  document.state = State::kEither;
  document.expires_least = is_first ? expires : std::min(document.expires_least, expires);
  document.expires_most = is_first ? expires : std::max(document.expires_most, expires);
}

void ServerHistory::RegisterEnds(uint32_t chain, bool ok, bool existed, int64_t expires) {
  Document& document = documents_[chain];
  End(ok, /*persisted=*/true);
  Keep(document.last_steps, !ok ? "failed" : existed ? "existed" : "registered");
  if (!ok) return;
  document.state = State::kThere;
  document.expires_least = document.expires_most = expires;
  document.is_going = false;
  if (!existed) document.pin = State::kMissing;
  AreThere(chain, options_.segments, /*after=*/options_.keeps_everything);
}

void ServerHistory::UnregisterStarts(uint32_t chain, bool keeps_segments) {
  Document& document = documents_[chain];
  Keep(document.last_steps, keeps_segments ? "delete without segments" : "delete");
  MayGo(document.state);
  MayGo(document.pin);
  if (!keeps_segments) SegmentsMayGo(chain, "document deleted");
}

void ServerHistory::UnregisterEnds(uint32_t chain, bool ok) {
  Document& document = documents_[chain];
  End(ok, /*persisted=*/true);
  Keep(document.last_steps, ok ? "deleted" : "failed");
  if (ok) document.state = document.pin = State::kMissing;
}

void ServerHistory::PinStarts(uint32_t chain, bool on) {
  Document& document = documents_[chain];
  Keep(document.last_steps, on ? "pin" : "unpin");
  on ? MayCome(document.pin) : MayGo(document.pin);
}

void ServerHistory::PinEnds(uint32_t chain, bool on, bool ok) {
  Document& document = documents_[chain];
  Keep(document.last_steps, !ok ? "failed" : on ? "pinned" : "unpinned");
  // A lack of room in DRAM, or of the document, is no fault.
  if (!ok) return;
  End(ok, /*persisted=*/true);
  document.pin = on ? State::kThere : State::kMissing;
}

void ServerHistory::TimeIs(int64_t micros) {
  now_micros_ = micros;
  for (auto& [chain, document] : documents_) {
    if (document.state == State::kMissing || document.expires_least > micros) continue;
    Keep(document.last_steps, "expired");
    document.state = document.expires_most <= micros ? State::kMissing : State::kEither;
    MayGo(document.pin);
    document.is_going = true;
    SegmentsMayGo(chain, "document expired");
  }
}

void ServerHistory::ExpiredRemoved() {
  for (auto& [chain, document] : documents_) {
    if (!document.is_going) continue;
    document.is_going = false;
    if (document.state == State::kMissing) document.pin = State::kMissing;
  }
}

// --- Comparison.

void ServerHistory::Check(State expected, Found found, std::string_view what,
                          std::string_view last_steps, std::string_view answer) {
  switch (found) {
    case Found::kWhole:
      if (expected == State::kMissing) Wrong(&Totals::appeared, what, last_steps, answer);
      return;
    case Found::kMissing:
      if (expected == State::kThere) Wrong(&Totals::lost, what, last_steps, answer);
      return;
    case Found::kUnreadable:
      Wrong(expected == State::kThere ? &Totals::lost : &Totals::half, what, last_steps, answer);
      return;
    case Found::kWrong:
      Wrong(&Totals::corrupt, what, last_steps, answer);
      return;
  }
}

void ServerHistory::Compare(SegmentId segment, Found found, std::string_view answer) {
  MutexLock lock(mutex_);
  Entry& entry = segments_[segment];
  Check(Promised(entry.after, segment.chain), found, NameOf(segment), entry.last_steps, answer);
  const bool there = found == Found::kWhole;
  Keep(entry.last_steps, there ? "stopped, there" : "stopped, gone");
  entry.now = there ? State::kThere : State::kMissing;
  // Existence is no promise. Only what was acknowledged as persisted must survive the next failure.
  if (!there || options_.keeps_everything) {
    entry.after = entry.now;
  } else {
    MayCome(entry.after);
  }
  if (!documents_[segment.chain].is_going) return;
  MayGo(entry.now);
  MayGo(entry.after);
}

void ServerHistory::CompareDocument(uint32_t chain, bool found, int64_t expires_micros,
                                    std::string_view answer) {
  MutexLock lock(mutex_);
  Document& document = documents_[chain];
  Check(document.state, found ? Found::kWhole : Found::kMissing, NameOf(chain), document.last_steps,
        answer);
  if (!found && document.is_going) ++totals_.expired;
  Keep(document.last_steps, found ? "stopped, there" : "stopped, gone");
  document.state = found ? State::kThere : State::kMissing;
  if (!found) return;
  document.expires_least = document.expires_most = expires_micros;
  document.is_going = false;
}

void ServerHistory::ComparePin(uint32_t chain, bool found) {
  MutexLock lock(mutex_);
  Document& document = documents_[chain];
  const std::string what = "pin of the " + NameOf(chain);
  // A document and its pin disappear together.
  const bool may_be = document.state == State::kThere || document.is_going;
  const State expected = may_be ? document.pin : State::kMissing;
  Check(expected, found ? Found::kWhole : Found::kMissing, what, document.last_steps, "");
  if (found && expected == State::kThere) ++totals_.pins_kept;
  document.pin = found ? State::kThere : State::kMissing;
  if (document.is_going) MayGo(document.pin);
}

void ServerHistory::CountStrangers(uint64_t segments) {
  MutexLock lock(mutex_);
  totals_.appeared += segments;
  if (segments == 0 || problems_.size() >= kMostProblems) return;
  problems_.push_back(std::to_string(segments) + " segments that nobody can name any more");
}

void ServerHistory::StartAfresh(const Options& options) {
  MutexLock lock(mutex_);
  options_ = options;
  segments_.clear();
  documents_.clear();
}

void ServerHistory::Wrong(uint64_t Totals::*kind, std::string_view what,
                          std::string_view last_steps, std::string_view answer) {
  ++(totals_.*kind);
  if (problems_.size() >= kMostProblems) return;
  const std::string_view name = kind == &Totals::lost       ? " lost ("
                                : kind == &Totals::half     ? " half there ("
                                : kind == &Totals::appeared ? " appeared ("
                                                            : " wrong bytes (";
  std::string problem(what);
  problem.append(name).append(answer).append(") after ").append(last_steps);
  problems_.push_back(std::move(problem));
}

ServerHistory::Totals ServerHistory::totals() const {
  MutexLock lock(mutex_);
  return totals_;
}

std::vector<std::string> ServerHistory::TakeProblems() {
  MutexLock lock(mutex_);
  return std::exchange(problems_, {});
}

}  // namespace quire::torture
