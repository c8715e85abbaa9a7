// SPDX-License-Identifier: Apache-2.0
//
// EmulatedLink: delays the replies of a real transport as a network link would. A part is delivered
// no earlier than a round trip after the start of its call. The link carries one part after the
// other, and a part is delivered only after its bytes had time to pass. Waiting uses no processor
// time. The delay adds nothing where the real transport is slower. Thread-safety: as Transport.
#ifndef QUIRE_BENCH_KIT_EMULATED_LINK_H_
#define QUIRE_BENCH_KIT_EMULATED_LINK_H_

#include <memory>
#include <string_view>

#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::bench {

struct LinkShape {
  Duration round_trip = {};
  double bytes_per_second = 0;  ///< Rate towards the client; 0 for no limit.

  bool emulated() const { return round_trip > Duration::zero() || bytes_per_second > 0; }
};

class EmulatedLink final : public Transport {
 public:
  EmulatedLink(std::shared_ptr<Transport> carrier, const LinkShape& shape,
               Clock* clock = &SystemClock());

  TransportCapabilities capabilities() const override { return carrier_->capabilities(); }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;

 private:
  class Call;
  /// Returns when the last byte of a part that may leave at `from` has passed the link.
  TimePoint Carry(TimePoint from, uint64_t bytes) QUIRE_EXCLUDES(mutex_);

  const std::shared_ptr<Transport> carrier_;
  const LinkShape shape_;
  Clock* const clock_;
  Mutex mutex_;
  TimePoint busy_until_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_EMULATED_LINK_H_
