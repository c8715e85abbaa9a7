// SPDX-License-Identifier: Apache-2.0
#include "client/data/data_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "common/base/threads/mutex.h"
#include "quire/connect.h"
#include "quire/v1/data_plane.pb.h"
#include "transport/frames/frame_server.h"
#include "transport/grpc/grpc_server.h"
#include "transport/local/inproc_pipe.h"

namespace quire::testing {

using namespace internal;
namespace {

using ::testing::HasSubstr;

constexpr char kTicket[] = "0123456789abcdef";

/// Hands out the offers that a test sets, and takes landings.
class FakeControl final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override {
    return {"quire.v1.DataPlane/Offer", "quire.v1.DataPlane/AddLanding",
            "quire.v1.DataPlane/RemoveLanding", "quire.test.A/Ping"};
  }
  Status Handle(const CallContext& context, std::string_view method, const CallMessage& request,
                ReplyWriter& reply) override {
    CallMessage answer;
    {
      MutexLock lock(mutex_);
      if (method == "quire.v1.DataPlane/Offer") {
        v1::OfferReply offers = offers_;
        if (single_use_) {
          const std::string ticket = "issue " + std::to_string(++issues_);
          for (auto& offer : *offers.mutable_offers()) offer.set_ticket(ticket);
        }
        answer.control = offers.SerializeAsString();
      } else if (method == "quire.v1.DataPlane/AddLanding") {
        v1::AddLandingRequest landing;
        EXPECT_TRUE(landing.ParseFromString(request.control));
        EXPECT_EQ(context.tenant, "default");
        landings_[landing.landing_id()] = landing.bytes();
      } else if (method == "quire.v1.DataPlane/RemoveLanding") {
        v1::RemoveLandingRequest landing;
        EXPECT_TRUE(landing.ParseFromString(request.control));
        landings_.erase(landing.landing_id());
      }
    }
    return reply.Write(std::move(answer));
  }
  void Offer(const std::string& kind, const std::string& host = "",
             const std::string& ticket = kTicket) {
    MutexLock lock(mutex_);
    v1::TransportOffer* const offer = offers_.add_offers();
    offer->set_kind(kind);
    offer->set_ticket(ticket);
    offer->set_host(host);
  }
  /// From now on all offers of an answer share a ticket, which is good once.
  void OfferOnce() {
    MutexLock lock(mutex_);
    single_use_ = true;
  }
  bool IsGood(std::string_view ticket) {
    MutexLock lock(mutex_);
    return single_use_ ? shown_.insert(std::string(ticket)).second : ticket == kTicket;
  }
  std::map<uint64_t, uint64_t> landings() const {
    MutexLock lock(mutex_);
    return landings_;
  }

