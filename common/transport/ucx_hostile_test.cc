// SPDX-License-Identifier: Apache-2.0
//
// A client that knows the protocol and breaks it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/transport/testing/hostile_ucx_client.h"
#include "common/transport/ucx_remote_key.h"
#include "common/transport/ucx_test_peer.h"

namespace quire {
namespace {

using testing::Collector;
using ::testing::HasSubstr;
using testing::Listening;

class HostileClient final : public testing::HostileUcxClient {
 public:
  explicit HostileClient(Listening& listening)
      : HostileUcxClient(listening.listener->address(), listening.options),
        server(listening.Take()) {
    server->Start(&at_server);
  }

  Collector at_server;
  std::unique_ptr<FramePipe> server;
};

/// Connects, and never says hello.
class SilentClient {
 public:
  explicit SilentClient(const std::string& address) {
    const SocketAddress resolved = SocketAddress::Resolve(address).value();
    worker_ = MakeUcxWorker(resolved, {}).value();
    worker_->Run([&] {
      endpoint_ = UcxEndpoint::Connect(worker_, resolved, {}, [this](const Status& why) {
                    MutexLock lock(mutex_);
                    dropped_ = why;
                    changed_.NotifyAll();
                  }).value();
    });
  }
  ~SilentClient() {
    worker_->Run([&] { endpoint_.reset(); });
  }
  Status WaitDropped() {
    MutexLock lock(mutex_);
    while (!dropped_) changed_.Wait(mutex_);
    return *dropped_;
  }

