// SPDX-License-Identifier: Apache-2.0
//
// Data connections to a server in another process that is killed and started again.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "client/connect.h"
#include "client/data_transport.h"
#include "tests/kit/child_process.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

constexpr char kStats[] = "quire.v1.Admin/Stats";

class DataPlaneProcessTest : public ::testing::Test {
 protected:
  void StartServer() {
    server_ = std::make_unique<testing::ChildProcess>(
        std::string(QUIRE_BINARY_DIR) + "/bin/quired",
        std::vector<std::string>{"--data-dir", dir_ / "data", "--listen", address_, "--dram-bytes",
                                 "8MiB"},
        dir_ / "stderr");
    const std::string prefix = "quired listening on ";
    std::string line;
    ASSERT_TRUE(server_->ReadLine(&line) && line.starts_with(prefix)) << server_->Stderr();
    address_ = line.substr(prefix.size());
  }
  void KillServer() {
    server_->Signal(SIGKILL);
    EXPECT_EQ(server_->Wait(), -SIGKILL);
  }
  std::shared_ptr<DataTransport> Open() {
    const auto control = ConnectGrpc(address_);
    EXPECT_TRUE(control.ok()) << control.status();
    const auto data =
        DataTransport::Open(*control, {.transport = "grpc", .control_address = address_});
    EXPECT_TRUE(data.ok()) << data.status();
    return *data;
  }

  testing::TempDir dir_;
  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<testing::ChildProcess> server_;
};

TEST_F(DataPlaneProcessTest, AfterARestartTheConnectionIsMadeAgain) {
  StartServer();
  const auto data = Open();
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
  EXPECT_EQ(data->report().taken, "grpc");
}

TEST_F(DataPlaneProcessTest, ACallThatWaitsWhenTheServerIsKilledEnds) {
  StartServer();
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

}  // namespace
}  // namespace quire
