// SPDX-License-Identifier: Apache-2.0
//
// TimedEngine: another engine, with the time that its batches and syncs take, and a watch over
// those in flight. A batch counts as what its first request is: callers do not mix reads and
// writes.
//
// Ownership: the engine, the latencies and the watch outlive it. Thread-safety: as the engine.
#ifndef QUIRE_KVSERVER_STORE_TIMED_ENGINE_H_
#define QUIRE_KVSERVER_STORE_TIMED_ENGINE_H_

#include <span>
#include <string_view>

#include "kvserver/store/payload/io_engine.h"
#include "kvserver/store/stall_watch.h"
#include "kvserver/store/store_latencies.h"

namespace quire::kvserver {

class TimedEngine final : public IoEngine {
 public:
  TimedEngine(IoEngine* inner, StoreLatencies* latencies, StallWatch* watch)
      : inner_(*inner), latencies_(*latencies), watch_(watch) {}

  std::string_view name() const override { return inner_.name(); }
  void Run(std::span<IoRequest> requests) override {
    if (requests.empty()) return;
    const bool reads = requests.front().kind == IoRequest::Kind::kRead;
    const LatencyTimer timer(reads ? latencies_.device_read : latencies_.device_write,
                             latencies_.clock);
    const StallWatch::Operation operation(
        watch_, reads ? "a read of the payload volumes" : "a write to the payload volumes");
    inner_.Run(requests);
  }
  int Sync(int fd) override {
    const LatencyTimer timer(latencies_.device_sync, latencies_.clock);
    const StallWatch::Operation operation(watch_, "a sync of a payload volume");
    return inner_.Sync(fd);
  }

 private:
  IoEngine& inner_;
  StoreLatencies& latencies_;
  StallWatch* const watch_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_TIMED_ENGINE_H_
