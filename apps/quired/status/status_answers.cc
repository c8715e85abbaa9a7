// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/status/status_answers.h"

#include <charconv>
#include <chrono>
#include <utility>

#include "apps/quired/status/document_search.h"
#include "apps/quired/status/json_reply.h"
#include "apps/quired/status/metrics_json.h"
#include "apps/quired/status/status_page.h"
#include "kvserver/service/slow/slow_calls.h"
#include "kvserver/session/session_manager.h"
#include "nlohmann/json.hpp"
#include "quire/version.h"

namespace quire::kvserver {
namespace {

using nlohmann::json;

constexpr size_t kMostSessions = 50;
constexpr size_t kMostSlowCalls = 50;

json Troubles(const Health& health) {
  json troubles = json::array();
  for (const Health::Degradation& degradation : health.Degradations()) {
    troubles.push_back({{"reason", Name(degradation.trouble)},
                        {"detail", degradation.detail},
                        {"since_unix_micros", degradation.since_unix_micros}});
  }
  return troubles;
}

json Sessions(const SessionManager& sessions) {
  json list = json::array();
  for (const SessionManager::OpenSession& session : sessions.List(kMostSessions)) {
    const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(session.idle);
    list.push_back({{"tenant", session.tenant},
                    {"model", session.model},
                    {"sequences", session.sequences},
                    {"layers", session.layers},
                    {"slots_per_head", session.slots_per_head},
                    {"idle_ms", idle.count()}});
  }
  return list;
}

json Slow(const SlowCalls& slow) {
  json list = json::array();
  for (const SlowCall& call : slow.Slowest(kMostSlowCalls)) {
    const auto waited = [&](WaitedFor what) { return call.waits.of(what).count(); };
    list.push_back({{"method", call.method},
                    {"tenant", call.tenant},
                    {"code", Name(call.code)},
                    {"ended_unix_micros", call.ended_unix_micros},
                    {"nanos", call.time.count()},
                    {"request_bytes", call.request_bytes},
                    {"reply_bytes", call.reply_bytes},
                    {"waits",
                     {{"queue", waited(WaitedFor::kQueue)},
                      {"gate", waited(WaitedFor::kGate)},
                      {"dram", waited(WaitedFor::kDram)},
                      {"ssd", waited(WaitedFor::kSsd)},
                      {"selection", waited(WaitedFor::kSelection)},
                      {"network", waited(WaitedFor::kNetwork)}}}});
  }
  return list;
}

/// 0 for a number that is none.
uint64_t NumberOf(std::string_view query, std::string_view name) {
  const std::string text = QueryValue(query, name).value_or("");
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

HttpReply WholeStatus(const StatusSources& sources, const HttpRequest& request) {
  MetricsJson metrics;
  sources.visit_metrics(metrics);
  return JsonReply(200, {{"version", QUIRE_VERSION},
                         {"node", sources.node},
                         {"now_unix_micros", SystemClock().UnixMicros()},
                         {"degraded", Troubles(*sources.health)},
                         {"tenants", sources.tenants},
                         {"shows_documents", sources.shows_documents},
                         {"sessions", Sessions(sources.server->sessions())},
                         {"slow", Slow(sources.server->slow_calls())},
                         {"history", sources.history->After(NumberOf(request.query, "after"))},
                         {"metrics", metrics.Take()}});
}

HttpReply Hidden(const HttpRequest&) {
  return JsonError(PermissionDenied(
      "names of documents are not shown here: tenants prove themselves to this server, or others "
      "reach its admin port; --admin-documents shows them all the same"));
}

}  // namespace

AdminSite StatusSite(std::vector<std::string> names) {
  return {.pages = {{"/", StatusPage()}},
          .answers = {"/status", "/documents", "/collections", "/pages"},
          .names = std::move(names)};
}

AnswerMakers StatusAnswers(const StatusSources& sources) {
  AnswerMakers answers;
  answers["/status"] = [sources](const HttpRequest& request) {
    return WholeStatus(sources, request);
  };
  answers["/documents"] = answers["/collections"] = answers["/pages"] = Hidden;
  if (!sources.shows_documents) return answers;
  DocumentRegistry& registry = sources.server->registry();
  answers["/documents"] = [&registry](const HttpRequest& request) {
    return SearchDocuments(registry, request.query);
  };
  answers["/collections"] = [&registry](const HttpRequest& request) {
    return ListCollections(registry, request.query);
  };
  ContextResolver& resolver = sources.server->resolver();
  answers["/pages"] = [&resolver](const HttpRequest& request) {
    return ShowPages(resolver, request.query);
  };
  return answers;
}

}  // namespace quire::kvserver
