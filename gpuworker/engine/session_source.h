// SPDX-License-Identifier: Apache-2.0
//
// SessionSource: where a sequence gets the lanes that its recalls go through. OwnSessions opens a
// session for each sequence. BatchSessions holds back requests until all sequences of a batch have
// made theirs. SharedSessions (shared_sessions.h) seats sequences in few sessions.
//
// Thread-safety: none; sessions, seats and what recalls through them belong to one thread.
#ifndef QUIRE_GPUWORKER_ENGINE_SESSION_SOURCE_H_
#define QUIRE_GPUWORKER_ENGINE_SESSION_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gpuworker/recall/recall_channel.h"
#include "kernels/api/digest.h"
#include "quire/client.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/session.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// Shape of the lanes of a sequence or a session.
struct LaneShape {
  uint32_t slots_per_head = 0;        ///< In a session, the most of any sequence.
  std::vector<uint32_t> layers = {};  ///< Managed ones.
  std::optional<kernels::DigestKind> held_digests = {};  ///< For queries that travel.
  UnitPart part = UnitPart::kWhole;                      ///< Part of a unit that recalls bring.
  CodecSet codecs = {};                                  ///< Codecs that units may come in.
  friend bool operator==(const LaneShape&, const LaneShape&) = default;
};

/// One sequence's place in a session. The destructor leaves the session; no recall of the sequence
/// may be in flight then.
class SessionSeat {
 public:
  virtual ~SessionSeat() = default;
  virtual ClientSession& session() = 0;
  virtual uint32_t sequence() const = 0;  ///< Its number in the session.
  virtual RecallChannel& channel() = 0;
  /// Marks the sequence as lost or the server as unreachable. Leaving then makes no call.
  virtual void Lose() = 0;
};

class SessionSource {
 public:
  virtual ~SessionSource() = default;
  /// A seat for a sequence that reads `context`. Errors as Client::OpenSession, and
  /// StagingArea::Reserve.
  virtual StatusOr<std::unique_ptr<SessionSeat>> Seat(const ContextRef& context,
                                                      const LaneShape& shape) = 0;
};

/// Sessions of a batch. Requests of its sequences leave together, in few messages.
class BatchSessions : public SessionSource {
 public:
  /// Sends what the sequences have asked for.
  virtual void Send() = 0;
  /// Recall messages sent so far, and the lanes that they asked for.
  virtual uint64_t messages() const = 0;
  virtual uint64_t lanes() const = 0;
};

/// The options that a session of `shape` is opened with.
SessionOptions SessionOptionsOf(const KvSpec& spec, const LaneShape& shape);

/// A session for each sequence.
class OwnSessions final : public SessionSource {
 public:
  /// Both outlive the source and its seats.
  OwnSessions(Client* client, const KvSpec* spec) : client_(client), spec_(spec) {}
  StatusOr<std::unique_ptr<SessionSeat>> Seat(const ContextRef& context,
                                              const LaneShape& shape) override;

 private:
  Client* const client_;
  const KvSpec* const spec_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_SESSION_SOURCE_H_
