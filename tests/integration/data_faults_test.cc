// SPDX-License-Identifier: Apache-2.0
//
// Faults of data connections through a whole server with a real arena and a real store, over every
// transport. Clients are killed, stall, never acknowledge, or send stale, replayed or forged data.
// The server serves the others meanwhile. In the end it holds nothing for clients that are gone,
// and its metrics show that.
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/data/data_transport.h"
#include "client/recall/landing_area.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "common/wire/convert.h"
#include "common/wire/unit_list.h"
#include "kvserver/service/data_plane/data_plane.h"
#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/server.h"
#include "quire/connect.h"
#include "quire/session_landing.h"
#include "quire/v1/data_plane.pb.h"
#include "quire/v1/session.pb.h"
#include "tests/integration/direct_ucx.h"
#include "tests/integration/fault_document.h"
#include "tests/kit/child_process.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/look_again.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/frames/frame.h"
#include "transport/frames/frame_client.h"
#include "transport/local/loopback_transport.h"
#include "transport/ucx/ucx.h"

namespace quire::testing {
namespace {

constexpr char kRecall[] = "quire.v1.Session/Recall";
/// Time after which automatic events have happened, also on a busy machine.
constexpr Duration kFaultPatience = std::chrono::minutes(2);

/// A client, and the connection of its recalls.
struct DataClient {
  std::shared_ptr<internal::DataTransport> data;
  std::unique_ptr<Client> client;
};

/// Keeps gRPC's threads between the tests. It would end them with the last server, and wait up to
/// 10 s for a polling one.
class KeepGrpc final : public ::testing::Environment {
 public:
  void SetUp() override { grpc_init(); }
  void TearDown() override { grpc_shutdown(); }
};
[[maybe_unused]] const auto* const kKeepGrpc = ::testing::AddGlobalTestEnvironment(new KeepGrpc);

/// "shm" copies for each connection, since the server has two tenants; "shm_lent" lends the arena
/// of a server of one; "ucx_direct" writes into landings.
class DataFaultsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (DataKind() == "ucx" && !UcxAvailable()) GTEST_SKIP() << "built without UCX";
    options_.data_dir = dir_ / "data";
    options_.dram_bytes = 64 << 20;
    options_.stall_seconds = stall_seconds_;
    options_.lease_seconds = lease_seconds_;
    options_.idle_seconds = kIdleSeconds;
    options_.clock = &clock_;
    if (kind() != "shm_lent") options_.tenants = {"default", "other"};
    auto server = kvserver::Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto listener = kvserver::NetworkServer::Start(
        *server_, options_,
        {.listeners = {.transports = {DataKind()},
                       .shm_socket = dir_ / "socket",
                       .ucx = kind() == "ucx_direct" ? DirectUcxOptions() : UcxOptions()}});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    control_ = *ConnectGrpc(listener_->address());
    for (const std::string& tenant : options_.tenants) {
      const auto client = *Client::Create({.transport = control_, .tenant = tenant});
      ASSERT_EQ(PutFaultDocument(*client), OkStatus());
    }
  }
  /// Checks after every test: with nothing stored, no reader holds a byte of the arena.
  void TearDown() override {
    if (server_ == nullptr) return;
    EXPECT_GT(Metric("dram_bytes_used"), 0u);
    const auto transport =
        std::make_shared<LoopbackTransport>(server_->handler(), LoopbackTransport::Options{});
    for (const std::string& tenant : options_.tenants) {
      const auto client = *Client::Create({.transport = transport, .tenant = tenant});
      EXPECT_EQ(client->DeleteDocument({.name = kFaultDocument}).status(), OkStatus());
    }
    AwaitNoSession();  // Sessions hold what they read.
    EXPECT_TRUE(Await([&] { return Metric("dram_bytes_used") == 0; }));
  }
  std::string_view kind() const { return GetParam(); }
  std::string DataKind() const {
    return kind() == "shm_lent" ? "shm" : kind() == "ucx_direct" ? "ucx" : GetParam();
  }
  /// The tenant that must not be affected.
  std::string OtherTenant() const { return options_.tenants.back(); }

