// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/data_plane/data_plane.h"

#include <gmock/gmock.h>

#include "kvserver/service/testing/service_fixture.h"
#include "quire/v1/data_plane.pb.h"
#include "transport/frames/frame_client.h"
#include "transport/local/inproc_pipe.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::ElementsAre;

class FakeListener final : public PipeListener {
 public:
  FakeListener(std::string kind, std::string address)
      : kind_(std::move(kind)), address_(std::move(address)) {}
  std::string_view kind() const override { return kind_; }
  std::string address() const override { return address_; }

 private:
  const std::string kind_, address_;
};

/// Connections are in-process pipes, which tickets of the kind "inproc" admit.
class DataPlaneTest : public ServiceFixture {
 protected:
  DataPlane& data_plane() { return server_->data_plane(); }
  void Listen(const std::string& kind, const std::string& address = "here") {
    data_plane().Add(std::make_unique<FakeListener>(kind, address));
  }
  v1::OfferReply Offer() {
    const auto reply = Call<v1::OfferReply>("DataPlane/Offer", v1::OfferRequest());
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::OfferReply();
  }
  /// A ticket of `tenant_` for the only listening kind.
  std::string Ticket() {
    const v1::OfferReply reply = Offer();
    return reply.offers_size() == 1 ? reply.offers(0).ticket() : "";
  }
  StatusOr<std::shared_ptr<FrameClient>> Connect(const std::string& ticket,
                                                 FrameClient::Options options = {}) {
    InprocPair pipes = MakeInprocPair({.direct_landing = true});
    data_plane().accept()(std::move(pipes.server));
    options.tenant = tenant_;
    options.ticket = ticket;
    return FrameClient::Connect(std::move(pipes.client), options);
  }
  void ExpectRefused(const std::string& ticket) {
    EXPECT_EQ(Connect(ticket).status().code(), StatusCode::kUnauthenticated);
  }
  Status AddLanding(uint64_t connection, uint64_t landing, uint64_t bytes, const std::string& key) {
    v1::AddLandingRequest request;
    request.set_connection_id(connection);
    request.set_landing_id(landing);
    request.set_bytes(bytes);
    request.set_key(key);
    return Call<v1::AddLandingReply>("DataPlane/AddLanding", request).status();
  }
  Status RemoveLanding(uint64_t connection, uint64_t landing) {
    v1::RemoveLandingRequest request;
    request.set_connection_id(connection);
    request.set_landing_id(landing);
    return Call<v1::RemoveLandingReply>("DataPlane/RemoveLanding", request).status();
  }
};

TEST_F(DataPlaneTest, OffersAreTheFastestFirstAndShmNamesItsHost) {
  EXPECT_EQ(Offer().offers_size(), 0);
  data_plane().OfferGrpc();
  Listen("ucx", "127.0.0.1:7");
  Listen("shm", "/tmp/q.sock");
  const v1::OfferReply reply = Offer();
  std::vector<std::string> ways, hosts;
  for (const auto& offer : reply.offers()) {
    ways.push_back(offer.kind() + " " + offer.address());
    hosts.push_back(offer.host());
    EXPECT_EQ(offer.ticket().size(), wire::kTicketBytes);
  }
  EXPECT_THAT(ways, ElementsAre("shm /tmp/q.sock", "ucx 127.0.0.1:7", "grpc "));
  EXPECT_THAT(hosts, ElementsAre(ReadHostId(), "", ""));
}

TEST_F(DataPlaneTest, CallsComeOverAConnectionThatATicketAdmits) {
  Listen("inproc");
  const auto client = Connect(Ticket());
  ASSERT_TRUE(client.ok()) << client.status();
  CallMessage reply;
  ASSERT_EQ((*client)->Call("quire.v1.Admin/Stats", {}, &reply, {}), OkStatus());
  v1::StatsReply stats;
  ASSERT_TRUE(stats.ParseFromString(reply.control));
  EXPECT_GT(stats.counters_size(), 0);
}

