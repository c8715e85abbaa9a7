// SPDX-License-Identifier: Apache-2.0
//
// CollectingSink: keeps the parts of a recall, and refuses more on request. Only tests use it.
// Thread-safety: none.
#ifndef QUIRE_KVSERVER_SESSION_TESTING_COLLECTING_SINK_H_
#define QUIRE_KVSERVER_SESSION_TESTING_COLLECTING_SINK_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "kvserver/session/recall.h"

namespace quire::kvserver::testing {

class CollectingSink : public RecallSink {
 public:
  struct Part {
    std::vector<LanePlacement> lanes;
    Payload payload;
    std::vector<uint64_t> places;
  };

  /// Result of CheckWanted, given the number of earlier calls. Unset: OK.
  std::function<Status(size_t)> wanted;
  /// Called with every part before it is kept; its error is Write's.
  std::function<Status(const Part&)> on_write;

  Status CheckWanted() const override { return wanted ? wanted(asked_++) : OkStatus(); }
  Status Write(RecallPart part) override {
    Part kept{
        {part.lanes.begin(), part.lanes.end()}, std::move(part.payload), std::move(part.places)};
    if (on_write) QUIRE_RETURN_IF_ERROR(on_write(kept));
    parts_.push_back(std::move(kept));
    return OkStatus();
  }

  const std::vector<Part>& parts() const { return parts_; }
  /// Placements of all parts, in order.
  std::vector<LanePlacement> lanes() const {
    std::vector<LanePlacement> all;
    for (const Part& part : parts_) all.insert(all.end(), part.lanes.begin(), part.lanes.end());
    return all;
  }
  /// Units of all parts, in order.
  std::vector<Slice> units() const {
    std::vector<Slice> all;
    for (const Part& part : parts_) {
      all.insert(all.end(), part.payload.slices().begin(), part.payload.slices().end());
    }
    return all;
  }

 private:
  mutable size_t asked_ = 0;
  std::vector<Part> parts_;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_SESSION_TESTING_COLLECTING_SINK_H_