  DataOptions Options(const std::string& tenant) const {
    return {.transport = DataKind(), .tenant = tenant, .control_address = listener_->address()};
  }
  DataClient Connect(const std::string& tenant, uint64_t window_bytes = uint64_t{32} << 20) {
    DataOptions options = Options(tenant);
    options.window_bytes = window_bytes;
    internal::DataSeams seams;
    if (kind() == "ucx_direct") seams.dialers = DirectUcxDialers();
    auto data = internal::DataTransport::Open(control_, options, {}, seams);
    EXPECT_TRUE(data.ok()) << data.status();
    auto client =
        Client::Create({.transport = control_, .data_transport = *data, .tenant = tenant});
    return {*data, *std::move(client)};
  }
  /// A recall_peer of tenant "default" that has printed "receiving"; null if it does not.
  std::unique_ptr<ChildProcess> Peer(const std::string& way) {
    const std::string transport = kind() == "ucx_direct" ? "ucx-direct" : DataKind();
    const std::vector<std::string> args = {listener_->address(), transport, "default", way};
    auto peer =
        std::make_unique<ChildProcess>(QUIRE_BINARY_DIR "/bin/recall_peer", args, dir_ / "stderr");
    std::string line;
    if (peer->ReadLine(&line) && line == "receiving") return peer;
    ADD_FAILURE() << line << peer->Stderr();
    return nullptr;
  }
  /// Expects a correct recall of the whole document.
  static void ExpectAllOfIt(ClientSession& session) {
    const auto result = session.Recall(WantAllOfIt());
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->placements.size(), FaultUnits());
    EXPECT_EQ(CheckFaultUnits(result->placements, result->payload), OkStatus());
  }
  std::unique_ptr<ClientSession> OpenSession(const DataClient& client) {
    auto session = OpenFaultSession(*client.client);
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  /// True if `condition()` becomes true in time.
  template <typename Condition>
  static bool Await(Condition condition) {
    const TimePoint deadline = SystemClock().Now() + kFaultPatience;
    while (!condition()) {
      if (SystemClock().Now() >= deadline) return false;
      WaitToLookAgain();
    }
    return true;
  }
  /// A value; `series` has its labels.
  uint64_t Metric(const std::string& series) const {
    const std::map<std::string, uint64_t> values = MetricValuesOf(*server_);
    const auto value = values.find(series);
    EXPECT_NE(value, values.end()) << series;
    return value == values.end() ? 0 : value->second;
  }
  uint64_t Connections() const {
    return Metric("transport_connections{kind=\"" + DataKind() + "\"}");
  }
  /// Bytes of the arena held by leases. Only shared memory has leases; for other transports this is
  /// 0. TearDown checks for other holders of the arena.
  uint64_t Leased() const {
    return DataKind() == "grpc" ? 0 : Metric("transport_leased_bytes{kind=\"" + DataKind() + "\"}");
  }
  /// Waits until no call runs and nothing is lent (see Leased); `connections` remain.
  void AwaitNothingHeld(uint64_t connections) const {
    EXPECT_TRUE(Await([&] { return Connections() == connections; })) << Connections();
    EXPECT_TRUE(Await([&] { return Leased() == 0; })) << Leased();
    EXPECT_TRUE(Await([&] { return Metric("admission_running{door=\"read\"}") == 0; }));
  }
  void AwaitNoSession() {
    clock_.Advance(std::chrono::seconds(kIdleSeconds + 1));
    server_->KeepUpSoon();
    EXPECT_TRUE(Await([&] { return Metric("sessions_open") == 0; }));
  }

  static uint64_t AllBytes() { return FaultUnits() * UnitBytes(FaultSpec()); }

  static constexpr uint32_t kIdleSeconds = 60;
  uint32_t lease_seconds_ = 6;
  uint32_t stall_seconds_ = 2;
  TempDir dir_;
  FakeClock clock_;  ///< Clock of the server's idle times.
  kvserver::ServerOptions options_;
  std::unique_ptr<kvserver::Server> server_;
  std::unique_ptr<kvserver::NetworkServer> listener_;
  std::shared_ptr<Transport> control_;
};

const auto kKinds = ::testing::Values("grpc", "shm", "shm_lent", "ucx", "ucx_direct");
std::string NameOf(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Transports, DataFaultsTest, kKinds, &NameOf);

