// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/store/history.h"

#include <algorithm>
#include <utility>

namespace quire::torture {
namespace {

std::string_view NameOf(Event::Operation operation) {
  constexpr std::array<std::string_view, 3> kNames = {"put", "delete", "read"};
  return kNames[static_cast<size_t>(operation)];
}

std::string_view NameOf(Event::Outcome outcome) {
  constexpr std::array<std::string_view, 7> kNames = {"started", "done",   "existed",    "missing",
                                                      "refused", "failed", "wrong bytes"};
  return kNames[static_cast<size_t>(outcome)];
}

}  // namespace

void History::Apply(const Event& event) {
  Entry& entry = entries_[event.segment];
  const bool changes = event.operation != Event::Operation::kRead;
  if (changes) entry.Keep(event);
  switch (event.outcome) {
    case Event::Outcome::kStarted:
      return;
    case Event::Outcome::kDone:
    case Event::Outcome::kExisted:
      if (changes) Acknowledge(event, entry);
      return;
    case Event::Outcome::kMissing:
      if (entry.state == State::kThere) {
        Wrong(&Totals::lost, event.segment,
              std::string(NameOf(event.operation)) + " found nothing");
      }
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
      Wrong(&Totals::corrupt, event.segment,
            std::string(NameOf(event.operation)) + " found other bytes");
      return;
  }
}

void History::Acknowledge(const Event& event, Entry& entry) {
  ++totals_.acknowledged;
  const bool is_put = event.operation == Event::Operation::kPut;
  const bool was_there = !is_put || event.outcome == Event::Outcome::kExisted;
  if (was_there && entry.state == State::kMissing) {
    Wrong(&Totals::appeared, event.segment, std::string(NameOf(event.operation)) + " found it");
  }
  entry.state = is_put ? State::kThere : State::kMissing;
}

void History::Compare(SegmentId segment, Found found, std::string_view answer) {
  Entry& entry = entries_[segment];
  const State expected = entry.running ? State::kEither : entry.state;
  entry.running = false;
  switch (found) {
    case Found::kWhole:
      if (expected == State::kMissing) Wrong(&Totals::appeared, segment, answer);
      break;
    case Found::kMissing:
      if (expected == State::kThere) Wrong(&Totals::lost, segment, answer);
      break;
    case Found::kUnreadable:
      Wrong(expected == State::kThere    ? &Totals::lost
            : expected == State::kEither ? &Totals::half
                                         : &Totals::appeared,
            segment, answer);
      break;
    case Found::kWrong:
      Wrong(&Totals::corrupt, segment, answer);
      break;
  }
  entry.state = found == Found::kMissing ? State::kMissing : State::kThere;
}

void History::Wrong(uint64_t Totals::*kind, SegmentId segment, std::string_view answer) {
  ++(totals_.*kind);
  if (problems_.size() >= kMostProblems) return;
  const std::string_view name = kind == &Totals::lost       ? "lost"
                                : kind == &Totals::half     ? "half there"
                                : kind == &Totals::appeared ? "appeared"
                                                            : "wrong bytes";
  std::string problem = "segment " + std::to_string(segment.index) + " of chain " +
                        std::to_string(segment.chain) + ": ";
  problem.append(name).append(" (").append(answer).append(") after ");
  problems_.push_back(problem + entries_[segment].LastSteps());
}

std::vector<std::string> History::TakeProblems() { return std::exchange(problems_, {}); }

/// The end of a change replaces its start.
void History::Entry::Keep(const Event& change) {
  if (!running) ++steps;
  last_steps[(steps - 1) % kStepsKept] = {change.operation, change.outcome};
  running = change.outcome == Event::Outcome::kStarted;
}

std::string History::Entry::LastSteps() const {
  std::string text = steps == 0 ? "no change" : steps > kStepsKept ? "..., " : "";
  for (uint64_t i = steps - std::min<uint64_t>(steps, kStepsKept); i < steps; ++i) {
    const Step& step = last_steps[i % kStepsKept];
    text.append(NameOf(step.operation)).append(" ").append(NameOf(step.outcome));
    if (i + 1 < steps) text += ", ";
  }
  return text;
}

}  // namespace quire::torture
