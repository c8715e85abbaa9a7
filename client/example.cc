// SPDX-License-Identifier: Apache-2.0
//
// The examples of README.md: stores a document's pages, reads two of them back, and reads the
// layers of another recall as they come. Usage: client_example ADDRESS
#include <iostream>
#include <numeric>
#include <vector>

#include "quire/client.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session.h"

namespace {

using namespace quire;

KvSpec ExampleSpec() {
  KvSpec spec;
  spec.model = "example";
  spec.num_layers = 2;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.rope.rotary_dim = 64;
  return spec;
}

// [put and recall]
Status PutAndRecall(Client& client, const KvSpec& spec, const std::vector<TokenId>& tokens,
                    std::vector<std::byte> units) {  // [pages][layers][heads] units
  Payload pages;
  pages.Append(std::move(units));
  QUIRE_ASSIGN_OR_RETURN(auto context, client.OpenContext(spec, std::nullopt));
  QUIRE_RETURN_IF_ERROR(client.AppendPages(context.id, 0, tokens, pages).status());
  QUIRE_ASSIGN_OR_RETURN(auto sealed, client.Seal(context.id, {}, {}));
  QUIRE_RETURN_IF_ERROR(client.RegisterDocument({.name = "example"}, sealed.chain_tip).status());

  QUIRE_ASSIGN_OR_RETURN(auto session, client.OpenSession(DocumentName{.name = "example"},
                                                          {.spec = spec, .slots_per_head = 4}));
  const LayerWant want = {.layer = 0, .pages = {{1, 2}, {1, 7}}};  // Pages of each KV head.
  QUIRE_ASSIGN_OR_RETURN(RecallResult result, session->Recall({&want, 1}));
  for (const Placement& unit : result.placements) {
    std::cout << "page " << unit.page << " to slot " << unit.slot << '\n';
  }
  session->Applied(result);
  return session->Close();
}
// [put and recall]

// [streaming]
Status RecallLayerByLayer(ClientSession& session) {
  const LayerWant both = {.layer = 0, .num_layers = 2, .pages = {{3, 4}, {3, 4}}};
  QUIRE_ASSIGN_OR_RETURN(auto recall, session.Start({both}));
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(auto part, recall->Next());
    if (!part) return OkStatus();
    std::vector<std::byte> units(part->payload.size_bytes());
    part->payload.CopyTo(units.data());
    // Over shared memory units are lent for a time. A use counts when they were good to its end.
    if (!part->IsValid()) return Unavailable("the units were held for too long; try again");
    for (const RecalledLane& lane : part->lanes) {
      std::cout << part->PlacementsOf(lane).size() << " units for layer " << lane.layer << '\n';
    }
    session.Applied(*part);
  }
}
// [streaming]

Status Run(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(address));
  QUIRE_ASSIGN_OR_RETURN(auto client, Client::Create({.transport = transport}));
  const KvSpec spec = ExampleSpec();
  std::vector<TokenId> tokens(8 * spec.page_tokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  QUIRE_RETURN_IF_ERROR(
      PutAndRecall(*client, spec, tokens, std::vector<std::byte>(SegmentBytes(spec, 8))));
  QUIRE_ASSIGN_OR_RETURN(auto session, client->OpenSession(DocumentName{.name = "example"},
                                                           {.spec = spec, .slots_per_head = 4}));
  QUIRE_RETURN_IF_ERROR(RecallLayerByLayer(*session));
  return session->Close();
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = argc == 2 ? Run(argv[1]) : InvalidArgument("usage: client_example ADDRESS");
  if (!status.ok()) std::cerr << Message(status) << '\n';
  return status.ok() ? 0 : 1;
}
