// SPDX-License-Identifier: Apache-2.0
//
// Data connections of every kind to a server in another process. The server is killed, also in the
// middle of a transfer, and started again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/data/data_transport.h"
#include "common/base/threads/mutex.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session_landing.h"
#include "tests/integration/fault_document.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"
#include "transport/ucx/ucx.h"

namespace quire {
namespace {

constexpr char kStats[] = "quire.v1.Admin/Stats";
/// Smaller than a part of a reply: without a reader the server stops in the middle.
constexpr uint64_t kProcessWindow = 64 << 10;
/// Every deadline here is later.
constexpr Duration kPromptly = std::chrono::seconds(10);
/// Time after which automatic events have happened, also on a busy machine.
constexpr Duration kProcessPatience = std::chrono::minutes(1);

/// Any port of a loopback address derived from the process number. A restarted server finds its
/// port free, which another test might take on 127.0.0.1.
std::string OwnLoopback() {
  const auto pid = static_cast<uint32_t>(getpid());
  return "127." + std::to_string(64 + (pid >> 16 & 0x3f)) + "." + std::to_string(pid >> 8 & 0xff) +
         "." + std::to_string(pid & 0xff) + ":0";
}

/// Disables gRPC's periodic connection checks, which would hide missing ones of ours.
class NoBackupPolling final : public ::testing::Environment {
 public:
  void SetUp() override { setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "0", 1); }
};
[[maybe_unused]] const auto* const kNoBackupPolling =
    ::testing::AddGlobalTestEnvironment(new NoBackupPolling);

/// Recalls the whole document again and again on its own thread until a failure, so that bytes move
/// all the time. Nothing is ever applied: each recall returns everything. The parts of a recall are
/// kept until the next one has arrived. The session belongs to the thread until Join.
class RecallLoop {
 public:
  explicit RecallLoop(ClientSession* session) : session_(session), thread_([this] { Run(); }) {}
  ~RecallLoop() { (void)Join(); }

  /// Waits for the first part of the second recall. False if the loop has ended without one.
  bool AwaitSecondRecall() {
    MutexLock lock(mutex_);
    while (!second_ && !ended_) changed_.Wait(mutex_);
    return second_;
  }
  /// Waits for its end, and returns the reason.
  Status Join() {
    if (thread_.joinable()) thread_.join();
    return why_;
  }
  /// Checks the received data; after Join.
  Status Check() const {
    std::vector<RecallPart> parts = latest_;
    parts.insert(parts.end(), held_.begin(), held_.end());
    for (const RecallPart& part : parts) {
      QUIRE_RETURN_IF_ERROR(testing::CheckFaultUnits(part.placements, part.payload));
    }
    return parts.empty() ? DataLoss("nothing was kept") : OkStatus();
  }

 private:
  void Run() {
    for (uint64_t recall = 1; why_.ok(); ++recall) why_ = RecallAll(recall);
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  Status RecallAll(uint64_t number) {
    QUIRE_ASSIGN_OR_RETURN(const auto recall, session_->Start(testing::WantAllOfIt()));
    uint64_t units = 0;
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(std::optional<RecallPart> part, recall->Next());
      if (!part) break;
      units += part->placements.size();
      latest_.push_back(*std::move(part));
      if (number == 2) TellSecond();
    }
    held_ = std::exchange(latest_, {});
    return units == testing::FaultUnits() ? OkStatus() : DataLoss("only ", units, " units");
  }
  void TellSecond() {
    MutexLock lock(mutex_);
    second_ = true;
    changed_.NotifyAll();
  }

  ClientSession* const session_;
  std::vector<RecallPart> latest_, held_;  ///< Used by the thread, as is `why_`.
  Status why_;
  Mutex mutex_;
  CondVar changed_;
  bool second_ QUIRE_GUARDED_BY(mutex_) = false;
  bool ended_ QUIRE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  ///< Last member, because it uses the others.
};

class DataPlaneProcessTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (DataKind() == "ucx" && !UcxAvailable()) GTEST_SKIP() << "built without UCX";
    StartServer();
  }
  /// True if the arena itself is shared, with one tenant; otherwise clients get copies.
  bool lent() const { return GetParam() == std::string_view("shm_lent"); }
  std::string DataKind() const { return lent() ? "shm" : GetParam(); }

  void StartServer() {
    std::vector<std::string> args = {"--data-dir",   dir_ / "data", "--listen",     address_,
                                     "--dram-bytes", "16MiB",       "--transports", DataKind()};
    // UCX connects to the address of the interface; the port may change with a restart.
    if (DataKind() == "ucx") args.insert(args.end(), {"--ucx-listen", "127.0.0.1:0"});
    if (!lent()) args.insert(args.end(), {"--tenants", "default,other"});
    server_ = std::make_unique<testing::ChildProcess>(std::string(QUIRE_BINARY_DIR) + "/bin/quired",
                                                      args, dir_ / "stderr");
    const std::string prefix = "quired listening on ";
    std::string line;
    ASSERT_TRUE(server_->ReadLine(&line) && line.starts_with(prefix)) << server_->Stderr();
    address_ = line.substr(prefix.size());
  }
  void KillServer() {
    server_->Signal(SIGKILL);
    EXPECT_EQ(server_->Wait(), -SIGKILL);
  }
  std::shared_ptr<internal::DataTransport> Open(uint64_t window_bytes = uint64_t{32} << 20) {
    control_ = *ConnectGrpc(address_);
    const auto data = internal::DataTransport::Open(
        control_,
        {.transport = DataKind(), .control_address = address_, .window_bytes = window_bytes});
    EXPECT_TRUE(data.ok()) << data.status();
    return *data;
  }

  /// Repeats `call` until the server is reachable again, or for kProcessPatience. A client that
  /// found the server gone backs off for at most two seconds.
  template <typename Call>
  static auto Reaching(Call call) {
    const TimePoint deadline = SystemClock().Now() + kProcessPatience;
    auto result = call();
    while (IsUnavailable(result.status()) && SystemClock().Now() < deadline) result = call();
    return result;
  }

  testing::TempDir dir_;
  std::string address_ = OwnLoopback();
  std::unique_ptr<testing::ChildProcess> server_;
  std::shared_ptr<Transport> control_;
};