/// Timeouts exceed the test. Whatever is released in time is released by the end of the connection.
class KilledClientTest : public DataFaultsTest {
 protected:
  KilledClientTest() {
    lease_seconds_ = stall_seconds_ = 3600;
    static_assert(kFaultPatience < std::chrono::seconds(3600));
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, KilledClientTest, kKinds, &NameOf);

TEST_P(KilledClientTest, AClientKilledInTheMiddleOfARecallLeavesNothing) {
  const auto worker = Peer("again");
  ASSERT_NE(worker, nullptr);
  const DataClient other = Connect(OtherTenant());
  const auto session = OpenSession(other);
  ExpectAllOfIt(*session);
  EXPECT_EQ(Connections(), 2u);
  if (kind() == "shm_lent") {
    EXPECT_TRUE(Await([&] { return Leased() != 0; }));
  }
  worker->Signal(SIGKILL);
  ExpectAllOfIt(*session);
  EXPECT_EQ(worker->Wait(), -SIGKILL);
  AwaitNothingHeld(1);
  ExpectAllOfIt(*session);
  AwaitNothingHeld(1);
  AwaitNoSession();  // The killed client's session has idled like any other.
}

/// A lease outlives the stop of its client, however slow the machine is.
class FrozenClientTest : public DataFaultsTest {
 protected:
  FrozenClientTest() { lease_seconds_ = 8; }
};

INSTANTIATE_TEST_SUITE_P(Transports, FrozenClientTest, kKinds, &NameOf);

// The client takes a part and is then frozen: it gives no credit, reads nothing and releases no
// lease. Data buffered by its system, and data in flight, belong to the connection until it ends.
TEST_P(FrozenClientTest, AClientFrozenInTheMiddleOfARecallLosesItAndNobodyWaitsForIt) {
  const DataClient other = Connect(OtherTenant());
  const auto session = OpenSession(other);
  const auto worker = Peer("once");
  ASSERT_NE(worker, nullptr);
  worker->Stop();
  EXPECT_EQ(Leased() > 0, kind() == "shm_lent");
  while (Metric("transport_stalled") == 0) ExpectAllOfIt(*session);
  while (Metric("admission_running{door=\"read\"}") != 0) ExpectAllOfIt(*session);
  if (DataKind() == "shm") {
    // The part is lent, or a copy in memory of both ends. Its lease becomes too old, and ends the
    // connection while the client still exists.
    while (Connections() > 1) ExpectAllOfIt(*session);
    AwaitNothingHeld(1);
  }
  worker->Signal(SIGKILL);
  ExpectAllOfIt(*session);
  EXPECT_EQ(worker->Wait(), -SIGKILL);
  AwaitNothingHeld(1);
  ExpectAllOfIt(*session);
  AwaitNothingHeld(1);
  AwaitNoSession();
}

TEST_P(DataFaultsTest, AClientFrozenInTheMiddleOfARecallDoesNotKeepTheServerFromEnding) {
  const auto worker = Peer("once");
  ASSERT_NE(worker, nullptr);
  worker->Stop();
  listener_->Shutdown(std::chrono::milliseconds(100));
  EXPECT_EQ(Connections(), 0u);
  EXPECT_EQ(Metric("admission_running{door=\"read\"}"), 0u);
  worker->Signal(SIGKILL);
  EXPECT_EQ(worker->Wait(), -SIGKILL);
}

// A client that maps the arena can read all of it.
TEST_P(DataFaultsTest, TheArenaIsLentOnlyWhereThereIsOneTenant) {
  const DataClient client = Connect("default");
  EXPECT_EQ(client.data->capabilities().in_place, kind() == "shm_lent");
}

TEST_P(DataFaultsTest, AReaderThatTakesNothingLosesItsRecallAndNobodyWaitsForIt) {
  const DataClient stalled = Connect("default", kSmallWindow), other = Connect(OtherTenant());
  const auto stalled_session = OpenSession(stalled), session = OpenSession(other);
  {
    // The server writes into a landing only within what the reader has taken, too.
    std::unique_ptr<SessionLanding> landing;
    if (kind() == "ucx_direct") landing = *stalled_session->MakeLanding();
    const auto recall = stalled_session->Start(WantAllOfIt(), {.landing = landing.get()});
    ASSERT_TRUE(recall.ok()) << recall.status();
    const auto part = (*recall)->Next();
    ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
    while (Metric("transport_stalled") == 0) ExpectAllOfIt(*session);
  }
  AwaitNothingHeld(2);
  ExpectAllOfIt(*OpenSession(stalled));  // Its connection is unaffected.
}

/// Leases end soon, and the arena's memory is reused.
class EndedLeaseTest : public DataFaultsTest {
 protected:
  EndedLeaseTest() { lease_seconds_ = 1; }
  void SetUp() override {
    DataFaultsTest::SetUp();
    clients_ = Connect("default");
    session_ = OpenSession(clients_);
  }
  void TearDown() override {
    EXPECT_EQ(clients_.client->DeleteSegments(put_).status(), OkStatus());
    session_.reset();
    DataFaultsTest::TearDown();
  }
  /// Puts other bytes wherever the arena has room.
  void PutOthers() {
    const KvSpec spec = FaultSpec();
    std::vector<TokenId> tokens(spec.segment_tokens(), static_cast<TokenId>(put_.size()));
    Payload pages;
    pages.Append(std::vector<std::byte>(SegmentBytes(spec, spec.segment_pages)));
    const auto key = clients_.client->PutSegment(spec, kRootKey, tokens, pages);
    ASSERT_TRUE(key.ok()) << key.status();
    put_.push_back(*key);
  }
  StatusOr<RecallResult> RecallAll() { return session_->Recall(WantAllOfIt()); }

