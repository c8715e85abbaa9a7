// SPDX-License-Identifier: Apache-2.0
//
// Landings for tests in one process: the transport copies a reply's units to their places, as a
// device does that writes into this process's memory.
#ifndef QUIRE_GPUWORKER_TESTING_LANDING_BY_COPY_H_
#define QUIRE_GPUWORKER_TESTING_LANDING_BY_COPY_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace quire::worker::testing {

/// A landing over memory of the caller's.
class CopiedLanding final : public Landing {
 public:
  explicit CopiedLanding(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes() const override { return bytes_; }

 private:
  const std::span<std::byte> bytes_;
};

/// Moves the units of `part` to their places in `landing`.
inline void LandByCopy(const Landing& landing, CallMessage* part) {
  const std::vector<Slice>& slices = part->payload.slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    std::ranges::copy(slices[i].bytes, landing.bytes().data() + part->places.at(i));
  }
  part->landed_bytes = part->payload.size_bytes();
  part->payload = {};
}

/// A call that came in messages, as if its units had landed.
class LandedCall final : public PendingCall {
 public:
  LandedCall(std::unique_ptr<PendingCall> call, const Landing* landing)
      : call_(std::move(call)), landing_(landing) {}
  StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
    QUIRE_ASSIGN_OR_RETURN(auto part, call_->Next(deadline));
    if (part) LandByCopy(*landing_, &*part);
    return part;
  }
  void Cancel() override { call_->Cancel(); }
  bool IsQuiet() const override { return call_->IsQuiet(); }

 private:
  const std::unique_ptr<PendingCall> call_;
  const Landing* const landing_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_LANDING_BY_COPY_H_