 private:
  mutable Mutex mutex_;
  v1::OfferReply offers_ QUIRE_GUARDED_BY(mutex_);
  bool single_use_ QUIRE_GUARDED_BY(mutex_) = false;
  int issues_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::set<std::string> shown_ QUIRE_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> landings_ QUIRE_GUARDED_BY(mutex_);  ///< Bytes by id.
};

class DataConnectionTest : public ::testing::Test {
 protected:
  DataConnectionTest() {
    frames_ = std::make_unique<FrameServer>(
        &handler_,
        [this](std::string_view kind, std::string_view ticket) -> StatusOr<std::string> {
          const bool good = handler_.IsGood(ticket);
          if (kind == refused_kind_) return Unavailable("no connection of this kind is taken");
          if (good) return std::string("default");
          return MakeStatus(StatusCode::kUnauthenticated, "no such ticket");
        },
        FrameServer::Options{});
    auto server = GrpcServer::Start(
        {.accept_pipe =
             [this](std::unique_ptr<FramePipe> pipe) { frames_->Accept(std::move(pipe)); },
         .max_streams = 4},
        &handler_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    inproc_target_ = frames_.get();
  }
  ~DataConnectionTest() override {
    frames_->Shutdown();
    server_->Shutdown(Duration::zero());
  }

  StatusOr<DataConnection> Connect(DataOptions options, std::span<const PipeDialer> dialers) {
    auto control = ConnectGrpc(server_->address());
    EXPECT_TRUE(control.ok()) << control.status();
    options.control_address = server_->address();
    return ConnectDataOnce(*control, options, TimePoint::max(),
                           {.host_id = "this host", .dialers = dialers});
  }
  StatusOr<DataConnection> Connect(const std::string& transport = "auto",
                                   std::span<const PipeDialer> dialers = PipeDialers()) {
    return Connect(DataOptions{.transport = transport}, dialers);
  }
  static StatusOr<std::unique_ptr<FramePipe>> DialInproc(const DialTarget&) {
    InprocPair pipes = MakeInprocPair({.direct_landing = true});
    inproc_target_->Accept(std::move(pipes.server));
    return std::move(pipes.client);
  }
  /// Whose lanes write remote memory where that is granted.
  static StatusOr<std::unique_ptr<FramePipe>> DialNative(const DialTarget& target) {
    return DialLanes(target.direct_landings);
  }
  static StatusOr<std::unique_ptr<FramePipe>> DialMessages(const DialTarget&) {
    return DialLanes(false);
  }
  static StatusOr<std::unique_ptr<FramePipe>> DialLanes(bool direct) {
    InprocPair pipes = MakeInprocPair({.direct_landing = direct});
    inproc_target_->Accept(std::move(pipes.server));
    return std::move(pipes.client);
  }
  static StatusOr<std::unique_ptr<FramePipe>> DialNobody(const DialTarget& target) {
    return Unavailable("nobody listens at '", target.address, "'");
  }

  static FrameServer* inproc_target_;
  FakeControl handler_;
  std::string refused_kind_;  ///< By the frame server, which takes the ticket.
  std::unique_ptr<FrameServer> frames_;
  std::unique_ptr<GrpcServer> server_;
};
FrameServer* DataConnectionTest::inproc_target_ = nullptr;

TEST_F(DataConnectionTest, TheFirstOfferThatWorksIsTakenAndTheOthersAreExplained) {
  handler_.Offer("shm", "another host");
  handler_.Offer("ucx");
  handler_.Offer("grpc");
  const PipeDialer dialers[] = {{"shm", &DialInproc}, PipeDialers()[0]};
  ASSERT_EQ(PipeDialers()[0].kind, "grpc");
  const auto connection = Connect("auto", dialers);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(connection->report.Summary(),
            "grpc (not shm: another host; not ucx: this program was built without it)");
  CallMessage reply;
  EXPECT_EQ(connection->transport->Call("quire.test.A/Ping", {}, &reply, {}), OkStatus());
  EXPECT_EQ(connection->transport->capabilities().name, "grpc");
}

TEST_F(DataConnectionTest, SharedMemoryIsTakenOnTheSameHost) {
  handler_.Offer("shm", "this host");
  handler_.Offer("grpc");
  constexpr PipeDialer kShm[] = {{"shm", &DialInproc}};
  const auto connection = Connect("auto", kShm);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(connection->report.taken, "shm");
}

TEST_F(DataConnectionTest, UcxMeansSharedMemoryOnTheServersHostUnlessItIsInsistedOn) {
  handler_.Offer("shm", "this host");
  handler_.Offer("ucx");
  const PipeDialer dialers[] = {{"shm", &DialMessages}, {"ucx", &DialMessages}};
  const auto within_host = Connect(DataOptions{.transport = "ucx"}, dialers);
  ASSERT_TRUE(within_host.ok()) << within_host.status();
  EXPECT_EQ(within_host->report.taken, "shm");
  const auto insisted = Connect(DataOptions{.transport = "ucx", .ucx_within_host = true}, dialers);
  ASSERT_TRUE(insisted.ok()) << insisted.status();
  EXPECT_EQ(insisted->report.taken, "ucx");
}

TEST_F(DataConnectionTest, UcxIsUcxBetweenHostsAndWhereSharedMemoryDoesNotWork) {
  handler_.Offer("shm", "another host");
  handler_.Offer("ucx");
  const PipeDialer dialers[] = {{"shm", &DialMessages}, {"ucx", &DialMessages}};
  const auto elsewhere = Connect(DataOptions{.transport = "ucx"}, dialers);
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_EQ(elsewhere->report.taken, "ucx");
  handler_.Offer("shm", "this host");
  const PipeDialer without[] = {{"shm", &DialNobody}, {"ucx", &DialMessages}};
  const auto broken = Connect(DataOptions{.transport = "ucx"}, without);
  ASSERT_TRUE(broken.ok()) << broken.status();
  EXPECT_EQ(broken->report.taken, "ucx");
}

TEST_F(DataConnectionTest, WhetherTheServerWritesIntoLandingsIsSaid) {
  handler_.Offer("ucx");
  const PipeDialer native[] = {{"ucx", &DialNative}}, messages[] = {{"ucx", &DialMessages}};
  const auto direct = Connect(DataOptions{.direct_landings = true}, native);
  ASSERT_TRUE(direct.ok()) << direct.status();
  EXPECT_EQ(direct->report.taken, "ucx-direct");
  EXPECT_TRUE(direct->transport->capabilities().direct_landing);
  const auto not_granted = Connect(DataOptions{}, native);
  ASSERT_TRUE(not_granted.ok()) << not_granted.status();
  EXPECT_EQ(not_granted->report.taken, "ucx");
  EXPECT_FALSE(not_granted->transport->capabilities().direct_landing);
  const auto no_lane = Connect(DataOptions{.direct_landings = true}, messages);
  ASSERT_TRUE(no_lane.ok()) << no_lane.status();
  EXPECT_EQ(no_lane->report.taken, "ucx");
  EXPECT_THAT(no_lane->report.Summary(), HasSubstr("not ucx-direct: the server does not write"));
}

TEST_F(DataConnectionTest, AnOfferThatDoesNotWorkIsPassedOver) {
  handler_.Offer("shm");
  handler_.Offer("ucx", "", "a ticket that is none");
  handler_.Offer("grpc");
  const PipeDialer dialers[] = {{"shm", &DialNobody}, {"ucx", &DialInproc}, PipeDialers()[0]};
  const auto connection = Connect("auto", dialers);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(connection->report.taken, "grpc");
  EXPECT_THAT(connection->report.Summary(), HasSubstr("not shm: nobody listens"));
  EXPECT_THAT(connection->report.Summary(), HasSubstr("no such ticket"));
}

TEST_F(DataConnectionTest, AfterAConnectionThatWasRefusedTheNextIsTriedWithATicketOfItsOwn) {
  handler_.Offer("shm");
  handler_.Offer("grpc");
  handler_.OfferOnce();
  refused_kind_ = "inproc";
  const PipeDialer dialers[] = {{"shm", &DialInproc}, PipeDialers()[0]};
  const auto connection = Connect("auto", dialers);
  ASSERT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(connection->report.Summary(),
            "grpc (not ucx: the server does not offer it; not shm: no connection of this kind is "
            "taken)");
}

TEST_F(DataConnectionTest, ATransportThatIsNamedIsTheOnlyOneTried) {
  handler_.Offer("shm");
  handler_.Offer("grpc");
  const PipeDialer dialers[] = {{"shm", &DialNobody}, PipeDialers()[0]};
  const auto grpc = Connect("grpc", dialers);
  ASSERT_TRUE(grpc.ok()) << grpc.status();
  EXPECT_EQ(grpc->report.taken, "grpc");
  const auto shm = Connect("shm", dialers);
  EXPECT_EQ(shm.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(shm.status())), HasSubstr("shm: nobody listens"));
  const auto ucx = Connect("ucx", dialers);
  EXPECT_THAT(std::string(Message(ucx.status())), HasSubstr("ucx: the server does not offer it"));
}

TEST_F(DataConnectionTest, AnUnknownTransportIsRefused) {
  const auto connection = Connect("pigeon");
  EXPECT_EQ(connection.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(connection.status())), HasSubstr("pigeon"));
}

