// SPDX-License-Identifier: Apache-2.0
//
// DataPlane: the server's connections for bulk bytes (docs/design/0012-data-plane.md): listeners of
// every kind, the tickets that admit connections, and the calls that come over them. The control
// channel (quire.v1.DataPlane) hands out offers and takes landings.
//
// Thread-safety: all methods may be called concurrently. Ownership: owns listeners and connections;
// the handler outlives it, and so does everything that payload lies in.
#ifndef QUIRE_KVSERVER_SERVICE_DATA_PLANE_H_
#define QUIRE_KVSERVER_SERVICE_DATA_PLANE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/counters.h"
#include "common/base/host_id.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "kvserver/service/ticket_table.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"
#include "transport/frames/frame_server.h"
#include "transport/transport.h"

namespace quire::kvserver {

class DataPlane {
 public:
  struct Options {
    CallHandler* handler = nullptr;
    const Clock* clock = &SystemClock();  ///< Of the tickets.
    FrameServer::Options frames = {};
    std::string host_id = ReadHostId();  ///< Of offers that only this host can use.
  };
  explicit DataPlane(const Options& options);
  ~DataPlane() { Shutdown(); }

  /// Where listeners, and the gRPC server, hand their pipes.
  PipeListener::Accept accept();
  /// Takes over a listener, which is offered from now on.
  void Add(std::unique_ptr<PipeListener> listener);
  /// From now on streams of the control channel's own server are offered.
  void OfferGrpc();

  /// A way to connect.
  struct Way {
    std::string kind;
    std::string address;  ///< Empty: that of the control channel.
  };
  /// The fastest first.
  std::vector<Way> ways() const;

  struct Offer {
    Way way;
    std::string ticket;
    std::string host;  ///< That can use it; empty: every host.
  };
  /// All of them, the fastest first, with tickets of `tenant`. RESOURCE_EXHAUSTED as
  /// TicketTable::Issue.
  [[nodiscard]] StatusOr<std::vector<Offer>> Offers(std::string_view tenant);

  /// As FrameServer's methods.
  [[nodiscard]] Status OpenLanding(std::string_view tenant, uint64_t connection, uint64_t landing,
                                   std::string_view key, uint64_t bytes);
  [[nodiscard]] Status CloseLanding(std::string_view tenant, uint64_t connection, uint64_t landing);

  /// Offers nothing and takes no connections and calls any more; waits up to `grace` for the calls
  /// that run, then ends every connection and waits for what still runs in them. Idempotent.
  void Shutdown(Duration grace = Duration::zero()) QUIRE_EXCLUDES(mutex_);

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  const std::string host_id_;
  TicketTable tickets_;
  Counter offers_;
  FrameServer frames_;
  mutable Mutex mutex_;
  bool grpc_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<PipeListener>> listeners_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_DATA_PLANE_H_
