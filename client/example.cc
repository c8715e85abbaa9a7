// SPDX-License-Identifier: Apache-2.0
//
// The example of README.md: stores a document's pages and reads two of them back through a session.
// Usage: client_example ADDRESS
#include <iostream>
#include <numeric>
#include <vector>

#include "quire/client.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session.h"

namespace {

quire::KvSpec ExampleSpec() {
  quire::KvSpec spec;
  spec.model = "example";
  spec.num_layers = 2;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.rope.rotary_dim = 64;
  return spec;
}

// [example]
quire::Status StoreAndRecall(const std::string& address) {
  using namespace quire;
  QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(address));
  QUIRE_ASSIGN_OR_RETURN(auto client, Client::Create({.transport = transport}));

  // Store eight pages of KV, [pages][layers][heads] units, and give them a name.
  const KvSpec spec = ExampleSpec();
  std::vector<TokenId> tokens(8 * spec.page_tokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  Payload pages;
  pages.Append(std::vector<std::byte>(SegmentBytes(spec, 8)));
  QUIRE_ASSIGN_OR_RETURN(auto context, client->OpenContext(spec, std::nullopt));
  QUIRE_RETURN_IF_ERROR(client->AppendPages(context.id, 0, tokens, pages).status());
  QUIRE_ASSIGN_OR_RETURN(auto sealed, client->Seal(context.id, {}, {}));
  QUIRE_RETURN_IF_ERROR(client->RegisterDocument({.name = "example"}, sealed.chain_tip).status());

  // Read it through a session of four slots per head: only what is missing is sent.
  QUIRE_ASSIGN_OR_RETURN(auto session, client->OpenSession(DocumentName{.name = "example"},
                                                           {.spec = spec, .slots_per_head = 4}));
  for (const uint32_t page : {2, 7}) {
    const LayerWant want = {.layer = 0, .pages = {{1, page}, {1, 2}}};
    QUIRE_ASSIGN_OR_RETURN(RecallResult result, session->Recall({&want, 1}));
    for (const Placement& placement : result.placements) {
      std::cout << "page " << placement.page << " to slot " << placement.slot << '\n';
    }
    std::vector<std::byte> units(result.payload.size_bytes());
    result.payload.CopyTo(units.data());
    // Over shared memory units are lent for a time: a use counts when they were good to its end.
    if (!result.StillGood()) return Unavailable("the units were held for too long; try again");
    session->Applied(result);
  }

  // Or take the layers one by one, as they come, while the others are on their way.
  const LayerWant both = {.layer = 0, .num_layers = 2, .pages = {{3, 4}, {3, 4}}};
  QUIRE_ASSIGN_OR_RETURN(auto recall, session->Start({both}));
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(auto part, recall->Next());
    if (!part) break;
    for (const RecalledLane& lane : part->lanes) {
      std::cout << part->PlacementsOf(lane).size() << " units for layer " << lane.layer << '\n';
    }
    session->Applied(*part);
  }
  return session->Close();
}
// [example]

}  // namespace

int main(int argc, char** argv) {
  const quire::Status status =
      argc == 2 ? StoreAndRecall(argv[1]) : quire::InvalidArgument("usage: client_example ADDRESS");
  if (!status.ok()) std::cerr << quire::Message(status) << '\n';
  return status.ok() ? 0 : 1;
}
