// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_history.h"

#include <algorithm>
#include <utility>

namespace quire::sim {
namespace {

std::string At(const std::string& name, uint64_t version) {
  return name + "@" + std::to_string(version);
}

std::string Moment(TimePoint time) {
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  return std::to_string(millis.count()) + " ms";
}

/// From begin to end, or that no answer came.
std::string Span(TimePoint began, const std::optional<TimePoint>& ended) {
  return Moment(began) + (ended ? " to " + Moment(*ended) : " without an answer");
}

}  // namespace

size_t SimHistory::BeginRegister(const std::string& name, const SegmentKey& tip, TimePoint now) {
  registrations_.push_back({.name = name, .tip = tip, .began = now});
  return registrations_.size() - 1;
}

void SimHistory::EndRegister(size_t registration, uint64_t version, TimePoint now) {
  registrations_[registration].ended = now;
  registrations_[registration].version = version;
  ++num_registered_;
}

size_t SimHistory::BeginDelete(const std::string& name, uint64_t version, TimePoint now) {
  deletions_.push_back({.name = name, .version = version, .began = now});
  return deletions_.size() - 1;
}

void SimHistory::EndDelete(size_t deletion, TimePoint now) {
  deletions_[deletion].ended = now;
  ++num_deleted_;
}

std::optional<SimHistory::Acknowledged> SimHistory::Any(uint64_t choice) const {
  std::vector<const Registration*> acknowledged;
  for (const Registration& registration : registrations_) {
    if (registration.ended) acknowledged.push_back(&registration);
  }
  if (acknowledged.empty()) return std::nullopt;
  const Registration& chosen = *acknowledged[choice % acknowledged.size()];
  return Acknowledged{chosen.name, chosen.version, chosen.tip};
}

bool SimHistory::MayBeDeletedAfter(const std::string& name, uint64_t version,
                                   TimePoint time) const {
  return std::ranges::any_of(deletions_, [&](const Deletion& deletion) {
    // One without an answer may be carried out at any later time.
    return deletion.Covers(name, version) && (!deletion.ended || *deletion.ended >= time);
  });
}

bool SimHistory::MayBeginAnew(const std::string& name, TimePoint from, TimePoint to) const {
  return std::ranges::any_of(deletions_, [&](const Deletion& deletion) {
    return deletion.name == name && deletion.began <= to &&
           (!deletion.ended || *deletion.ended >= from);
  });
}

bool SimHistory::MustExist(const std::string& name, uint64_t version, const SegmentKey& tip) const {
  return std::ranges::any_of(registrations_, [&](const Registration& registration) {
    return registration.ended && registration.name == name && registration.version == version &&
           registration.tip == tip && !MayBeDeletedAfter(name, version, registration.began);
  });
}

void SimHistory::Found(const std::string& name, uint64_t version, const SegmentKey& tip) {
  ++num_found_;
  const bool known = std::ranges::any_of(registrations_, [&](const Registration& registration) {
    return registration.name == name && registration.tip == tip &&
           (!registration.ended || registration.version == version);
  });
  if (!known) Break("a read of " + At(name, version) + " found what was never registered so");
}

void SimHistory::NotFound(const std::string& name, uint64_t version, TimePoint began) {
  for (const Registration& registration : registrations_) {
    const bool is_there = registration.ended && *registration.ended <= began &&
                          registration.name == name && registration.version == version &&
                          !MayBeDeletedAfter(name, version, registration.began);
    if (is_there) Break("a read was told that there is no " + At(name, version));
  }
}

std::vector<std::string> SimHistory::Story() const {
  std::multimap<TimePoint, std::string> lines;
  for (const Registration& one : registrations_) {
    lines.emplace(one.began, Span(one.began, one.ended) + " register " + At(one.name, one.version) +
                                 " " + one.tip.Hex().substr(0, 8));
  }
  for (const Deletion& one : deletions_) {
    lines.emplace(one.began, Span(one.began, one.ended) + " delete " + At(one.name, one.version));
  }
  std::vector<std::string> story;
  for (auto& [began, line] : lines) story.push_back(std::move(line));
  return story;
}

void SimHistory::CheckNumbers() {
  for (const Registration& one : registrations_) {
    for (const Registration& other : registrations_) {
      if (&one == &other || !one.ended || !other.ended || one.name != other.name) continue;
      const TimePoint last = std::max(*one.ended, *other.ended);
      if (one.began > other.began || MayBeginAnew(one.name, one.began, last)) continue;
      if (one.version == other.version && one.tip != other.tip) {
        Break("two chains were acknowledged as " + At(one.name, one.version));
      }
      // The same chain may be registered twice as one version.
      if (*one.ended < other.began && other.version < one.version) {
        Break(At(other.name, other.version) + " was acknowledged after " +
              At(one.name, one.version));
      }
    }
  }
}

void SimHistory::CheckDeleted(const Deletion& deletion, const AgreedName& agreed) {
  for (const Document& document : agreed.versions) {
    const uint64_t version = document.name.version;
    if (!deletion.ended || !deletion.Covers(deletion.name, version)) continue;
    const bool came_back =
        std::ranges::none_of(registrations_, [&](const Registration& registration) {
          // One that was not over at the deletion may come behind it.
          return registration.name == deletion.name && registration.tip == document.chain_tip &&
                 (!registration.ended || *registration.ended >= deletion.began);
        });
    if (came_back) Break(At(deletion.name, version) + " was deleted, and is back");
  }
}

void SimHistory::CheckEnd(const std::map<std::string, AgreedName>& agreed) {
  CheckNumbers();
  static const AgreedName kNone;
  const auto of = [&](const std::string& name) -> const AgreedName& {
    const auto found = agreed.find(name);
    return found == agreed.end() ? kNone : found->second;
  };
  for (const Deletion& deletion : deletions_) CheckDeleted(deletion, of(deletion.name));
  for (const Registration& registration : registrations_) {
    if (!registration.ended) continue;
    const std::string& name = registration.name;
    if (MayBeDeletedAfter(name, registration.version, registration.began)) continue;
    const Document* const document = of(name).Find(registration.version);
    if (document == nullptr || document->chain_tip != registration.tip) {
      Break("the acknowledged " + At(name, registration.version) + " is gone");
    }
  }
}

}  // namespace quire::sim
