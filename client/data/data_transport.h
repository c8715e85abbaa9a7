// SPDX-License-Identifier: Apache-2.0
//
// DataTransport: a data connection that is made again after a loss. Connections carry no policy;
// this is the policy:
//
// - A call that is started and finds the connection dead makes a new one, with new offers, and goes
//   over that. A call whose reply was lost, and any Call(), is UNAVAILABLE; callers that may
//   repeat it do, over a new connection.
// - One thread connects, within the timeout of its call. The others wait for the result, until
//   their own timeout.
// - After a failure, or the loss of a young connection, no thread connects for a while that grows
//   with each failure (retry.h). Calls are UNAVAILABLE at once in that time.
// - The next connection chooses its transport again. The owner is notified of another transport.
// - Landings stay: they are announced again on the connection that a call uses.
//
// Thread-safety: as Transport.
#ifndef QUIRE_CLIENT_DATA_DATA_TRANSPORT_H_
#define QUIRE_CLIENT_DATA_DATA_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/data/data_connection.h"
#include "client/retry.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire::internal {

class DataTransport final : public Transport {
 public:
  struct Options {
    /// Makes a connection, or gives up at `deadline` (SystemClock()); called by one thread at a
    /// time.
    std::function<StatusOr<DataConnection>(TimePoint deadline)> connect;
    /// Told of every connection after the first that another way than the one before was taken for,
    /// by the thread that made it. May be empty.
    std::function<void(const DataReport&)> on_other_way = {};
    RetryOptions retry = {};  ///< Waits between connections.
    Clock* clock = &SystemClock();
    Random* random = &SystemRandom();  ///< Source of the jitter; used by one thread at a time.
  };
  /// Connects for the first time. Errors are those of `connect`.
  static StatusOr<std::shared_ptr<DataTransport>> Open(Options options);
  /// Opens a transport over connections that ConnectData makes.
  static StatusOr<std::shared_ptr<DataTransport>> Open(
      std::shared_ptr<Transport> control, const DataOptions& options,
      std::function<void(const DataReport&)> on_other_way = {}, const DataSeams& seams = {});

  /// Report of the latest connection.
  DataReport report() const;
  TransportCapabilities capabilities() const override;
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override;
  StatusOr<OwnedMemory> AllocateLandingMemory(uint64_t bytes) override;

 private:
  using Connection = std::shared_ptr<Transport>;
  class DataLanding;
  class HeldCall;
  struct Bound;

  explicit DataTransport(Options options) : options_(std::move(options)) {}

  /// The connection, made anew when there is none, within `timeout`; waits for no longer than that
  /// while another thread makes it.
  StatusOr<Connection> Current(Duration timeout) QUIRE_EXCLUDES(mutex_);
  /// Returns the connection; null when the caller has to connect.
  StatusOr<Connection> AcquireOrConnect(TimePoint deadline) QUIRE_EXCLUDES(mutex_);
  /// Adopts the connection that `connect` made, or its failure. Sets `other_way` when the change is
  /// to be reported.
  StatusOr<Connection> AdoptConnection(StatusOr<DataConnection> made,
                                       std::optional<DataReport>* other_way) QUIRE_EXCLUDES(mutex_);
  /// Drops the dead `connection`, unless that is done already.
  void OnConnectionLost(const Connection& connection, const Status& why) QUIRE_EXCLUDES(mutex_);
  /// Delays the next attempt, each time for longer.
  void BackOff(const Status& why) QUIRE_REQUIRES(mutex_);

  /// Binds `options` to `connection`; INVALID_ARGUMENT for a landing of another transport.
  StatusOr<Bound> Bind(const Connection& connection, const CallOptions& options) const;

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;
  Connection connection_ QUIRE_GUARDED_BY(mutex_);
  TransportCapabilities capabilities_ QUIRE_GUARDED_BY(mutex_);
  DataReport report_ QUIRE_GUARDED_BY(mutex_);
  bool connecting_ QUIRE_GUARDED_BY(mutex_) = false;
  TimePoint made_at_ QUIRE_GUARDED_BY(mutex_);
  TimePoint not_before_ QUIRE_GUARDED_BY(mutex_) = TimePoint::min();
  uint32_t failures_ QUIRE_GUARDED_BY(mutex_) = 0;  ///< In a row.
  Status last_failure_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_DATA_DATA_TRANSPORT_H_