  DataClient clients_;
  std::unique_ptr<ClientSession> session_;
  std::vector<SegmentKey> put_;
};

INSTANTIATE_TEST_SUITE_P(Transports, EndedLeaseTest, ::testing::Values("shm", "shm_lent"), &NameOf);

TEST_P(EndedLeaseTest, WhoHoldsUnitsForLongerThanTheyAreLentIsToldAndNothingChangesBefore) {
  const TimePoint before = SystemClock().Now();
  auto held = RecallAll(), renewed = RecallAll(), owned = RecallAll();
  ASSERT_TRUE(held.ok() && renewed.ok() && owned.ok());
  EXPECT_GE(held->valid_until, before + std::chrono::seconds(1));
  EXPECT_LE(held->valid_until, SystemClock().Now() + std::chrono::seconds(1));
  ASSERT_EQ(owned->OwnUnits(), OkStatus());
  // Only the leases keep the extents in place.
  EXPECT_EQ(clients_.client->DeleteDocument({.name = kFaultDocument}).status(), OkStatus());
  ASSERT_EQ(session_->RemoveSequence(0), OkStatus());

  // As long as leases are reported good, their bytes are unchanged, whatever is put meanwhile.
  Status compared;
  for (;;) {
    PutOthers();
    compared = CheckFaultUnits(held->placements, held->payload);
    if (!held->IsValid()) break;
    ASSERT_EQ(compared, OkStatus());
    (void)session_->Renew(&*renewed);  // Refused if the connection has just ended.
  }
  EXPECT_GE(SystemClock().Now(), held->valid_until);
  EXPECT_EQ(held->OwnUnits().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->Renew(&*held).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(CheckFaultUnits(owned->placements, owned->payload), OkStatus());

  // The other was renewed until just now, and outlives the first and its connection.
  EXPECT_GT(renewed->valid_until, held->valid_until);
  compared = CheckFaultUnits(renewed->placements, renewed->payload);
  EXPECT_TRUE(renewed->IsValid());
  EXPECT_EQ(compared, OkStatus());
  if (kind() == "shm_lent") {
    while (CheckFaultUnits(held->placements, held->payload).ok())
      PutOthers();  // The bytes of an ended lease are overwritten.
  }
  held->payload = renewed->payload = {};
  EXPECT_EQ(PutFaultDocument(*clients_.client), OkStatus());
  ExpectAllOfIt(*OpenSession(clients_));  // Uses a new connection.
}

/// A reader that keeps everything it was sent; leases do not become too old here.
class KeepingReaderTest : public DataFaultsTest {
 protected:
  KeepingReaderTest() { lease_seconds_ = 3600; }
  /// Runs while the client keeps its payload, which must not hold the arena. The client drops it
  /// afterwards.
  void TearDown() override {
    DataFaultsTest::TearDown();
    kept_.clear();
    EXPECT_TRUE(staging_.expired());
  }

  std::vector<RecallResult> kept_;
  std::weak_ptr<const void> staging_;  ///< Memory of the staging area.
};

INSTANTIATE_TEST_SUITE_P(Transports, KeepingReaderTest, kKinds, &NameOf);

TEST_P(KeepingReaderTest, AReaderThatNeverAcknowledgesIsServedTheSameAgainAndOnlyWhatIsLentIsHeld) {
  constexpr uint64_t kRecalls = 5;
  const bool direct = kind() == "ucx_direct";
  const DataClient reader = Connect("default"), other = Connect(OtherTenant());
  const auto session = OpenSession(reader), other_session = OpenSession(other);
  std::unique_ptr<SessionLanding> staging;  // Slots would be applied as they are filled.
  if (direct) {
    staging = *session->MakeLanding(1);
    staging_ = static_cast<internal::LandingArea&>(*staging).owner();
  }
  for (uint64_t i = 0; i < kRecalls; ++i) {
    auto result = session->Recall(WantAllOfIt(), {.landing = staging.get()});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->payload.size_bytes(), AllBytes());
    EXPECT_EQ(result->landed_bytes, direct ? AllBytes() : 0);
    EXPECT_EQ(CheckFaultUnits(result->placements, result->payload), OkStatus());
    kept_.push_back(*std::move(result));
    ExpectAllOfIt(*other_session);
  }
  if (kind() == "shm_lent") {
    while (Leased() > kRecalls * AllBytes()) WaitToLookAgain();  // Waits for the other's.
    EXPECT_EQ(Leased(), kRecalls * AllBytes());
    for (const RecallResult& result : kept_) {
      EXPECT_EQ(CheckFaultUnits(result.placements, result.payload), OkStatus());
    }
    kept_.clear();
  }
  AwaitNothingHeld(2);
}

/// Speaks frames, and stops reading on request.
class StallingPeer final : public FrameReceiver {
 public:
  ~StallingPeer() override {
    {
      MutexLock lock(mutex_);
      stalls_ = false;
      changed_.NotifyAll();
    }
    pipe_->Close();
  }

