// SPDX-License-Identifier: Apache-2.0
//
// Compares docs/metrics.md with a server's metrics: one row for each metric, and no other.
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <utility>

#include "common/metrics/testing/metrics_page.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/testing/service_fixture.h"
#include "transport/local/inproc_pipe.h"

namespace quire::kvserver::testing {
namespace {

class NoListener final : public PipeListener {
 public:
  std::string_view kind() const override { return "none"; }
  std::string address() const override { return ""; }
  std::optional<SentPayload> sent_payload() const override { return SentPayload(); }
};

/// The metrics of the admin port: a server's and its network port's.
struct Served {
  const Server& server;
  const NetworkServer& network;
  void VisitMetrics(MetricsVisitor& visit) const {
    server.VisitMetrics(visit);
    network.VisitMetrics(visit);
  }
};

class MetricsDocTest : public ServiceFixture {};

TEST_F(MetricsDocTest, ThePageListsEveryMetricAsItIs) {
  EXPECT_FALSE(Call<v1::FetchReply>("Store/Fetch", v1::FetchRequest()).ok());
  EXPECT_TRUE(Call<v1::LookupReply>("Store/Lookup",
                                    [&] {
                                      v1::LookupRequest request;
                                      *request.mutable_spec() = SpecProto();
                                      request.add_tokens(1);
                                      return request;
                                    }())
                  .ok());
  // Each kind of connection has a series once it was used; an in-process one suffices.
  server_->data_plane().Add(std::make_unique<NoListener>());
  InprocPair pipes = MakeInprocPair({});
  server_->data_plane().accept()(std::move(pipes.server));
  const auto network = NetworkServer::Start(*server_, {}, {.listeners = {.transports = {"grpc"}}});
  ASSERT_TRUE(network.ok()) << network.status();
  quire::testing::ExpectSectionLists("Server", Served{*server_, **network}, 60);
}

}  // namespace
}  // namespace quire::kvserver::testing
