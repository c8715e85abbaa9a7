// SPDX-License-Identifier: Apache-2.0
//
// A worker as a process of its own, for tests that kill it: it recalls a document again and again
// without ever acknowledging anything, and holds each reply until it has the next one.
//   recall_peer ADDRESS shm|ucx|ucx-direct|grpc TENANT
// prints "receiving" when it holds a first part.
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/connect.h"
#include "client/data_transport.h"
#include "tests/integration/fault_document.h"

namespace {

using namespace quire;

Status RecallForEver(const std::string& address, const std::string& transport,
                     const std::string& tenant) {
  const bool direct = transport == "ucx-direct";
  QUIRE_ASSIGN_OR_RETURN(const auto control, ConnectGrpc(address));
  QUIRE_ASSIGN_OR_RETURN(const auto data,
                         DataTransport::Open(control, {.transport = direct ? "ucx" : transport,
                                                       .tenant = tenant,
                                                       .control_address = address,
                                                       .direct_landings = direct}));
  QUIRE_ASSIGN_OR_RETURN(
      const auto client,
      Client::Create({.transport = control, .data_transport = data, .tenant = tenant}));
  QUIRE_ASSIGN_OR_RETURN(const auto session, testing::OpenFaultSession(*client));
  std::unique_ptr<SessionLanding> landing;
  if (direct) {
    QUIRE_ASSIGN_OR_RETURN(landing, session->MakeLanding());
  }
  std::vector<RecallPart> held, latest;
  for (bool first = true;;) {
    QUIRE_ASSIGN_OR_RETURN(const auto recall,
                           session->Start(testing::WantAllOfIt(), {.landing = landing.get()}));
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(std::optional<RecallPart> part, recall->Next());
      if (!part) break;
      latest.push_back(*std::move(part));
      if (std::exchange(first, false)) std::cout << "receiving" << std::endl;
    }
    held = std::exchange(latest, {});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: recall_peer ADDRESS TRANSPORT TENANT\n";
    return 2;
  }
  std::cerr << RecallForEver(argv[1], argv[2], argv[3]) << "\n";
  return 1;
}
