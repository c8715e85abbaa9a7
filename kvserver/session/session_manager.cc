// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session_manager.h"

#include <numeric>
#include <utility>

namespace quire::kvserver {
namespace {

constexpr uint32_t kMaxSlotsPerHead = 65536;

/// The layers that a session manages, checked.
StatusOr<std::vector<uint32_t>> ManagedLayers(const std::vector<uint32_t>& asked,
                                              uint32_t num_layers) {
  std::vector<uint32_t> layers = asked;
  if (layers.empty()) {
    layers.resize(num_layers);
    std::iota(layers.begin(), layers.end(), 0u);
  }
  std::vector<bool> seen(num_layers);
  for (const uint32_t layer : layers) {
    if (layer >= num_layers || seen[layer]) {
      return InvalidArgument("managed layer ", layer, " is named twice or not below the model's ",
                             num_layers);
    }
    seen[layer] = true;
  }
  return layers;
}

}  // namespace

SessionManager::SessionManager(const Options& options)
    : options_(options),
      selector_(*options.ops),
      sessions_({.noun = "session",
                 .option = "--max-sessions",
                 .max_per_tenant = options.max_sessions_per_tenant,
                 .idle_expiry = options.idle_expiry,
                 .clock = options.clock}) {
  shared_.store = options.store;
  shared_.selector = &selector_;
  shared_.max_reply_bytes = options.max_reply_bytes;
}

StatusOr<SessionManager::Opened> SessionManager::Open(std::string_view tenant,
                                                      const OpenArgs& args) {
  QUIRE_ASSIGN_OR_RETURN(ReadableContext context, options_.resolver->Resolve(tenant, args.context));
  Opened opened;
  opened.view = context.view();
  QUIRE_ASSIGN_OR_RETURN(Session::Options session_options, CheckOpen(tenant, *opened.view, args));
  QUIRE_ASSIGN_OR_RETURN(opened.tail_tokens,
                         ShortPageTokens(*options_.store, tenant, *opened.view));
  auto session =
      std::make_shared<Session>(&shared_, std::move(context), std::move(session_options));
  opened.epoch = session->epoch();
  QUIRE_ASSIGN_OR_RETURN(opened.id, sessions_.Insert(tenant, std::move(session)));
  return opened;
}

StatusOr<Session::Options> SessionManager::CheckOpen(std::string_view tenant,
                                                     const ContextView& view,
                                                     const OpenArgs& args) const {
  if (const std::string difference = FirstDifference(*view.spec, args.spec); !difference.empty()) {
    return InvalidArgument("the KvSpec differs from the context's in ", difference,
                           ": read it with the model that wrote it");
  }
  if (args.slots_per_head < 1 || args.slots_per_head > kMaxSlotsPerHead) {
    return InvalidArgument("slots_per_head is ", args.slots_per_head, ": must be 1..",
                           kMaxSlotsPerHead);
  }
  Session::Options options{std::string(tenant), args.slots_per_head, {}};
  QUIRE_ASSIGN_OR_RETURN(options.managed_layers,
                         ManagedLayers(args.managed_layers, view.spec->num_layers));
  const uint64_t map_bytes = ResidentMap::Bytes(options.managed_layers.size(),
                                                view.spec->num_kv_heads, args.slots_per_head);
  if (map_bytes > options_.max_map_bytes) {
    return ResourceExhausted("the session's resident map would take ", map_bytes,
                             " bytes, more than ", options_.max_map_bytes,
                             ": ask for fewer slots or layers");
  }
  return options;
}

void SessionManager::VisitMetrics(MetricsVisitor& visit) const {
  visit.Gauge("sessions_open", "Open sessions.", sessions_.size());
  visit.Counter("session_recalls", "Recalls answered.", shared_.recalls.Get());
  visit.Counter("session_units_wanted", "Units that recalls selected.", shared_.units_wanted.Get());
  visit.Counter("session_units_sent", "Units that workers did not hold and were sent.",
                shared_.units_sent.Get());
  visit.Counter("session_resyncs", "Resident maps replaced by what the worker holds.",
                shared_.resyncs.Get());
  selector_.VisitMetrics(visit);
}

}  // namespace quire::kvserver