TEST_F(DataConnectionTest, AServerWithManyOffersIsNotBelieved) {
  for (int i = 0; i < 17; ++i) handler_.Offer("grpc");
  EXPECT_EQ(Connect().status().code(), StatusCode::kDataLoss);
}

TEST_F(DataConnectionTest, LandingsAreAnnouncedAndWithdrawnOverTheControlChannel) {
  handler_.Offer("shm");
  constexpr PipeDialer kDirect[] = {{"shm", &DialInproc}};
  const auto connection = Connect("auto", kDirect);
  ASSERT_TRUE(connection.ok()) << connection.status();
  std::vector<std::byte> memory(12345);
  auto landing = connection->transport->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_THAT(handler_.landings(), ::testing::ElementsAre(::testing::Pair(1, 12345)));
  landing->reset();
  EXPECT_TRUE(handler_.landings().empty());
}

TEST(ReachableAddressTest, MeansTheControlChannelsHostWhereTheOfferNamesNone) {
  EXPECT_EQ(ReachableAddress("", "example.org:7410"), "example.org:7410");
  EXPECT_EQ(ReachableAddress("0.0.0.0:99", "example.org:7410"), "example.org:99");
  EXPECT_EQ(ReachableAddress("[::]:99", "[::1]:7410"), "[::1]:99");
  EXPECT_EQ(ReachableAddress("10.0.0.1:99", "example.org:7410"), "10.0.0.1:99");
  EXPECT_EQ(ReachableAddress("/run/quire.sock", "example.org:7410"), "/run/quire.sock");
  EXPECT_EQ(ReachableAddress("0.0.0.0:99", "unix:/run/quire"), "0.0.0.0:99");
}

}  // namespace
}  // namespace quire::testing