  /// Sends a hello with a ticket of `tenant`, reads the answer, and nothing after it.
  Status Connect(std::unique_ptr<FramePipe> pipe, const std::string& tenant,
                 const std::string& ticket) {
    pipe_ = std::move(pipe);
    pipe_->Start(this);
    QUIRE_RETURN_IF_ERROR(Send({.kind = FrameKind::kHello,
                                .amount = uint64_t{256} << 20,
                                .name = tenant,
                                .text = ticket}));
    MutexLock lock(mutex_);
    while (!greeted_) changed_.Wait(mutex_);
    return OkStatus();
  }
  Status Send(const FrameHead& head) { return pipe_->Send({.head = EncodeFrameHead(head)}); }

  void OnFrame(Frame) override {
    MutexLock lock(mutex_);
    if (!greeted_) {
      greeted_ = true;
      changed_.NotifyAll();
      return;
    }
    while (stalls_) changed_.Wait(mutex_);
  }
  void OnClosed(const Status&) override {}

 private:
  std::unique_ptr<FramePipe> pipe_;
  Mutex mutex_;
  CondVar changed_;
  bool greeted_ QUIRE_GUARDED_BY(mutex_) = false;
  bool stalls_ QUIRE_GUARDED_BY(mutex_) = true;
};

/// Hand-made messages over the control channel and data connections.
class RawDataFaultsTest : public DataFaultsTest {
 protected:
  template <typename Reply, typename Request>
  Reply Control(const std::string& method, const Request& request,
                const std::string& tenant = "default") {
    CallMessage answer;
    const Status status = control_->Call("quire.v1." + method, {request.SerializeAsString(), {}},
                                         &answer, {.tenant = tenant});
    EXPECT_EQ(status, OkStatus()) << method;
    Reply reply;
    EXPECT_TRUE(reply.ParseFromString(answer.control));
    return reply;
  }
  v1::TransportOffer Offer(const std::string& tenant = "default") {
    const auto reply = Control<v1::OfferReply>("DataPlane/Offer", v1::OfferRequest(), tenant);
    for (const v1::TransportOffer& offer : reply.offers()) {
      if (offer.kind() == DataKind()) return offer;
    }
    ADD_FAILURE() << "no offer of " << DataKind();
    return {};
  }
  std::unique_ptr<FramePipe> Dial(const v1::TransportOffer& offer) {
    const auto dialers = kind() == "ucx_direct" ? DirectUcxDialers() : internal::PipeDialers();
    const auto dialer = std::ranges::find(dialers, DataKind(), &internal::PipeDialer::kind);
    auto pipe =
        dialer->dial({.address = internal::ReachableAddress(offer.address(), listener_->address()),
                      .max_message_bytes = wire::kDefaultMaxMessageBytes,
                      .timeout = std::chrono::seconds(10)});
    EXPECT_TRUE(pipe.ok()) << pipe.status();
    return *std::move(pipe);
  }
  StatusOr<std::shared_ptr<FrameClient>> Connect(const std::string& ticket,
                                                 FrameClient::Options options = {}) {
    options.ticket = ticket;
    return FrameClient::Connect(Dial(Offer()), options);
  }

