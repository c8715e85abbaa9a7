// SPDX-License-Identifier: Apache-2.0
//
// UCX's transport `self`: whom it connects, and when pipes have it as a lane. What is said of it in
// docs/design/0014-ucx.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <vector>

#include "common/transport/ucx_test_peer.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

UcxOptions Over(const std::string& transports) {
  UcxOptions options;
  options.peer_failure_detection = false;
  options.transports = transports;
  return options;
}

std::vector<std::byte> AddressOf(UcxWorker& worker) {
  std::vector<std::byte> bytes;
  worker.Run([&] {
    ucp_address_t* address = nullptr;
    size_t size = 0;
    ASSERT_EQ(ucp_worker_get_address(worker.handle(), &address, &size), UCS_OK);
    const auto* const begin = reinterpret_cast<const std::byte*>(address);
    bytes.assign(begin, begin + size);
    ucp_worker_release_address(worker.handle(), address);
  });
  return bytes;
}

/// What UCX answers to an endpoint from `worker` to the worker at `address`; with one that detects
/// dead peers or without. The endpoint ends with the worker.
ucs_status_t Reach(UcxWorker& worker, const std::vector<std::byte>& address,
                   ucp_err_handling_mode_t mode) {
  ucs_status_t status = UCS_OK;
  worker.Run([&] {
    ucp_ep_params_t params = {};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = mode;
    ucp_ep_h endpoint = nullptr;
    status = ucp_ep_create(worker.handle(), &params, &endpoint);
  });
  return status;
}

TEST(UcxSelfTest, AWorkerReachesItselfAndNoOtherOfItsProcess) {
  const SocketAddress anywhere = SocketAddress::Resolve("127.0.0.1:0").value();
  const auto one = MakeUcxWorker(anywhere, Over("self")).value();
  const auto other = MakeUcxWorker(anywhere, Over("self")).value();
  EXPECT_EQ(Reach(*one, AddressOf(*one), UCP_ERR_HANDLING_MODE_NONE), UCS_OK);
  EXPECT_EQ(Reach(*one, AddressOf(*other), UCP_ERR_HANDLING_MODE_NONE), UCS_ERR_UNREACHABLE);
  EXPECT_EQ(Reach(*one, AddressOf(*one), UCP_ERR_HANDLING_MODE_PEER), UCS_ERR_UNREACHABLE)
      << "it cannot tell of dead peers";
}

TEST(UcxSelfTest, PipesWhoseEndsHaveOneWorkerAreCarriedByIt) {
  Listening listening(SelfLane());
  Connected peers(listening);
  for (const FramePipe* end : {peers.client.get(), peers.server.get()}) {
    EXPECT_THAT(end->capabilities().detail, HasSubstr("self/"));
  }
}

TEST(UcxSelfTest, EndsWithWorkersOfTheirOwnTakeWhatElseIsAllowed) {
  for (const auto& [transports, carrier] :
       {std::pair("self,tcp", "tcp/"), std::pair("self,posix,tcp", "posix/")}) {
    Connected peers(Over(transports));
    Frame frame{.head = "frame"};
    frame.payload.Append(Pattern(100'000, 1));
    ASSERT_TRUE(peers.client->Send(std::move(frame)).ok());
    EXPECT_EQ(peers.at_server.Next().payload.size_bytes(), 100'000u);
    for (const FramePipe* end : {peers.client.get(), peers.server.get()}) {
      EXPECT_THAT(end->capabilities().detail, HasSubstr(carrier)) << transports;
      EXPECT_THAT(end->capabilities().detail, Not(HasSubstr("self/"))) << transports;
    }
  }
}

TEST(UcxSelfTest, WithoutATransportThatHasNetworkDevicesTheErrorNamesWhatIsAllowed) {
  for (const std::string transports : {"self", "self,posix", "posix", "cma"}) {
    const Listening listening(Over(transports));
    const Status refused = ConnectUcx(listening.listener->address(), listening.options).status();
    EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused;
    const std::string why(Message(refused));
    EXPECT_THAT(why, HasSubstr("over " + transports + ","));
    EXPECT_THAT(why, HasSubstr("network devices, as tcp has"));
  }
}

}  // namespace
}  // namespace quire::testing
