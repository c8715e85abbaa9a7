// SPDX-License-Identifier: Apache-2.0
//
// EmulatedLink: a transport whose replies come as late as a network link would let them come, on
// top of the transport that really carries them: a part is handed out no earlier than a round trip
// after its call was started, and no earlier than the link, which carries one part after the other,
// has had time for its bytes. What waits costs no processor time. It adds to what the real
// transport takes only where that was faster. Thread-safety: as Transport.
#ifndef QUIRE_BENCH_KIT_EMULATED_LINK_H_
#define QUIRE_BENCH_KIT_EMULATED_LINK_H_

#include <memory>
#include <string_view>

#include "common/base/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::bench {

struct LinkShape {
  Duration round_trip = {};
  double bytes_per_second = 0;  ///< Towards the client; 0: as fast as can be.

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
  /// When the last byte of a part that may leave at `from` has come over the link.
  TimePoint Carry(TimePoint from, uint64_t bytes) QUIRE_EXCLUDES(mutex_);

  const std::shared_ptr<Transport> carrier_;
  const LinkShape shape_;
  Clock* const clock_;
  Mutex mutex_;
  TimePoint busy_until_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_EMULATED_LINK_H_
