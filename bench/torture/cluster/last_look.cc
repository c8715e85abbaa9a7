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
/// Patience where only documents are missing that no server lists.
constexpr Duration kAbsencePatience = std::chrono::seconds(3);
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

void Note(const std::string& trouble, LastLook* look) {
  if (look->first_trouble.empty()) look->first_trouble = trouble;
}

/// Reads a document as a client does, and then each copy of it.
void LookAtKept(DocumentWriter& writer, uint32_t number, const std::vector<std::string>& holders,
                uint32_t replicas, LastLook* look) {
  const std::string name = writer.NameOf(number).name;
  ++look->kept;
  if (holders.empty()) ++look->absent;
  const Reading found = writer.Read(number);
  if (found.kind != Reading::Kind::kRight) {
    ++(found.kind == Reading::Kind::kWrong ? look->wrong : look->lost);
    Note(name + ": " + std::string(Message(found.status)), look);
  }
  uint32_t sound = 0;
  for (const std::string& holder : holders) {
    const Reading copy = writer.ReadAt(holder, number);
    if (copy.kind == Reading::Kind::kRight) {
      ++sound;
      continue;
    }
    if (copy.kind == Reading::Kind::kWrong) ++look->wrong;
    Note(name + ": " + std::string(Message(copy.status)), look);
  }
  look->copies_missing += replicas - std::min(replicas, sound);
}

Status LookOnce(const Writers& writers, const std::vector<std::string>& servers, uint32_t replicas,
                LastLook* look) {
  QUIRE_ASSIGN_OR_RETURN(Copies copies, FindCopies(servers));
  for (const auto& writer : writers) {
    for (const uint32_t number : writer->kept()) {
      LookAtKept(*writer, number, copies[writer->NameOf(number).name], replicas, look);
    }
    for (const uint32_t number : writer->deleted()) {
      const auto copy = copies.find(writer->NameOf(number).name);
      if (copy == copies.end()) continue;
      ++look->resurrected;
      Note(copy->first + " was deleted, and is listed by " + copy->second.front(), look);
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<LastLook> LookAtCluster(const Writers& writers, const std::vector<std::string>& servers,
                                 uint32_t replicas) {
  const TimePoint start = SystemClock().Now();
  for (;;) {
    LastLook look;
    QUIRE_RETURN_IF_ERROR(LookOnce(writers, servers, replicas, &look));
    const uint64_t troubles = look.lost + look.wrong + look.resurrected + look.copies_missing;
    const bool only_absent = troubles == look.absent * (1 + replicas);
    const Duration patience = only_absent ? kAbsencePatience : kRepairPatience;
    if (troubles == 0 || SystemClock().Now() - start > patience) return look;
    SystemClock().Sleep(kRepairPause);
  }
}

}  // namespace quire::torture
