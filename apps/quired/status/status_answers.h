// SPDX-License-Identifier: Apache-2.0
//
// The answers that the page of a server reads. Names of documents belong to tenants: they are
// answered only where the options allow it. Ids of sessions, by which they could be used, are never
// answered. Thread-safety: the makers may be called from any one thread at a time.
#ifndef QUIRE_APPS_QUIRED_STATUS_STATUS_ANSWERS_H_
#define QUIRE_APPS_QUIRED_STATUS_STATUS_ANSWERS_H_

#include <functional>
#include <string>
#include <vector>

#include "apps/quired/status/status_history.h"
#include "common/base/observe/health.h"
#include "common/metrics/admin_server.h"
#include "kvserver/service/server.h"

namespace quire::kvserver {

/// The page, and the paths of its answers: /status, /documents, /collections, /pages. `names` are
/// those of the server.
AdminSite StatusSite(std::vector<std::string> names);

/// Sources of the answers; all outlive the makers.
struct StatusSources {
  const Server* server = nullptr;
  const Health* health = nullptr;
  const StatusHistory* history = nullptr;
  std::function<void(MetricsVisitor&)> visit_metrics;
  std::vector<std::string> tenants;
  std::string node;             ///< Empty outside a cluster.
  bool shows_documents = true;  ///< Names of documents and collections are answered.
};

/// /status?after=N: version, troubles, tenants, sessions, slow calls, metrics, and the history
/// after step N. /documents, /collections and /pages: see document_search.h.
AnswerMakers StatusAnswers(const StatusSources& sources);

}  // namespace quire::kvserver

#endif  // QUIRE_APPS_QUIRED_STATUS_STATUS_ANSWERS_H_