INSTANTIATE_TEST_SUITE_P(Transports, DataPlaneProcessTest,
                         ::testing::Values("grpc", "shm", "shm_lent", "ucx"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(DataPlaneProcessTest, AfterARestartTheConnectionIsMadeAgain) {
  const auto data = Open();
  EXPECT_EQ(data->capabilities().in_place, lent());
  CallMessage reply;
  ASSERT_EQ(data->Call(kStats, {}, &reply, {}), OkStatus());
  KillServer();
  EXPECT_EQ(data->Call(kStats, {}, &reply, {}).code(), StatusCode::kUnavailable);
  StartServer();
  Status status;
  do {  // It backs off for at most two seconds.
    status = data->Call(kStats, {}, &reply, {});
  } while (IsUnavailable(status));
  EXPECT_EQ(status, OkStatus());
  EXPECT_EQ(data->report().taken, DataKind());
}

TEST_P(DataPlaneProcessTest, WhoFindsNoServerFindsTheNextOne) {
  const auto data = Open();
  CallMessage reply;
  ASSERT_EQ(control_->Call(kStats, {}, &reply, {}), OkStatus());
  KillServer();
  EXPECT_EQ(control_->Call(kStats, {}, &reply, {}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(control_->Call(kStats, {}, &reply, {}).code(), StatusCode::kUnavailable);
  StartServer();
  const auto call = [&](Transport& over) -> StatusOr<CallMessage> {
    QUIRE_RETURN_IF_ERROR(over.Call(kStats, {}, &reply, {}));
    return reply;
  };
  EXPECT_EQ(Reaching([&] { return call(*control_); }).status(), OkStatus());
  EXPECT_EQ(Reaching([&] { return call(*data); }).status(), OkStatus());
}

TEST_P(DataPlaneProcessTest, CallsThatWaitWhenTheServerIsKilledEnd) {
  const auto data = Open();
  std::vector<std::unique_ptr<PendingCall>> calls;
  for (int i = 0; i < 16; ++i) {
    auto call = data->Start(kStats, {}, {});
    ASSERT_TRUE(call.ok()) << call.status();
    calls.push_back(*std::move(call));
  }
  KillServer();
  for (const auto& call : calls) {
    // Its answer may have arrived before the end.
    StatusOr<std::optional<CallMessage>> part = call->Next(TimePoint::max());
    while (part.ok() && part->has_value()) part = call->Next(TimePoint::max());
    EXPECT_TRUE(part.ok() || IsUnavailable(part.status())) << part.status();
  }
}

TEST_P(DataPlaneProcessTest, AServerKilledInTheMiddleOfARecallIsToldPromptly) {
  const auto data = Open(kProcessWindow);
  const auto client = *Client::Create(
      {.transport = control_, .data_transport = data, .retry = {.max_attempts = 1}});
  ASSERT_EQ(testing::PutFaultDocument(*client), OkStatus());
  auto session = testing::OpenFaultSession(*client);
  ASSERT_TRUE(session.ok()) << session.status();
  const auto recall = (*session)->Start(testing::WantAllOfIt());
  ASSERT_TRUE(recall.ok()) << recall.status();
  auto part = (*recall)->Next();
  ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
  KillServer();
  const TimePoint killed = SystemClock().Now();
  while (part.ok() && part->has_value()) part = (*recall)->Next();
  EXPECT_EQ(part.status().code(), StatusCode::kUnavailable) << part.status();
  EXPECT_LT(SystemClock().Now() - killed, kPromptly);
}

// The client reads everything, with the default window. No end waits for credit, and the server is
// sending or about to.
TEST_P(DataPlaneProcessTest, AServerKilledWhileBytesMoveIsToldPromptlyAndTheNextOneIsOfUse) {
  const auto data = Open();
  const Client::Options options = {
      .transport = control_, .data_transport = data, .retry = {.max_attempts = 1}};
  {
    const auto client = *Client::Create(options);
    ASSERT_EQ(testing::PutFaultDocument(*client), OkStatus());
    auto session = testing::OpenFaultSession(*client);
    ASSERT_TRUE(session.ok()) << session.status();
    RecallLoop loop(session->get());
    const bool second = loop.AwaitSecondRecall();
    KillServer();
    const TimePoint killed = SystemClock().Now();
    const Status why = loop.Join();
    EXPECT_LT(SystemClock().Now() - killed, kPromptly);
    EXPECT_TRUE(second) << why;
    EXPECT_EQ(why.code(), StatusCode::kUnavailable) << why;
    EXPECT_EQ(loop.Check(), OkStatus());  // Received data stays valid after the server's death.
  }
  StartServer();
  const auto client = *Client::Create(options);
  auto session = Reaching([&] { return testing::OpenFaultSession(*client); });
  ASSERT_TRUE(session.ok()) << session.status();
  const auto result = Reaching([&] { return (*session)->Recall(testing::WantAllOfIt()); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->placements.size(), testing::FaultUnits());
  EXPECT_EQ(testing::CheckFaultUnits(result->placements, result->payload), OkStatus());
  EXPECT_EQ(data->report().taken, DataKind());
}

}  // namespace
}  // namespace quire
