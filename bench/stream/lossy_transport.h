// SPDX-License-Identifier: Apache-2.0
//
// LossyTransport: a Transport in front of another, on which replies to one method are lost or
// misplaced. The server has answered every time; the faults differ in what reaches the client, and
// when:
//
//   dropped     nothing, ever: the caller's call times out
//   late        the reply, some time after it arrived
//   stale       nothing until the caller has abandoned the call; then the reply comes in a later
//               call, before that call's own reply
//   duplicated  every part of the reply twice
//   replayed    the reply to an earlier call, delivered before, and then the call's own
//
// Misplaced parts come through PendingCall::Next like every other part, so the client must detect
// them. Seed and order of calls alone decide which calls are hit. Units that the server puts into a
// landing are there whatever happens to their reply.
//
// Thread-safety: as Transport, except that Cancel does not end waits; they last until their
// deadline.
// Ownership: shares the inner transport; its calls end before it.
#ifndef QUIRE_BENCH_STREAM_LOSSY_TRANSPORT_H_
#define QUIRE_BENCH_STREAM_LOSSY_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::bench {

class LossyTransport final : public Transport {
 public:
  struct Options {
    std::string method = {};  ///< "package.Service/Method"
    double drop_rate = 0;     ///< Shares of the method's calls; together at most 1.
    double late_rate = 0;
    double stale_rate = 0;
    double duplicate_rate = 0;
    double replay_rate = 0;
    Duration late_by = std::chrono::milliseconds(5);
    uint64_t seed = 1;
    Clock* clock = nullptr;  ///< Clock of the callers' deadlines; SystemClock() when null.
  };
  /// Faults so far. Dropped replies count when they are lost, others when the client gets the wrong
  /// part.
  struct Faults {
    uint64_t dropped = 0;
    uint64_t late = 0;
    uint64_t stale = 0;
    uint64_t duplicated = 0;
    uint64_t replayed = 0;
    uint64_t total() const { return dropped + late + stale + duplicated + replayed; }
  };
  LossyTransport(std::shared_ptr<Transport> transport, Options options);
  ~LossyTransport() override;

  Faults faults() const QUIRE_EXCLUDES(mutex_);

  TransportCapabilities capabilities() const override { return transport_->capabilities(); }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    return transport_->AddLanding(memory);
  }
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override {
    return transport_->AllocateLandingMemory(bytes);
  }

 private:
  enum class Fault : uint8_t { kNone, kDrop, kLate, kStale, kDuplicate, kReplay };
  using Parts = std::vector<CallMessage>;
  class LossyCall;

  /// The fault of the method's next call.
  Fault NextFault() QUIRE_EXCLUDES(mutex_);
  void Count(Fault fault) QUIRE_EXCLUDES(mutex_);
  /// Keeps the reply of an abandoned call for a later one.
  void Strand(Parts reply) QUIRE_EXCLUDES(mutex_);
  Parts TakeStranded() QUIRE_EXCLUDES(mutex_);
  /// Keeps a reply for a replay, and returns the one before; empty if there is none.
  Parts Exchange(Parts reply) QUIRE_EXCLUDES(mutex_);

  const std::shared_ptr<Transport> transport_;
  const Options options_;
  Clock& clock_;
  mutable Mutex mutex_;
  SeededRandom random_ QUIRE_GUARDED_BY(mutex_);
  Faults faults_ QUIRE_GUARDED_BY(mutex_);
  Parts stranded_ QUIRE_GUARDED_BY(mutex_);  ///< From abandoned calls.
  Parts last_ QUIRE_GUARDED_BY(mutex_);      ///< The latest reply.
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_LOSSY_TRANSPORT_H_
