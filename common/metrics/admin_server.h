// SPDX-License-Identifier: Apache-2.0
//
// AdminServer: a small read-only HTTP listener for people and monitoring, apart from the clients'
// port:
//   GET /metrics  Prometheus text (prometheus_text.h); 503 until there is a server to ask
//   GET /healthz  200 as long as the process answers
//   GET /readyz   200 while calls are served, 503 before and after; lists all degradations
//   and, with a site, pages for people and the answers that they read; 503 likewise
//
// Clients have bounded cost: three threads for all, one short request per connection, one deadline
// for the whole of it. The number of connections is bounded; the oldest makes room. A silent client
// delays no other one. Health is reported while metrics are made, and metrics while answers for
// people are. Answers of a site are only for its own pages, by names that are the server's own
// (same_origin.h). Thread-safety: all methods may be
// called from any thread. Errors: INVALID_ARGUMENT for a malformed address; UNAVAILABLE, naming the
// address, when it cannot be listened on.
#ifndef QUIRE_COMMON_METRICS_ADMIN_SERVER_H_
#define QUIRE_COMMON_METRICS_ADMIN_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "common/metrics/answer_queue.h"
#include "common/metrics/http_request.h"
#include "quire/status.h"

namespace quire {

/// The part of an admin port that is for people.
struct AdminSite {
  std::map<std::string, HttpReply, std::less<>> pages = {};  ///< By path; always there.
  std::set<std::string, std::less<>> answers = {};           ///< Paths that Serve has makers for.
  std::vector<std::string> names = {};                       ///< Names of the server (IsOwnName).
};

class AdminServer {
 public:
  using VisitMetrics = std::function<void(MetricsVisitor&)>;
  class Serving;

  /// Listens on "host:port" (port 0: any free one). Not ready at first. `health` may be null, and
  /// outlives the server.
  static StatusOr<std::unique_ptr<AdminServer>> Start(const std::string& address,
                                                      const Health* health = nullptr,
                                                      AdminSite site = {});
  /// Stops listening and finishes running requests.
  ~AdminServer();

  /// Address in use, with the actual port.
  const std::string& address() const;
  int port() const;

  /// Makes the server ready, with these metrics and answers of its site, while the result lives.
  /// Neither is called after that.
  [[nodiscard]] Serving Serve(VisitMetrics visit, AnswerMakers answers = {});

 private:
  struct Rep;
  explicit AdminServer(std::unique_ptr<Rep> rep);

  const std::unique_ptr<Rep> rep_;
};

/// Keeps the server ready while it lives. It is destroyed before the AdminServer.
class AdminServer::Serving {
 public:
  ~Serving() {
    if (rep_ != nullptr) End();
  }
  Serving(Serving&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  Serving& operator=(Serving&&) = delete;

  /// Ends readiness. Metrics stay readable while running calls finish.
  void Drain();

 private:
  friend class AdminServer;
  explicit Serving(Rep* rep) : rep_(rep) {}
  void End();

  Rep* rep_;
};

}  // namespace quire

#endif  // QUIRE_COMMON_METRICS_ADMIN_SERVER_H_