  uint64_t OpenSession() {
    v1::OpenSessionRequest request;
    request.add_sequences()->add_members()->mutable_context()->mutable_document()->set_name(
        kFaultDocument);
    request.mutable_sequences(0)
        ->mutable_members(0)
        ->mutable_context()
        ->mutable_document()
        ->set_collection("default");
    wire::KvSpecToProto(FaultSpec(), request.mutable_spec());
    request.set_slots_per_head(kFaultPages);
    return Control<v1::OpenSessionReply>("Session/Open", request).session_id();
  }
  /// A recall of everything, by a worker that has applied nothing.
  static v1::RecallRequest RecallOf(uint64_t session, uint64_t epoch, uint64_t exchange) {
    v1::RecallRequest request;
    request.set_session_id(session);
    request.set_epoch(epoch);
    request.set_exchange(exchange);
    v1::LayerWant& want = *request.add_wants();
    want.set_num_layers(FaultSpec().num_layers);
    want.mutable_applied()->Resize(static_cast<int>(FaultSpec().num_layers), 0);
    wire::EncodeUnitList(WantAllOfIt()[0].pages, want.mutable_units());
    return request;
  }
  /// The bytes that a recall brings before its end.
  struct Outcome {
    Status status;
    uint64_t bytes = 0;
  };
  static Outcome Recall(Transport& transport, const v1::RecallRequest& request,
                        Landing* landing = nullptr) {
    auto call = transport.Start(kRecall, {request.SerializeAsString(), {}}, {.landing = landing});
    if (!call.ok()) return {call.status()};
    Outcome outcome;
    for (;;) {
      const auto part = (*call)->Next(TimePoint::max());
      outcome.status = part.status();
      if (!part.ok() || !part->has_value()) return outcome;
      outcome.bytes += (*part)->payload.size_bytes() + (*part)->landed_bytes;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, RawDataFaultsTest, kKinds, &NameOf);

TEST_P(RawDataFaultsTest, AReaderThatTakesNoFrameLosesItsConnectionAndNobodyWaitsForIt) {
  const DataClient other = DataFaultsTest::Connect(OtherTenant());
  const auto session = DataFaultsTest::OpenSession(other);
  ExpectAllOfIt(*session);
  const uint64_t stalled_session = OpenSession();
  StallingPeer stalled;
  const v1::TransportOffer offer = Offer();
  ASSERT_EQ(stalled.Connect(Dial(offer), "default", offer.ticket()), OkStatus());
  EXPECT_EQ(Connections(), 2u);
  // Sends enough to fill the buffers of the wire. Shared memory takes all of it at once, and ends
  // when a lease is too old.
  for (uint64_t id = 1; Connections() > 1; ++id) {
    (void)stalled.Send({.kind = FrameKind::kRequest,
                        .id = id,
                        .amount = 60'000'000'000,
                        .max_parts = UINT32_MAX,
                        .name = kRecall,
                        .text = RecallOf(stalled_session, 1, id).SerializeAsString()});
    ExpectAllOfIt(*session);
  }
  AwaitNothingHeld(1);
  ExpectAllOfIt(*session);
}

TEST_P(RawDataFaultsTest, StaleAndReplayedRecallsBringNothing) {
  const auto client = Connect(Offer().ticket());
  ASSERT_TRUE(client.ok()) << client.status();
  const uint64_t session = OpenSession();
  const v1::RecallRequest first = RecallOf(session, 1, 7);
  Outcome outcome = Recall(**client, first);
  EXPECT_EQ(outcome.status, OkStatus());
  EXPECT_EQ(outcome.bytes, AllBytes());

  outcome = Recall(**client, first);
  EXPECT_EQ(outcome.status.code(), StatusCode::kFailedPrecondition) << "a replay";
  EXPECT_EQ(outcome.bytes, 0u);
  outcome = Recall(**client, RecallOf(session, 1, 6));
  EXPECT_EQ(outcome.status.code(), StatusCode::kFailedPrecondition) << "late";
  EXPECT_EQ(outcome.bytes, 0u);

  v1::ResyncRequest resync;
  resync.set_session_id(session);
  resync.set_epoch(2);
  Control<v1::ResyncReply>("Session/Resync", resync);
  outcome = Recall(**client, RecallOf(session, 1, 8));
  EXPECT_EQ(outcome.status.code(), StatusCode::kFailedPrecondition) << "of a stale epoch";
  EXPECT_EQ(outcome.bytes, 0u);
  EXPECT_EQ(Recall(**client, RecallOf(session, 2, 9)).bytes, AllBytes());
  EXPECT_EQ(Recall(**client, RecallOf(session + 1, 2, 10)).status.code(), StatusCode::kNotFound);
  AwaitNothingHeld(1);
}

TEST_P(RawDataFaultsTest, ForgedAndUsedTicketsAdmitNobody) {
  const std::string ticket = Offer().ticket();
  std::string forged = ticket;
  forged[0] = static_cast<char>(forged[0] ^ 1);
  EXPECT_EQ(Connect(forged).status().code(), StatusCode::kUnauthenticated);
  const auto client = Connect(ticket);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(Connect(ticket).status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(Metric("transport_hello_refused"), 2u);
  const uint64_t session = OpenSession();
  EXPECT_EQ(Recall(**client, RecallOf(session, 1, 1)).bytes, AllBytes());
  AwaitNothingHeld(1);
}

TEST_P(RawDataFaultsTest, NoTicketsAndKeysAreHandedOutOverADataConnection) {
  const auto client = Connect(Offer().ticket());
  ASSERT_TRUE(client.ok()) << client.status();
  for (const char* method : {"Offer", "AddLanding", "RemoveLanding"}) {
    CallMessage reply;
    EXPECT_EQ((*client)->Call(std::string("quire.v1.DataPlane/") + method, {}, &reply, {}).code(),
              StatusCode::kPermissionDenied)
        << method;
  }
}

TEST_P(RawDataFaultsTest, AShutdownLetsARecallUnderWayEnd) {
  FrameClient::Options options;
  options.window_bytes = kSmallWindow;
  const auto client = Connect(Offer().ticket(), options);
  ASSERT_TRUE(client.ok()) << client.status();
  const v1::RecallRequest request = RecallOf(OpenSession(), 1, 1);
  auto call = (*client)->Start(kRecall, {request.SerializeAsString(), {}}, {});
  ASSERT_TRUE(call.ok()) << call.status();
  auto part = (*call)->Next(TimePoint::max());
  ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
  std::thread shutdown([&] { listener_->Shutdown(std::chrono::minutes(5)); });
  Status status;
  do {  // Waits until it has begun; a stopping server accepts no more.
    CallMessage reply;
    status = (*client)->Call("quire.v1.Admin/Stats", {}, &reply, {});
  } while (status.ok());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  uint64_t bytes = 0;
  for (; part.ok() && part->has_value(); part = (*call)->Next(TimePoint::max())) {
    bytes += (*part)->payload.size_bytes();
  }
  EXPECT_EQ(part.status(), OkStatus());
  EXPECT_EQ(bytes, AllBytes());
  shutdown.join();
}

/// Where the server writes into memory of the client, for which it is handed keys.
class LandingKeysTest : public RawDataFaultsTest {
 protected:
  void CloseSession(uint64_t session) {
    v1::CloseSessionRequest request;
    request.set_session_id(session);
    CallMessage answer;
    EXPECT_EQ(
        control_->Call("quire.v1.Session/Close", {request.SerializeAsString(), {}}, &answer, {}),
        OkStatus());
  }
  Status Announce(uint64_t connection, uint64_t landing, uint64_t bytes, std::string_view key) {
    v1::AddLandingRequest request;
    request.set_connection_id(connection);
    request.set_landing_id(landing);
    request.set_bytes(bytes);
    request.set_key(key.data(), key.size());
    CallMessage answer;
    return control_->Call("quire.v1.DataPlane/AddLanding", {request.SerializeAsString(), {}},
                          &answer, {});
  }
  /// Options of a client whose landings are announced; `*key` gets the key of the last one.
  FrameClient::Options Announcing(std::string* key) {
    FrameClient::Options options;
    options.announce = [this, key](uint64_t connection, uint64_t landing, uint64_t bytes,
                                   std::string_view announced) {
      *key = announced;
      return Announce(connection, landing, bytes, announced);
    };
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, LandingKeysTest, ::testing::Values("ucx_direct"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(LandingKeysTest, ALandingIsOfOneSessionAndEndsWithIt) {
  std::string key;
  const auto client = Connect(Offer().ticket(), Announcing(&key));
  ASSERT_TRUE(client.ok()) << client.status();
  const auto memory = (*client)->AllocateLandingMemory(AllBytes());
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto landing = (*client)->AddLanding(memory->bytes);
  ASSERT_TRUE(landing.ok()) << landing.status();
  ASSERT_NE(key, "") << "UCX found no lane for writes";
  const uint64_t first = OpenSession(), second = OpenSession(), third = OpenSession();
  const auto recall = [&](uint64_t session, uint64_t exchange) {
    v1::RecallRequest request = RecallOf(session, 1, exchange);
    request.set_place(true);
    return Recall(**client, request, landing->get()).status;
  };
  EXPECT_EQ(recall(first, 1), OkStatus());
  EXPECT_EQ(recall(first, 2), OkStatus());
  EXPECT_EQ(recall(second, 1).code(), StatusCode::kPermissionDenied);
  CloseSession(first);
  // Closing the session frees its claim. Units now come in messages, and another session may use
  // the landing.
  EXPECT_EQ(recall(second, 1), OkStatus());
  EXPECT_EQ(recall(third, 1), OkStatus());
}

TEST_P(LandingKeysTest, ForgedAndReplayedKeysOpenNothing) {
  std::string key;
  auto client = Connect(Offer().ticket(), Announcing(&key));
  const auto other = Connect(Offer().ticket());
  ASSERT_TRUE(client.ok() && other.ok()) << client.status() << other.status();
  const auto allocated = (*client)->AllocateLandingMemory(AllBytes());
  ASSERT_TRUE(allocated.ok()) << allocated.status();
  const std::span<std::byte> memory = allocated->bytes;
  auto landing = (*client)->AddLanding(memory);
  ASSERT_TRUE(landing.ok()) << landing.status();
  ASSERT_NE(key, "") << "UCX found no lane for writes";
  const uint64_t id = (*client)->connection_id();
  std::string forged = key;
  forged.back() = static_cast<char>(forged.back() ^ 1);
  for (const auto& [connection, number, announced] :
       {std::tuple(id, 1, key), std::tuple(id, 2, key), std::tuple(id, 2, forged),
        std::tuple((*other)->connection_id(), 1, key)}) {
    EXPECT_EQ(Announce(connection, number, memory.size(), announced).code(),
              StatusCode::kInvalidArgument)
        << connection << " " << number;
  }
  EXPECT_EQ(Announce(id + 1, 1, memory.size(), key).code(), StatusCode::kNotFound);

  v1::RecallRequest request = RecallOf(OpenSession(), 1, 1);
  request.set_place(true);
  const Outcome outcome = Recall(**client, request, landing->get());
  EXPECT_EQ(outcome.status, OkStatus());
  EXPECT_EQ(outcome.bytes, AllBytes());
  const auto unit = FaultUnit(0, 0, 0);
  EXPECT_EQ(std::memcmp(memory.data(), unit.data(), unit.size()), 0) << "it fills slots in order";
  AwaitNothingHeld(2);

  // Keys end with their landing, and with their connection.
  landing->reset();
  EXPECT_EQ(Announce(id, 1, memory.size(), key).code(), StatusCode::kInvalidArgument);
  client->reset();
  while (Connections() > 1) WaitToLookAgain();
  EXPECT_EQ(Announce(id, 1, memory.size(), key).code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quire::testing