 private:
  std::shared_ptr<UcxWorker> worker_;
  std::unique_ptr<UcxEndpoint> endpoint_;
  Mutex mutex_;
  CondVar changed_;
  std::optional<Status> dropped_ QUIRE_GUARDED_BY(mutex_);
};

std::vector<std::byte> Zeros(size_t bytes) { return std::vector<std::byte>(bytes); }

TEST(UcxHostileTest, WhatNoClientSendsEndsItsConnectionAndNoOther) {
  UcxOptions options;
  options.max_frame_bytes = 100'000;
  Listening listening(options);
  testing::Connected honest(listening);
  const std::vector<std::pair<const char*, UcxHeader>> messages = {
      {"a frame far ahead", {.sequence = 5000}},
      {"a frame with places in a landing", {.landing = 1}},
      {"a welcome", {.kind = UcxKind::kWelcome}},
      {"more taken than sent", {.kind = UcxKind::kTaken, .argument = UINT64_MAX}},
      {"the end of its frames", {.kind = UcxKind::kEnd}},
      {"the end of a landing of its own", {.kind = UcxKind::kLandingClosed}},
      {"payload that it lends", {.kind = UcxKind::kLentFrame, .index_bytes = 64, .landing = 1}},
      {"what it was not lent", {.kind = UcxKind::kFetched, .sequence = 7}},
      {"an index that leads outside", {.index_bytes = 32}},
      {"an index that is none", {.index_bytes = 31}},
  };
  for (const auto& [what, header] : messages) {
    SCOPED_TRACE(what);
    HostileClient hostile(listening);
    hostile.Send(header, Zeros(64));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("a frame over the limit");
    HostileClient hostile(listening);
    hostile.Send({}, Zeros(100'001));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  {
    SCOPED_TRACE("a frame twice");
    HostileClient hostile(listening);
    hostile.Send({.sequence = 3}, Zeros(1));
    hostile.Send({.sequence = 3}, Zeros(1));
    EXPECT_EQ(hostile.at_server.WaitClosed().code(), StatusCode::kInvalidArgument);
  }
  ASSERT_TRUE(honest.client->Send({.head = "still here", .payload = {}}).ok());
  EXPECT_EQ(honest.at_server.Next().head, "still here");
}

constexpr uint64_t kLandingBytes = 1 << 20;

/// A server that writes into shared memory, by each of the domains that there are for it, and a
/// client with the key of such memory.
class UcxHostileKeyTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string domain = GetParam();
    UcxOptions options = testing::DirectOptions();
    options.transports = domain + ",cma,tcp,self";
    const std::string why_not =
        testing::WhyNoLane({.name = domain, .options = options, .carriers = {domain + "/"}});
    if (!why_not.empty()) GTEST_SKIP() << why_not;
    listening_.emplace(options);
    client_.emplace(*listening_);
    key_ = client_->MakeKey(kLandingBytes);
  }

  /// What the server says to the key. No two have the same serial.
  Status Open(UcxLandingKey key, uint64_t bytes = kLandingBytes) {
    key.serial = key.landing = ++opened_;
    const Status status = client_->server->OpenLanding(opened_, client_->Sign(key), bytes);
    client_->server->CloseLanding(opened_);
    return status;
  }
  Status Open(const UcxRemoteKey& remote) {
    UcxLandingKey key = key_;
    key.remote_key = EncodeUcxRemoteKey(remote);
    key.remote_key.resize(key.remote_key.size() - kUcxKeyPadding);
    return Open(key);
  }
  /// The remote key, and its part that names the segment.
  UcxRemoteKey Remote() const { return DecodeUcxRemoteKey(key_.remote_key).value(); }
  static UcxKeyPart& SegmentPart(UcxRemoteKey& remote) {
    return *std::ranges::max_element(remote.parts, {},
                                     [](const UcxKeyPart& part) { return part.bytes.size(); });
  }

  std::optional<Listening> listening_;
  std::optional<HostileClient> client_;
  UcxLandingKey key_;
  uint64_t opened_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Domains, UcxHostileKeyTest, ::testing::Values("posix", "sysv"),
                         [](const auto& domain) { return std::string(domain.param); });

TEST_P(UcxHostileKeyTest, AKeyOfMoreMemoryThanThereIsOpensNothing) {
  EXPECT_EQ(Open(key_), OkStatus());
  UcxLandingKey longer = key_;
  longer.bytes = uint64_t{1} << 40;
  const Status refused = Open(longer);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("its memory has"));
  UcxLandingKey before = key_;
  before.address -= 4096;
  EXPECT_THAT(std::string(Open(before).message()), HasSubstr("its memory has"));
  UcxLandingKey behind = key_;
  behind.address += 4096;
  EXPECT_THAT(std::string(Open(behind).message()), HasSubstr("its memory has"));
  UcxLandingKey nothing = key_;
  nothing.bytes = 0;
  EXPECT_THAT(std::string(Open(nothing, 0).message()), HasSubstr("names no memory"));
  EXPECT_EQ(Open(key_), OkStatus());
}

TEST_P(UcxHostileKeyTest, AKeyOfASegmentThatIsNotThereEndsNobody) {
  UcxRemoteKey remote = Remote();
  // The id's third byte: of a System V segment's number, or of a process's.
  SegmentPart(remote).bytes[2] = static_cast<char>(~SegmentPart(remote).bytes[2]);
  for (int i = 0; i < 3; ++i) {  // UCX has nothing left over from before, and then it has.
    const Status refused = Open(remote);
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
    EXPECT_EQ(Open(key_), OkStatus());
  }
}

TEST_P(UcxHostileKeyTest, AKeyThatIsNoneOfUcxsIsRefusedBeforeUcxReadsIt) {
  UcxLandingKey shorter = key_;
  shorter.remote_key.pop_back();
  EXPECT_THAT(std::string(Open(shorter).message()), HasSubstr("ends before its part"));
  UcxLandingKey longer = key_;
  longer.remote_key += '\0';
  EXPECT_THAT(std::string(Open(longer).message()), HasSubstr("behind the parts"));
  UcxRemoteKey foreign = Remote();
  foreign.memory_type = UCS_MEMORY_TYPE_LAST;
  EXPECT_THAT(std::string(Open(foreign).message()), HasSubstr("memory of UCX's type"));
  UcxRemoteKey stunted = Remote();
  SegmentPart(stunted).bytes.resize(8);
  EXPECT_THAT(std::string(Open(stunted).message()), HasSubstr("in 8 bytes"));
  EXPECT_EQ(Open(key_), OkStatus());
}

TEST_P(UcxHostileKeyTest, PartsOfDomainsThatNoLaneLeadsToAreNotRead) {
  UcxRemoteKey remote = Remote();
  remote.parts.push_back({63, std::string(255, '\xff')});
  EXPECT_EQ(Open(remote), OkStatus());
}

TEST_P(UcxHostileKeyTest, WhatUcxAloneIsToWriteIsCheckedAsWell) {
  UcxLandingKey device = key_;
  device.is_host = false;
  EXPECT_EQ(Open(device), OkStatus());
  device.bytes = uint64_t{1} << 40;
  EXPECT_THAT(std::string(Open(device).message()), HasSubstr("its memory has"));
  UcxRemoteKey gone = Remote();
  SegmentPart(gone).bytes[2] = static_cast<char>(~SegmentPart(gone).bytes[2]);
  device = key_;
  device.is_host = false;
  device.remote_key = EncodeUcxRemoteKey(gone);
  device.remote_key.resize(device.remote_key.size() - kUcxKeyPadding);
  EXPECT_EQ(Open(device).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Open(key_), OkStatus());
}

TEST(UcxHostileTest, MessagesForNobodyAreDropped) {
  Listening listening(UcxOptions{});
  HostileClient hostile(listening);
  hostile.SendRaw(Zeros(UcxHeader::kEncodedBytes), Zeros(10));
  hostile.SendRaw(Zeros(3), {});
  hostile.SendRaw({}, Zeros(2'000'000));
  const auto to_nobody = EncodeUcxHeader({.payload_bytes = 8});
  hostile.SendRaw({to_nobody.begin(), to_nobody.end()}, Zeros(8));
  hostile.SendRaw({to_nobody.begin(), to_nobody.end()}, Zeros(8), /*is_hello=*/true);
  hostile.Send({}, Zeros(77));
  EXPECT_EQ(hostile.at_server.Next().payload.size_bytes(), 77);
}

TEST(UcxHostileTest, WhoNeverSaysHelloIsDroppedAndLeavesNothing) {
  UcxOptions options;
  options.connect_timeout = std::chrono::seconds(1);
  options.max_handshakes = 1;
  const SocketAddress address = SocketAddress::Resolve("127.0.0.1:0").value();
  std::shared_ptr<UcxWorker> worker = MakeUcxWorker(address, options).value();
  const std::weak_ptr<UcxWorker> held = worker;
  Mutex mutex;
  CondVar came;
  std::unique_ptr<FramePipe> accepted;
  auto listener = UcxListener::Listen(std::move(worker), address, options,
                                      [&](std::unique_ptr<FramePipe> pipe) {
                                        MutexLock lock(mutex);
                                        EXPECT_EQ(accepted, nullptr);
                                        accepted = std::move(pipe);
                                        came.NotifyAll();
                                      });
  ASSERT_TRUE(listener.ok()) << listener.status();
  {
    SilentClient silent((*listener)->address());
    EXPECT_EQ(silent.WaitDropped().code(), StatusCode::kUnavailable);
    // The one place for handshakes is free again.
    const auto client = ConnectUcx((*listener)->address(), {});
    ASSERT_TRUE(client.ok()) << client.status();
    MutexLock lock(mutex);
    while (accepted == nullptr) came.Wait(mutex);
  }
  // Every connection holds the worker until UCX has closed it.
  accepted.reset();
  listener->reset();
  const TimePoint deadline = SystemClock().Now() + std::chrono::seconds(60);
  while (!held.expired() && SystemClock().Now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(held.expired()) << "a connection is left";
}

TEST(UcxHostileTest, FramesThatComeEarlyWaitForTheirTurn) {
  Listening listening(UcxOptions{});
  HostileClient client(listening);
  for (const uint64_t sequence : {2, 1, 0})
    client.Send({.sequence = sequence}, Zeros(sequence + 1));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(client.at_server.Next().payload.size_bytes(), i + 1);
}

}  // namespace
}  // namespace quire
