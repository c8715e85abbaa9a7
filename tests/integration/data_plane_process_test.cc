// SPDX-License-Identifier: Apache-2.0
//
// Data connections of every kind to a server in another process that is killed, also in the middle
// of a transfer, and started again.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "client/connect.h"
#include "client/data_transport.h"
#include "common/transport/ucx.h"
#include "tests/integration/fault_document.h"
#include "tests/kit/child_process.h"
#include "tests/kit/guarded_memory.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

constexpr char kStats[] = "quire.v1.Admin/Stats";
/// A part of a reply is larger: without a reader the server stops in the middle.
constexpr uint64_t kSmallWindow = 64 << 10;
/// Every deadline here is later.
constexpr Duration kPromptly = std::chrono::seconds(10);

class DataPlaneProcessTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (DataKind() == "ucx" && !UcxAvailable()) GTEST_SKIP() << "built without UCX";
    StartServer();
  }
  bool direct() const { return GetParam() == std::string_view("ucx_direct"); }
  /// The arena itself is shared where there is one tenant; otherwise a copy of what was asked for.
  bool lent() const { return GetParam() == std::string_view("shm_lent"); }
  std::string DataKind() const { return direct() ? "ucx" : lent() ? "shm" : GetParam(); }

  void StartServer() {
    std::vector<std::string> args = {"--data-dir",   dir_ / "data", "--listen",     address_,
                                     "--dram-bytes", "16MiB",       "--transports", DataKind()};
    if (direct()) args.emplace_back("--ucx-direct-landings");
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
  std::shared_ptr<DataTransport> Open(uint64_t window_bytes = uint64_t{32} << 20) {
    control_ = *ConnectGrpc(address_);
    const auto data = DataTransport::Open(control_, {.transport = DataKind(),
                                                     .control_address = address_,
                                                     .window_bytes = window_bytes,
                                                     .direct_landings = direct()});
    EXPECT_TRUE(data.ok()) << data.status();
    return *data;
  }

  testing::TempDir dir_;
  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<testing::ChildProcess> server_;
  std::shared_ptr<Transport> control_;
};

INSTANTIATE_TEST_SUITE_P(Transports, DataPlaneProcessTest,
                         ::testing::Values("grpc", "shm", "shm_lent", "ucx", "ucx_direct"),
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
  do {  // It backs off for two seconds at most.
    status = data->Call(kStats, {}, &reply, {});
  } while (absl::IsUnavailable(status));
  EXPECT_EQ(status, OkStatus());
  EXPECT_EQ(data->report().taken, DataKind());
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
    // Its answer may have come before the end.
    StatusOr<std::optional<CallMessage>> part = call->Next(TimePoint::max());
    while (part.ok() && part->has_value()) part = call->Next(TimePoint::max());
    EXPECT_TRUE(part.ok() || absl::IsUnavailable(part.status())) << part.status();
  }
}

TEST_P(DataPlaneProcessTest, AServerKilledInTheMiddleOfARecallIsToldPromptly) {
  const auto data = Open(kSmallWindow);
  const auto client = *Client::Create(
      {.transport = control_, .data_transport = data, .retry = {.max_attempts = 1}});
  ASSERT_EQ(testing::PutFaultDocument(*client), OkStatus());
  auto session = testing::OpenFaultSession(*client);
  ASSERT_TRUE(session.ok()) << session.status();
  std::unique_ptr<SessionLanding> landing;
  if (direct()) landing = *(*session)->MakeLanding();
  const auto recall = (*session)->Start(testing::WantAllOfIt(), {.landing = landing.get()});
  ASSERT_TRUE(recall.ok()) << recall.status();
  auto part = (*recall)->Next();
  ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
  KillServer();
  const TimePoint killed = SystemClock().Now();
  while (part.ok() && part->has_value()) part = (*recall)->Next();
  EXPECT_EQ(part.status().code(), StatusCode::kUnavailable) << part.status();
  EXPECT_LT(SystemClock().Now() - killed, kPromptly);
  landing.reset();  // Nothing can arrive there any more, and it does not wait for the dead.
  EXPECT_LT(SystemClock().Now() - killed, kPromptly);
}

TEST_P(DataPlaneProcessTest, AServerKilledInTheMiddleOfARecallLeavesMemoryBehindAnAccessFree) {
  const auto data = Open(kSmallWindow);
  const auto client = *Client::Create(
      {.transport = control_, .data_transport = data, .retry = {.max_attempts = 1}});
  ASSERT_EQ(testing::PutFaultDocument(*client), OkStatus());
  auto session = testing::OpenFaultSession(*client);
  ASSERT_TRUE(session.ok()) << session.status();
  std::unique_ptr<SessionLanding> landing;
  const uint64_t bytes = (*(*session)->MakeLanding())->bytes().size();
  auto memory = std::make_unique<testing::GuardedMemory>(bytes);
  landing = *(*session)->MakeLanding(1, {memory->bytes(), memory.get()});
  const auto recall = (*session)->Start(testing::WantAllOfIt(), {.landing = landing.get()});
  ASSERT_TRUE(recall.ok()) << recall.status();
  auto part = (*recall)->Next();
  ASSERT_TRUE(part.ok() && part->has_value()) << part.status();
  EXPECT_GE(memory->copies_in(), (*part)->placements.size());
  KillServer();
  while (part.ok() && part->has_value()) part = (*recall)->Next();
  EXPECT_EQ(part.status().code(), StatusCode::kUnavailable) << part.status();
  landing.reset();
  memory.reset();  // Whatever came later would be a fault.
}

}  // namespace
}  // namespace quire
