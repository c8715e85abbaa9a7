// SPDX-License-Identifier: Apache-2.0
//
// LoopbackTransport: calls a CallHandler in the same process, in the caller's thread. The handler
// has returned when Start does. Payload slices are handed over with their owners. Only a landing
// costs a copy.
// Thread-safety: as Transport.
// Ownership: the handler must outlive the transport or Close(); pending calls need neither.
// Deadlines: a handler cannot be interrupted; a late answer is dropped.
#ifndef QUIRE_TRANSPORT_LOCAL_LOOPBACK_TRANSPORT_H_
#define QUIRE_TRANSPORT_LOCAL_LOOPBACK_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/threads/mutex.h"
#include "common/wire/limits.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire {

class LoopbackTransport final : public Transport {
 public:
  struct Options {
    /// Largest message in each direction, and largest part.
    uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;
    uint64_t part_bytes = 1 << 20;  ///< Part size that handlers should keep to.
    Clock* clock = nullptr;         ///< SystemClock() when null.
  };
  LoopbackTransport(CallHandler* handler, const Options& options);
  ~LoopbackTransport() override { Close(); }

  TransportCapabilities capabilities() const override;
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override;
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override;

  /// Waits for running calls to finish, and fails all later ones with UNAVAILABLE. The handler is
  /// not used after it. Idempotent. Do not call it from inside a handler.
  void Close() QUIRE_EXCLUDES(mutex_);

 private:
  /// The parts of a reply, and the status after them.
  struct Outcome {
    std::vector<CallMessage> parts;
    Status status;
  };
  class FinishedCall;

  /// False once closed. Each true result requires one Leave().
  bool Enter() QUIRE_EXCLUDES(mutex_);
  void Leave() QUIRE_EXCLUDES(mutex_);
  /// An error when the handler was not called.
  StatusOr<Outcome> Run(std::string_view method, const CallMessage& request,
                        const CallOptions& options, uint32_t max_parts);
  Outcome Handle(std::string_view method, const CallMessage& request, const CallOptions& options,
                 uint32_t max_parts);

  CallHandler* const handler_;
  const uint64_t max_message_bytes_;
  const uint64_t part_bytes_;
  Clock& clock_;
  Mutex mutex_;
  CondVar idle_;
  uint64_t running_ QUIRE_GUARDED_BY(mutex_) = 0;
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_LOCAL_LOOPBACK_TRANSPORT_H_
