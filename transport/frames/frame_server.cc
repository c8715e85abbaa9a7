// SPDX-License-Identifier: Apache-2.0
#include "transport/frames/frame_server.h"

#include <algorithm>
#include <utility>

#include "common/base/random.h"
#include "common/base/retry_hint.h"

namespace quire {
namespace {

constexpr Duration kSweepPeriod = std::chrono::milliseconds(500);
constexpr Duration kRetryConnectingAfter = std::chrono::seconds(1);

ServerConnection::Limits LimitsOf(const FrameServer::Options& options) {
  return {.max_message_bytes = options.max_message_bytes,
          .part_bytes = options.part_bytes,
          .max_window_bytes = options.max_window_bytes,
          .max_request_bytes = options.max_request_bytes,
          .max_calls = options.max_calls,
          .hello_timeout = options.hello_timeout,
          .stall_timeout = options.stall_timeout};
}

}  // namespace

FrameServer::FrameServer(CallHandler* handler, TicketChecker check_ticket, const Options& options)
    : handler_(handler),
      check_ticket_(std::move(check_ticket)),
      options_(options),
      threads_(options.max_threads),
      sweeper_(std::min<Duration>(kSweepPeriod, options.stall_timeout), [this] { Sweep(); }) {}

FrameServer::~FrameServer() { Shutdown(); }

void FrameServer::Accept(std::unique_ptr<FramePipe> pipe) {
  ConnectionPtr connection;
  bool is_full = false;
  {
    MutexLock lock(mutex_);
    is_full = connections_.size() >= options_.max_connections;
    if (!closed_ && !is_full) {
      const uint64_t id = NewId();
      connection = std::make_shared<ServerConnection>(
          std::move(pipe), id, LimitsOf(options_),
          ServerConnection::Parts{.handler = handler_,
                                  .threads = &threads_,
                                  .counters = &counters_,
                                  .health = options_.health,
                                  .admit = [this](ServerConnection& c, const FrameHead& hello) {
                                    return Admit(c, hello);
                                  }});
      connections_[id] = connection;
      kinds_.emplace(connection->kind());
      connection->Start();
      return;
    }
  }
  counters_.hello_refused.Add();
  if (is_full) {
    NoteTo(options_.health, Trouble::kCallRefused,
           "a connection was closed at once: there are " +
               std::to_string(options_.max_connections) + ", which is the limit");
  }
  pipe->Close();
}

uint64_t FrameServer::NewId() {
  uint64_t id = 0;
  while (id == 0 || connections_.contains(id)) id = SystemRandom().Next();
  return id;
}

Status FrameServer::Admit(ServerConnection& connection, const FrameHead& hello) {
  QUIRE_ASSIGN_OR_RETURN(const std::string tenant, check_ticket_(connection.kind(), hello.text));
  if (tenant != hello.name) {
    return PermissionDenied("the ticket was not given to tenant ", hello.name);
  }
  MutexLock lock(mutex_);
  const auto open = std::count_if(connections_.begin(), connections_.end(), [&](const auto& entry) {
    return entry.second->IsOpenFor(tenant);
  });
  if (static_cast<uint64_t>(open) >= options_.max_connections_per_tenant) {
    return WithRetryAfter(ResourceExhausted("tenant ", tenant, " has ", open,
                                            " connections, which is the limit; close one first"),
                          kRetryConnectingAfter);
  }
  connection.BecomeOpen(tenant);
  return OkStatus();
}

FrameServer::ConnectionPtr FrameServer::Find(std::string_view tenant, uint64_t connection) const {
  MutexLock lock(mutex_);
  const auto it = connections_.find(connection);
  if (it == connections_.end() || !it->second->IsOpenFor(tenant)) return nullptr;
  return it->second;
}

Status FrameServer::OpenLanding(std::string_view tenant, uint64_t connection, uint64_t landing,
                                std::string_view key, uint64_t bytes) {
  if (landing == 0 || bytes == 0 || bytes > wire::kMaxLandingBytes ||
      key.size() > wire::kMaxLandingKeyBytes) {
    return InvalidArgument("landing ", landing, " of ", bytes, " bytes with a key of ", key.size(),
                           " bytes is out of range");
  }
  const ConnectionPtr found = Find(tenant, connection);
  if (found == nullptr) return NotFound("the tenant has no such connection");
  return found->OpenLanding(landing, key, bytes);
}

Status FrameServer::CloseLanding(std::string_view tenant, uint64_t connection, uint64_t landing) {
  if (const ConnectionPtr found = Find(tenant, connection)) found->CloseLanding(landing);
  return OkStatus();
}

void FrameServer::Sweep() {
  std::vector<ConnectionPtr> alive, ended;  // Destroyed outside the lock.
  {
    MutexLock lock(mutex_);
    for (auto it = connections_.begin(); it != connections_.end();) {
      const bool finished = it->second->IsFinished();
      (finished ? ended : alive).push_back(it->second);
      it = finished ? connections_.erase(it) : std::next(it);
    }
  }
  const TimePoint now = SystemClock().Now();
  for (const ConnectionPtr& connection : alive) connection->KillIfStuck(now);
  for (const ConnectionPtr& connection : ended) connection->Join();
}

void FrameServer::Shutdown(Duration grace) {
  std::map<uint64_t, ConnectionPtr> connections;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    connections = connections_;
  }
  const TimePoint limit = SystemClock().Now() + grace;
  for (const auto& [id, connection] : connections) connection->Drain();
  for (const auto& [id, connection] : connections) connection->AwaitIdle(limit);
  for (const auto& [id, connection] : connections) connection->Close();
  for (const auto& [id, connection] : connections) connection->Join();
  MutexLock lock(mutex_);
  connections_.clear();  // The last reference is `connections`.
}

void FrameServer::VisitMetrics(MetricsVisitor& visit) const {
  std::map<std::string, uint64_t> by_kind;
  {
    MutexLock lock(mutex_);
    for (const std::string& kind : kinds_) by_kind[kind] = 0;
    for (const auto& [id, connection] : connections_) {
      if (!connection->IsFinished()) ++by_kind[std::string(connection->kind())];
    }
  }
  for (const auto& [kind, count] : by_kind) {
    visit.Gauge("transport_connections", "Connections of clients that are there.", count,
                {{"kind", kind}});
  }
  visit.Counter("transport_calls", "Calls that came over connections.", counters_.calls.Get());
  visit.Counter("transport_calls_refused",
                "Calls that a connection refused because too many ran or they were too large.",
                counters_.calls_refused.Get());
  visit.Counter("transport_bytes_sent", "Payload bytes of reply parts sent over connections.",
                counters_.bytes_sent.Get());
  visit.Counter("transport_cancelled", "Calls over connections that the client cancelled.",
                counters_.cancelled.Get());
  visit.Counter("transport_stalled",
                "Calls and connections ended because the client took no bytes for too long.",
                counters_.stalled.Get());
  visit.Counter("transport_hello_refused", "Connections that were refused.",
                counters_.hello_refused.Get());
}

}  // namespace quire
