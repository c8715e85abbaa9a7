// SPDX-License-Identifier: Apache-2.0
//
// TimedEngine: measures the time of another engine's streams and syncs, and watches those in
// flight. The caller's time between two requests of a stream counts, too.
//
// Ownership: the engine, the latencies and the watch outlive it. Thread-safety: as the engine.
#ifndef QUIRE_KVSERVER_STORE_SSD_TIMED_ENGINE_H_
#define QUIRE_KVSERVER_STORE_SSD_TIMED_ENGINE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "kvserver/store/payload/engine/io_engine.h"
#include "kvserver/store/stall_watch.h"
#include "kvserver/store/store_latencies.h"

namespace quire::kvserver {

class TimedEngine final : public IoEngine {
 public:
  TimedEngine(IoEngine* inner, StoreLatencies* latencies, StallWatch* watch)
      : inner_(*inner), latencies_(*latencies), watch_(watch) {}

  std::string_view name() const override { return inner_.name(); }
  void Run(IoStream& stream) override {
    const TimePoint start = latencies_.clock.Now();
    Watched watched(stream, watch_);
    inner_.Run(watched);
    const Duration took = latencies_.clock.Now() - start;
    if (watched.reads() > 0) latencies_.device_read.Record(took);
    if (watched.writes() > 0) latencies_.device_write.Record(took);
  }
  int Sync(int fd) override {
    const LatencyTimer timer(latencies_.device_sync, latencies_.clock);
    const StallWatch::Operation operation(watch_, "a sync of a payload volume");
    return inner_.Sync(fd);
  }

 private:
  /// A watched stream. The watch begins with its first request, which decides its kind.
  class Watched final : public IoStream {
   public:
    Watched(IoStream& inner, StallWatch* watch) : inner_(inner), watch_(watch) {}
    IoRequest* Next() override {
      IoRequest* const next = inner_.Next();
      if (next == nullptr) return nullptr;
      const bool reads = next->kind == IoRequest::Kind::kRead;
      if (!operation_) {
        operation_.emplace(
            watch_, reads ? "a read of the payload volumes" : "a write to the payload volumes");
      }
      ++(reads ? reads_ : writes_);
      return next;
    }
    void Ended(IoRequest& request) override { inner_.Ended(request); }
    uint64_t reads() const { return reads_; }
    uint64_t writes() const { return writes_; }

   private:
    IoStream& inner_;
    StallWatch* const watch_;
    std::optional<StallWatch::Operation> operation_;
    uint64_t reads_ = 0, writes_ = 0;
  };

  IoEngine& inner_;
  StoreLatencies& latencies_;
  StallWatch* const watch_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SSD_TIMED_ENGINE_H_
