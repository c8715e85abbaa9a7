// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/last_look.h"

#include <algorithm>
#include <map>

#include "quire/client.h"
#include "quire/clock.h"
#include "quire/connect.h"

namespace quire::torture {
namespace {

constexpr Duration kRepairPatience = std::chrono::seconds(30);
constexpr Duration kRepairPause = std::chrono::milliseconds(500);

using Writers = std::vector<std::unique_ptr<DocumentWriter>>;

/// Servers that list a document, by its name.
using Copies = std::map<std::string, std::vector<std::string>>;

StatusOr<Copies> FindCopies(const std::vector<std::string>& servers) {
  Copies copies;
  for (const std::string& server : servers) {
    QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(server));
    QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = transport}));
    QUIRE_ASSIGN_OR_RETURN(const auto documents, client->ListDocuments(kClusterCollection));
    for (const Document& document : documents) copies[document.name.name].push_back(server);
  }
  return copies;
}

void Read(const Writers& writers, LastLook* look) {
  for (const auto& writer : writers) {
    for (const uint32_t number : writer->kept()) {
      ++look->kept;
      const Status status = writer->Check(number);
      if (status.ok()) continue;
      ++(IsDataLoss(status) ? look->wrong : look->lost);
      if (look->first_trouble.empty()) {
        look->first_trouble = writer->NameOf(number).name + ": " + std::string(Message(status));
      }
    }
  }
}

Status Count(const Writers& writers, const std::vector<std::string>& servers, uint32_t replicas,
             LastLook* look) {
  QUIRE_ASSIGN_OR_RETURN(Copies copies, FindCopies(servers));
  for (const auto& writer : writers) {
    for (const uint32_t number : writer->kept()) {
      const auto num_copies = static_cast<uint32_t>(copies[writer->NameOf(number).name].size());
      look->copies_missing += replicas - std::min(replicas, num_copies);
    }
    for (const uint32_t number : writer->deleted()) {
      const auto copy = copies.find(writer->NameOf(number).name);
      if (copy == copies.end()) continue;
      ++look->resurrected;
      if (look->first_trouble.empty()) {
        look->first_trouble =
            copy->first + " was deleted, and is listed by " + copy->second.front();
      }
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<LastLook> LookAtCluster(const Writers& writers, const std::vector<std::string>& servers,
                                 uint32_t replicas) {
  const TimePoint deadline = SystemClock().Now() + kRepairPatience;
  for (;;) {
    LastLook look;
    Read(writers, &look);
    QUIRE_RETURN_IF_ERROR(Count(writers, servers, replicas, &look));
    const uint64_t troubles = look.lost + look.wrong + look.resurrected + look.copies_missing;
    if (troubles == 0 || SystemClock().Now() > deadline) return look;
    SystemClock().Sleep(kRepairPause);
  }
}

}  // namespace quire::torture
