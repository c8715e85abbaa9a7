// SPDX-License-Identifier: Apache-2.0
//
// A worker in the middle of puts, for tests that kill it.
//   context_peer ADDRESS COUNT
// Opens COUNT contexts, appends a page to each, prints "open", and then idles.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/connect.h"
#include "common/page/layout.h"
#include "tests/integration/fault_document.h"

namespace {

using namespace quire;

Status Run(const std::string& address, int count) {
  QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc(address));
  QUIRE_ASSIGN_OR_RETURN(const auto client, Client::Create({.transport = std::move(transport)}));
  const KvSpec spec = quire::testing::FaultSpec();
  const std::vector<TokenId> tokens(spec.page_tokens, 7);
  std::vector<OpenedContext> held;
  for (int i = 0; i < count; ++i) {
    QUIRE_ASSIGN_OR_RETURN(held.emplace_back(), client->OpenContext(spec, std::nullopt));
    Payload page;
    page.Append(std::vector<std::byte>(SegmentBytes(spec, 1)));
    QUIRE_RETURN_IF_ERROR(client->AppendPages(held.back().id, 0, tokens, page).status());
  }
  std::cout << "open" << std::endl;
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "context_peer ADDRESS COUNT\n";
    return 2;
  }
  std::cerr << Run(argv[1], std::atoi(argv[2])) << "\n";
  return 1;
}
