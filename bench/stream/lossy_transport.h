// SPDX-License-Identifier: Apache-2.0
//
// LossyTransport: a Transport in front of another, on which replies to one method go astray. The
// server has answered every time; what differs is what the client hears of it:
//
//   dropped   UNAVAILABLE: the reply is lost
//   delayed   DEADLINE_EXCEEDED; whoever asks the pending call again gets the reply after all
//   repeated  the reply to the call before comes instead
//
// Which calls are hit follows from the seed and the order of calls alone.
// Thread-safety: as Transport. Ownership: shares the transport that it stands in front of.
#ifndef QUIRE_BENCH_STREAM_LOSSY_TRANSPORT_H_
#define QUIRE_BENCH_STREAM_LOSSY_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/transport/transport.h"

namespace quire::bench {

class LossyTransport final : public Transport {
 public:
  struct Options {
    std::string method = {};  ///< "package.Service/Method"
    double drop_rate = 0;     ///< Shares of its calls; together at most 1.
    double delay_rate = 0;
    double repeat_rate = 0;
    uint64_t seed = 1;
  };
  struct Faults {
    uint64_t dropped = 0;
    uint64_t delayed = 0;
    uint64_t repeated = 0;
    uint64_t total() const { return dropped + delayed + repeated; }
  };
  LossyTransport(std::shared_ptr<Transport> transport, Options options);
  ~LossyTransport() override;

  /// Injected so far.
  Faults faults() const QUIRE_EXCLUDES(mutex_);

  TransportCapabilities capabilities() const override { return transport_->capabilities(); }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;
  StatusOr<std::unique_ptr<Landing>> AddLanding(LandingMemory memory) override {
    return transport_->AddLanding(memory);
  }
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override {
    return transport_->AllocateLandingMemory(bytes);
  }

 private:
  enum class Fault : uint8_t { kNone, kDrop, kDelay, kRepeat };
  using Parts = std::vector<CallMessage>;
  class LossyCall;

  /// What happens to the next call of the method.
  Fault NextFault() QUIRE_EXCLUDES(mutex_);
  /// Keeps a reply to repeat it, and returns the one before; empty when there is none.
  Parts Exchange(Parts parts) QUIRE_EXCLUDES(mutex_);
  static Status Lost(Fault fault);

  const std::shared_ptr<Transport> transport_;
  const Options options_;
  mutable Mutex mutex_;
  SeededRandom random_ QUIRE_GUARDED_BY(mutex_);
  Faults faults_ QUIRE_GUARDED_BY(mutex_);
  Parts last_ QUIRE_GUARDED_BY(mutex_);  ///< The latest reply.
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_LOSSY_TRANSPORT_H_
