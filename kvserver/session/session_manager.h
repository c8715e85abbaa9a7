// SPDX-License-Identifier: Apache-2.0
//
// SessionManager: the sessions of all tenants, bounded in number and size. A session lives while
// its lease is renewed (tenant_table.h). Thread-safety: safe for concurrent use. Ownership: store,
// resolver and kernels outlive it.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_
#define QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/metrics.h"
#include "common/base/threads/executor.h"
#include "kernels/api/table.h"
#include "kvserver/select/digest_residency.h"
#include "kvserver/select/selector.h"
#include "kvserver/session/context/context_resolver.h"
#include "kvserver/session/context/tenant_table.h"
#include "kvserver/session/session.h"
#include "quire/clock.h"
#include "quire/hints.h"
#include "quire/status.h"

namespace quire::kvserver {

class SessionManager {
 public:
  struct Options {
    uint32_t max_sessions_per_tenant = 256;
    uint64_t max_map_bytes = uint64_t{64} << 20;  ///< Limit of the resident maps of one session.
    uint64_t max_reply_bytes = uint64_t{60}
                               << 20;  ///< Limit of the payload of one part of a reply.
    /// Limits of digests held for sessions.
    DigestTable::Limits digests = DigestResidency::kDefaultLimits;
    Duration lease = std::chrono::seconds(30);  ///< Lease of a session.
    PageStore* store = nullptr;                 ///< Required.
    ContextResolver* resolver = nullptr;        ///< Required.
    const kernels::KernelTable* ops = nullptr;  ///< Required.
    Clock* clock = nullptr;                     ///< Required.
    /// Required. Runs background reading of digests. Its tasks end before the store, and may
    /// outlive the manager.
    Executor* executor = nullptr;
  };
  explicit SessionManager(const Options& options);

  /// A context for a sequence to read.
  struct MemberArgs {
    ContextRef context;
    int64_t position_offset = 0;  ///< -2^31..2^31-1; 0 unless the spec allows rotation.
  };
  /// A sequence of a session.
  struct SequenceArgs {
    std::vector<MemberArgs> members;  ///< 1..64
    uint32_t slots_per_head = 0;      ///< 1..the session's; 0: all of the session's.
    Hints hints = {};                 ///< Hints of the stored segments of its members.
  };
  struct OpenArgs {
    std::vector<SequenceArgs> sequences;   ///< 1..256
    KvSpec spec;                           ///< Must equal every context's.
    uint32_t slots_per_head = 0;           ///< 1..65536; most slots of a sequence.
    std::vector<uint32_t> managed_layers;  ///< All when empty.
    /// Digests to hold from the start; no layers means all managed ones.
    std::optional<HeldDigests> hold_digests = {};
    UnitPart part = UnitPart::kWhole;  ///< kValues only where units have values.
    CodecSet codecs = {};              ///< Codecs that the worker decodes; none with kValues.
  };
  struct OpenedMember {
    ContextViewPtr view;
    std::vector<TokenId> tail_tokens;  ///< Token ids of the short last page.
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
  /// Opens a session. INVALID_ARGUMENT names the first difference of the specs, or a shape out of
  /// range. RESOURCE_EXHAUSTED for too many sessions, too large maps, or contexts too large to
  /// describe in one reply. NOT_FOUND for a missing context.
  [[nodiscard]] StatusOr<Opened> Open(std::string_view tenant, const OpenArgs& args);
  /// Adds a sequence to a session. Errors as Open.
  [[nodiscard]] StatusOr<AddedSequence> AddSequence(std::string_view tenant, uint64_t id,
                                                    const SequenceArgs& args);
  [[nodiscard]] StatusOr<std::shared_ptr<Session>> Find(std::string_view tenant, uint64_t id) {
    return sessions_.Find(tenant, id);
  }
  /// Renews leases. Returns the ids without a session, in order.
  [[nodiscard]] std::vector<uint64_t> Renew(std::string_view tenant,
                                            std::span<const uint64_t> ids) {
    return sessions_.Renew(tenant, ids);
  }
  Duration lease() const { return options_.lease; }
  /// Ends sessions whose lease has run out.
  void RemoveExpired() { sessions_.RemoveExpired(); }
  /// Ends a session and revokes its landings. Returns false when there was none.
  bool Close(std::string_view tenant, uint64_t id);

  /// An open session, for people.
  struct OpenSession {
    std::string tenant;
    std::string model;
    uint32_t sequences = 0;
    uint32_t layers = 0;
    uint32_t slots_per_head = 0;
    Duration idle{0};  ///< Since its lease was renewed.
  };
  /// Sessions of all tenants in the order of their last use, at most `most`. Renews no lease.
  std::vector<OpenSession> List(size_t most) const;
  /// Sessions of a tenant.
  uint32_t Count(std::string_view tenant) const { return sessions_.Count(tenant); }

  /// Verifies digests held for sessions; may outlive this.
  std::unique_ptr<ScrubWork> ScrubHeldDigests() const { return residency_->Scrub(); }

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  StatusOr<SessionShape> CheckShape(std::string_view tenant, const OpenArgs& args) const;
  /// Resolves and checks the members of a sequence. Subtracts the size of their description from
  /// `*reply_bytes`.
  StatusOr<std::vector<MemberContext>> OpenMembers(std::string_view tenant, const KvSpec& spec,
                                                   const SequenceArgs& args, uint64_t* reply_bytes,
                                                   OpenedSequence* opened) const;

  const Options options_;
  Selector selector_;
  const std::shared_ptr<DigestResidency> residency_;
  SessionShared shared_;
  TenantTable<Session> sessions_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_
