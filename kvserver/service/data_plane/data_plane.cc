// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/data_plane/data_plane.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

namespace quire::kvserver {
namespace {

/// All kinds of transports.
constexpr std::array<std::string_view, 3> kFastestFirst = {"shm", "ucx", "grpc"};

auto RankOf(const DataPlane::Way& way) {
  return std::ranges::find(kFastestFirst, way.kind) - kFastestFirst.begin();
}

}  // namespace

DataPlane::DataPlane(const Options& options)
    : host_id_(options.host_id),
      tickets_({.clock = options.clock}),
      frames_(
          options.handler,
          [this](std::string_view kind, std::string_view ticket) {
            return tickets_.Redeem(ticket, kind);
          },
          options.frames) {}

PipeListener::Accept DataPlane::accept() {
  return [this](std::unique_ptr<FramePipe> pipe) { frames_.Accept(std::move(pipe)); };
}

void DataPlane::Add(std::unique_ptr<PipeListener> listener) {
  MutexLock lock(mutex_);
  listeners_.push_back(std::move(listener));
}

void DataPlane::OfferGrpc() {
  MutexLock lock(mutex_);
  grpc_ = true;
}

std::vector<DataPlane::Way> DataPlane::ways() const {
  MutexLock lock(mutex_);
  std::vector<Way> ways;
  for (const auto& listener : listeners_) {
    ways.push_back({std::string(listener->kind()), listener->address()});
  }
  if (grpc_) ways.push_back({"grpc", ""});
  std::ranges::stable_sort(ways, {}, RankOf);
  return ways;
}

StatusOr<std::vector<DataPlane::Offer>> DataPlane::Offers(std::string_view tenant) {
  const std::vector<Way> ways = this->ways();
  std::vector<std::string> kinds;
  kinds.reserve(ways.size());
  for (const Way& way : ways) kinds.push_back(way.kind);
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> tickets, tickets_.Issue(tenant, kinds));
  std::vector<Offer> offers;
  for (size_t i = 0; i < ways.size(); ++i) {
    offers.push_back({.way = ways[i],
                      .ticket = std::move(tickets[i]),
                      .host = ways[i].kind == "shm" ? host_id_ : std::string()});
  }
  offers_.Add();
  return offers;
}

Status DataPlane::OpenLanding(std::string_view tenant, uint64_t connection, uint64_t landing,
                              std::string_view key, uint64_t bytes) {
  return frames_.OpenLanding(tenant, connection, landing, key, bytes);
}

Status DataPlane::CloseLanding(std::string_view tenant, uint64_t connection, uint64_t landing) {
  return frames_.CloseLanding(tenant, connection, landing);
}

void DataPlane::Shutdown(Duration grace) {
  std::vector<std::unique_ptr<PipeListener>> listeners;
  {
    MutexLock lock(mutex_);
    listeners.swap(listeners_);
    grpc_ = false;
  }
  listeners.clear();
  frames_.Shutdown(grace);
}

void DataPlane::VisitMetrics(MetricsVisitor& visit) const {
  frames_.VisitMetrics(visit);
  {
    MutexLock lock(mutex_);
    std::map<std::string_view, uint64_t> leased;  // There may be two listeners of a kind.
    for (const auto& listener : listeners_) leased[listener->kind()] += listener->leased_bytes();
    for (const auto& [kind, bytes] : leased) {
      visit.Gauge("transport_leased_bytes",
                  "Bytes of the server's memory that clients of a listener hold leases on.", bytes,
                  {{"kind", kind}});
    }
    for (const auto& listener : listeners_) {
      const std::optional<SentPayload> sent = listener->sent_payload();
      if (!sent) continue;
      visit.Counter("transport_lent_bytes",
                    "Payload bytes that clients were sent where they lie in the server's memory.",
                    sent->lent_bytes, {{"kind", listener->kind()}});
      visit.Counter("transport_copied_bytes",
                    "Payload bytes that the server copied for clients to which it could not lend "
                    "them.",
                    sent->copied_bytes, {{"kind", listener->kind()}});
    }
  }
  visit.Counter("transport_offers", "Offers of data connections, with tickets, that were made.",
                offers_.Get());
  visit.Gauge("transport_tickets", "Tickets of offers that are neither used nor expired.",
              tickets_.unused());
}

}  // namespace quire::kvserver
