// SPDX-License-Identifier: Apache-2.0
//
// A worker as a separate process, for tests that kill or freeze it.
//   recall_peer ADDRESS shm|ucx|ucx-direct|grpc TENANT again|once
// - again: recalls a document again and again without acknowledging, and holds each reply until the
//   next one. It prints "receiving" once it holds a part of its second recall.
// - once: takes a part of one recall, whose other parts wait for it. It prints "receiving" and then
//   idles.
//
// It ends, and prints why, when a part has no units. Over ucx-direct units must land, in a staging
// area, which applies nothing.
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/data/data_transport.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session_landing.h"
#include "tests/integration/direct_ucx.h"
#include "tests/integration/fault_document.h"

namespace {

using namespace quire;

/// Every part must bring all its units again, since none was ever applied.
Status CheckBrought(const RecallPart& part, bool direct) {
  const uint64_t bytes = part.placements.size() * UnitBytes(testing::FaultSpec());
  if (bytes > 0 && part.payload.size_bytes() == bytes &&
      part.landed_bytes == (direct ? bytes : 0)) {
    return OkStatus();
  }
  return DataLoss("a part of ", part.placements.size(), " units has ", part.payload.size_bytes(),
                  " bytes, of which ", part.landed_bytes, " have landed");
}

StatusOr<std::optional<RecallPart>> NextPart(PendingRecall& recall, bool direct) {
  QUIRE_ASSIGN_OR_RETURN(auto part, recall.Next());
  if (part) QUIRE_RETURN_IF_ERROR(CheckBrought(*part, direct));
  return part;
}

Status RecallOnce(ClientSession& session, SessionLanding* landing) {
  QUIRE_ASSIGN_OR_RETURN(const auto recall,
                         session.Start(testing::WantAllOfIt(), {.landing = landing}));
  QUIRE_ASSIGN_OR_RETURN(const auto part, NextPart(*recall, landing != nullptr));
  if (!part) return DataLoss("the recall ended without a part");
  std::cout << "receiving" << std::endl;
  for (;;) pause();
}

Status RecallAgain(ClientSession& session, SessionLanding* landing) {
  std::vector<RecallPart> held, latest;
  for (uint64_t recall_number = 1;; ++recall_number) {
    QUIRE_ASSIGN_OR_RETURN(const auto recall,
                           session.Start(testing::WantAllOfIt(), {.landing = landing}));
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(std::optional<RecallPart> part, NextPart(*recall, landing != nullptr));
      if (!part) break;
      latest.push_back(*std::move(part));
      if (recall_number == 2 && latest.size() == 1) std::cout << "receiving" << std::endl;
    }
    held = std::exchange(latest, {});
  }
}

Status Run(const std::string& address, const std::string& transport, const std::string& tenant,
           bool once) {
  const bool direct = transport == "ucx-direct";
  DataOptions options{
      .transport = direct ? "ucx" : transport, .tenant = tenant, .control_address = address};
  internal::DataSeams seams;
  if (direct) seams.dialers = testing::DirectUcxDialers();
  if (once) options.window_bytes = testing::kSmallWindow;
  QUIRE_ASSIGN_OR_RETURN(const auto control, ConnectGrpc(address));
  QUIRE_ASSIGN_OR_RETURN(const auto data,
                         internal::DataTransport::Open(control, options, {}, seams));
  QUIRE_ASSIGN_OR_RETURN(
      const auto client,
      Client::Create({.transport = control, .data_transport = data, .tenant = tenant}));
  QUIRE_ASSIGN_OR_RETURN(const auto session, testing::OpenFaultSession(*client));
  std::unique_ptr<SessionLanding> landing;
  if (direct) {
    QUIRE_ASSIGN_OR_RETURN(landing, session->MakeLanding(1));
  }
  return once ? RecallOnce(*session, landing.get()) : RecallAgain(*session, landing.get());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (args.size() != 5 || (args[4] != "again" && args[4] != "once")) {
    std::cerr << "usage: recall_peer ADDRESS TRANSPORT TENANT again|once\n";
    return 2;
  }
  std::cerr << Run(args[1], args[2], args[3], args[4] == "once") << "\n";
  return 1;
}
