// SPDX-License-Identifier: Apache-2.0
//
// SessionManager: the sessions of all tenants: bounded in number and size, forgotten when idle.
// Thread-safety: safe for concurrent use. Ownership: store, resolver and kernels outlive it.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_
#define QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "kernels/api/table.h"
#include "kvserver/select/selector.h"
#include "kvserver/session/context_resolver.h"
#include "kvserver/session/session.h"
#include "kvserver/session/tenant_table.h"

namespace quire::kvserver {

class SessionManager {
 public:
  struct Options {
    uint32_t max_sessions_per_tenant = 256;
    uint64_t max_map_bytes = uint64_t{64} << 20;    ///< Resident map of one session.
    uint64_t max_reply_bytes = uint64_t{60} << 20;  ///< Payload of one reply.
    Duration idle_expiry = std::chrono::minutes(10);
    PageStore* store = nullptr;                 ///< Required.
    ContextResolver* resolver = nullptr;        ///< Required.
    const kernels::KernelTable* ops = nullptr;  ///< Required.
    Clock* clock = nullptr;                     ///< Required.
  };
  explicit SessionManager(const Options& options);

  struct OpenArgs {
    ContextRef context;
    KvSpec spec;                           ///< Must equal the context's.
    uint32_t slots_per_head = 0;           ///< 1..65536
    std::vector<uint32_t> managed_layers;  ///< All when empty.
  };
  struct Opened {
    uint64_t id = 0;
    uint64_t epoch = 0;
    ContextViewPtr view;
    std::vector<TokenId> tail_tokens;  ///< Of the short last page.
  };
  /// Errors: INVALID_ARGUMENT naming the first field in which the specs differ, or for shapes out
  /// of range; RESOURCE_EXHAUSTED for too many sessions or too large a map; NOT_FOUND.
  [[nodiscard]] StatusOr<Opened> Open(std::string_view tenant, const OpenArgs& args);
  [[nodiscard]] StatusOr<std::shared_ptr<Session>> Find(std::string_view tenant, uint64_t id) {
    return sessions_.Find(tenant, id);
  }
  /// False when there was none.
  bool Close(std::string_view tenant, uint64_t id) {
    return sessions_.Remove(tenant, id) != nullptr;
  }

  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  StatusOr<Session::Options> CheckOpen(std::string_view tenant, const ContextView& view,
                                       const OpenArgs& args) const;

  const Options options_;
  Selector selector_;
  SessionShared shared_;
  TenantTable<Session> sessions_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_MANAGER_H_
