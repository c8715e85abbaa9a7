// SPDX-License-Identifier: Apache-2.0
//
// SessionManager: the sessions of all tenants, bounded in number and size. A session lives for as
// long as its lease is renewed (tenant_table.h).
// Thread-safety: safe for concurrent use. Ownership: store, resolver and kernels outlive it.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_
#define QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/executor.h"
#include "common/base/metrics.h"
#include "kernels/api/table.h"
#include "kvserver/select/digest_residency.h"
#include "kvserver/select/selector.h"
#include "kvserver/session/context_resolver.h"
#include "kvserver/session/session.h"
#include "kvserver/session/tenant_table.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class SessionManager {
 public:
  struct Options {
    uint32_t max_sessions_per_tenant = 256;
    uint64_t max_map_bytes = uint64_t{64} << 20;    ///< Resident maps of one session.
    uint64_t max_reply_bytes = uint64_t{60} << 20;  ///< Payload of one part of a reply.
    DigestTable::Limits digests = DigestResidency::kDefaultLimits;  ///< Held for sessions.
    Duration lease = std::chrono::seconds(30);  ///< Of a session, without a sign of life.
    PageStore* store = nullptr;                 ///< Required.
    ContextResolver* resolver = nullptr;        ///< Required.
    const kernels::KernelTable* ops = nullptr;  ///< Required.
    Clock* clock = nullptr;                     ///< Required.
    /// Required. Reads digests in the background: its tasks are over before the store goes, and may
    /// outlive the manager.
    Executor* executor = nullptr;
  };
  explicit SessionManager(const Options& options);

  /// A context that a sequence is to read.
  struct MemberArgs {
    ContextRef context;
    int64_t position_offset = 0;  ///< -2^31..2^31-1; not 0 only where the spec allows to rotate.
  };
  /// A sequence of a session.
  struct SequenceArgs {
    std::vector<MemberArgs> members;  ///< 1..64
    uint32_t slots_per_head = 0;      ///< 1..the session's; 0: all of those.
  };
  struct OpenArgs {
    std::vector<SequenceArgs> sequences;   ///< 1..256
    KvSpec spec;                           ///< Must equal every context's.
    uint32_t slots_per_head = 0;           ///< 1..65536; the most that a sequence may have.
    std::vector<uint32_t> managed_layers;  ///< All when empty.
    /// Digests to hold from the start; all managed layers when it names none.
    std::optional<HeldDigests> hold_digests = {};
    UnitPart part = UnitPart::kWhole;  ///< kValues only where units have values.
  };
  struct OpenedMember {
    ContextViewPtr view;
    std::vector<TokenId> tail_tokens;  ///< Of the short last page.
  };
  using OpenedSequence = std::vector<OpenedMember>;
  struct Opened {
    uint64_t id = 0;
    uint64_t epoch = 0;
    std::vector<OpenedSequence> sequences;
  };
  struct AddedSequence {
    uint32_t number = 0;
    OpenedSequence opened;
  };
  /// Errors: INVALID_ARGUMENT naming the first field in which the specs differ, or for shapes out
  /// of range; RESOURCE_EXHAUSTED for too many sessions, too large maps, or contexts too large to
  /// describe in one reply; NOT_FOUND.
  [[nodiscard]] StatusOr<Opened> Open(std::string_view tenant, const OpenArgs& args);
  /// Adds a sequence to a session. Errors as in Open.
  [[nodiscard]] StatusOr<AddedSequence> AddSequence(std::string_view tenant, uint64_t id,
                                                    const SequenceArgs& args);
  [[nodiscard]] StatusOr<std::shared_ptr<Session>> Find(std::string_view tenant, uint64_t id) {
    return sessions_.Find(tenant, id);
  }
  /// Renews leases; the ids of which there are no sessions any more, in order.
  [[nodiscard]] std::vector<uint64_t> Renew(std::string_view tenant,
                                            std::span<const uint64_t> ids) {
    return sessions_.Renew(tenant, ids);
  }
  Duration lease() const { return options_.lease; }
  /// Ends sessions whose lease has run out.
  void RemoveExpired() { sessions_.RemoveExpired(); }
  /// False when there was none. Its landings are revoked.
  bool Close(std::string_view tenant, uint64_t id);

  /// Verifies the digests that are held for sessions; may outlive this.
  std::unique_ptr<ScrubWork> ScrubHeldDigests() const { return residency_->Scrub(); }

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  StatusOr<SessionShape> CheckShape(std::string_view tenant, const OpenArgs& args) const;
  /// The members of a sequence, found and checked; takes what describes them from `*reply_bytes`,
  /// which are left.
  StatusOr<std::vector<MemberContext>> OpenMembers(std::string_view tenant, const KvSpec& spec,
                                                   std::span<const MemberArgs> args,
                                                   uint64_t* reply_bytes,
                                                   OpenedSequence* opened) const;

  const Options options_;
  Selector selector_;
  const std::shared_ptr<DigestResidency> residency_;
  SessionShared shared_;
  TenantTable<Session> sessions_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_