TEST_F(DataPlaneTest, ForgedUsedAndExpiredTicketsAdmitNobody) {
  Listen("inproc");
  ExpectRefused(std::string(wire::kTicketBytes, 'x'));
  ExpectRefused("");
  const std::string ticket = Ticket();
  std::string forged = ticket;
  forged.back() = static_cast<char>(forged.back() ^ 1);
  ExpectRefused(forged);
  EXPECT_TRUE(Connect(ticket).ok());
  ExpectRefused(ticket);
  const std::string old = Ticket();
  clock_.Advance(std::chrono::seconds(31));
  ExpectRefused(old);
}

TEST_F(DataPlaneTest, ATicketOfAnotherKindOrTenantAdmitsNobody) {
  data_plane().OfferGrpc();
  ExpectRefused(Ticket());  // Its kind is "grpc", and this is an in-process pipe.
  Start();
  Listen("inproc");
  const std::string ticket = Ticket();
  tenant_ = "team-b";
  EXPECT_FALSE(Connect(ticket).ok());
}

TEST_F(DataPlaneTest, LandingsAreOfTheTenantsOwnConnections) {
  Listen("inproc");
  std::vector<std::byte> memory(4096);
  std::vector<std::string> keys;
  FrameClient::Options options;
  options.announce = [&](uint64_t connection, uint64_t landing, uint64_t bytes,
                         std::string_view key) {
    keys.emplace_back(key);
    return AddLanding(connection, landing, bytes, keys.back());
  };
  options.withdraw = [&](uint64_t connection, uint64_t landing) {
    EXPECT_EQ(RemoveLanding(connection, landing), OkStatus());
  };
  const auto client = Connect(Ticket(), options);
  ASSERT_TRUE(client.ok()) << client.status();
  const auto landing = (*client)->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  ASSERT_EQ(keys.size(), 1u);
  const uint64_t id = (*client)->connection_id();

  tenant_ = "team-b";
  EXPECT_EQ(AddLanding(id, 2, memory.size(), keys[0]).code(), StatusCode::kNotFound);
  EXPECT_EQ(RemoveLanding(id, 1), OkStatus()) << "and nothing was removed:";
  tenant_ = "default";
  EXPECT_EQ(AddLanding(id + 1, 2, memory.size(), keys[0]).code(), StatusCode::kNotFound);
  EXPECT_EQ(AddLanding(id, 2, memory.size(), "no key").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AddLanding(id, 0, memory.size(), keys[0]).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AddLanding(id, 2, 0, keys[0]).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(AddLanding(id, 2, wire::kMaxLandingBytes + 1, keys[0]).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(AddLanding(id, 2, memory.size(), std::string(5000, 'k')).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(RemoveLanding(id, 99), OkStatus());
}

TEST_F(DataPlaneTest, UnusedTicketsAreBoundedPerTenant) {
  Listen("inproc");
  Status status;
  int offers = 0;
  while (status.ok() && offers < 1000) {
    status = Call<v1::OfferReply>("DataPlane/Offer", v1::OfferRequest()).status();
    if (status.ok()) ++offers;
  }
  EXPECT_EQ(offers, 64);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(MetricValuesOf(*server_)["transport_tickets"], 64u);
  tenant_ = "team-b";
  EXPECT_EQ(Offer().offers_size(), 1);
}

TEST_F(DataPlaneTest, ManyShortConnectionsLeaveNoTicketBehind) {
  Listen("inproc");
  data_plane().OfferGrpc();
  for (int connection = 0; connection < 150; ++connection) {
    const v1::OfferReply reply = Offer();
    ASSERT_EQ(reply.offers_size(), 2) << "connection " << connection;
    const bool first = reply.offers(0).kind() == "inproc";
    const auto client = Connect(reply.offers(first ? 0 : 1).ticket());
    ASSERT_TRUE(client.ok()) << "connection " << connection << ": " << client.status();
  }
  EXPECT_EQ(MetricValuesOf(*server_)["transport_tickets"], 0u);
}

TEST_F(DataPlaneTest, ShutdownEndsConnectionsAndOffersNothing) {
  Listen("inproc");
  const auto client = Connect(Ticket());
  ASSERT_TRUE(client.ok()) << client.status();
  const std::string unused = Ticket();
  data_plane().Shutdown();
  CallMessage reply;
  EXPECT_EQ((*client)->Call("quire.v1.Admin/Stats", {}, &reply, {}).code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(Offer().offers_size(), 0);
  EXPECT_EQ(Connect(unused).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace quire::kvserver::testing
