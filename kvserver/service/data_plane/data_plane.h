// SPDX-License-Identifier: Apache-2.0
//
// DataPlane: the server's connections for bulk bytes (docs/design/0012-data-plane.md): listeners of
// every kind, tickets that admit connections, and calls over them. The control channel
// (quire.v1.DataPlane) hands out offers and opens landings.
//
// Thread-safety: all methods may be called concurrently. Ownership: owns listeners and connections.
// The handler and the owners of payload bytes outlive it.
#ifndef QUIRE_KVSERVER_SERVICE_DATA_PLANE_DATA_PLANE_H_
#define QUIRE_KVSERVER_SERVICE_DATA_PLANE_DATA_PLANE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/host_id.h"
#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/service/data_plane/ticket_table.h"
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
    const Clock* clock = &SystemClock();  ///< Clock of the tickets.
    FrameServer::Options frames = {};
    std::string host_id = ReadHostId();  ///< Host of offers that only this host can use.
  };
  explicit DataPlane(const Options& options);
  ~DataPlane() { Shutdown(); }

  /// Receiver of pipes from listeners and the gRPC server.
  PipeListener::Accept accept();
  /// Takes ownership of a listener and offers it.
  void Add(std::unique_ptr<PipeListener> listener);
  /// Offers streams of the control channel's own server.
  void OfferGrpc();

  /// An address to connect to.
  struct Way {
    std::string kind;
    std::string address;  ///< Empty: the control channel's.
  };
  /// All addresses, the fastest first.
  std::vector<Way> ways() const;

  struct Offer {
    Way way;
    std::string ticket;
    std::string host;  ///< Host that can use it; empty: every host.
  };
  /// All offers, the fastest first, with tickets of `tenant`. RESOURCE_EXHAUSTED as
  /// TicketTable::Issue.
  [[nodiscard]] StatusOr<std::vector<Offer>> Offers(std::string_view tenant);

  /// As FrameServer's methods.
  [[nodiscard]] Status OpenLanding(std::string_view tenant, uint64_t connection, uint64_t landing,
                                   std::string_view key, uint64_t bytes);
  [[nodiscard]] Status CloseLanding(std::string_view tenant, uint64_t connection, uint64_t landing);

  /// Stops offers, connections and new calls. Waits up to `grace` for running calls, then ends
  /// every connection and waits for the remaining ones. Idempotent.
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

#endif  // QUIRE_KVSERVER_SERVICE_DATA_PLANE_DATA_PLANE_H_
