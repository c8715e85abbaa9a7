// SPDX-License-Identifier: Apache-2.0
//
// Failures of a server's upkeep, once a second: operators see them until it works again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/observe/health.h"
#include "common/wire/convert.h"
#include "kvserver/service/server.h"
#include "kvserver/session/testing/test_pages.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "kvserver/store/testing/fault_file_system.h"
#include "quire/layout.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/look_again.h"
#include "tests/kit/temp_dir.h"
#include "transport/local/loopback_transport.h"

namespace quire::kvserver::testing {
namespace {

class UpkeepTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }
  /// Opens the server with empty DRAM.
  void Open() {
    transport_.reset();
    server_.reset();
    PageStore::Options store;
    store.ssd_path = dir_ / "data";
    store.dram_bytes = 8 << 20;
    store.ssd_volume_bytes = 1 << 20;
    store.cached_ttl = std::chrono::seconds(10);
    store.clock = &clock_;
    store.health = &board_;
    auto opened = PageStoreImpl::Open(store, {.env = env_.env.get(), .engine = &engine_});
    ASSERT_TRUE(opened.ok()) << opened.status();
    ServerOptions options;
    options.data_dir = store.ssd_path;
    options.clock = &clock_;
    options.health = &board_;
    auto server = Server::Over(*std::move(opened), options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    transport_ =
        std::make_unique<LoopbackTransport>(server_->handler(), LoopbackTransport::Options{});
  }
  template <typename Request>
  Status Call(const std::string& method, const Request& request, CallMessage* reply,
              std::vector<std::byte> payload = {}) {
    CallMessage message{request.SerializeAsString(), {}};
    if (!payload.empty()) message.payload.Append(std::move(payload));
    return transport_->Call("quire.v1." + method, message, reply,
                            {.tenant = "default", .timeout = std::chrono::minutes(5)});
  }
  /// Puts a segment and returns its key.
  std::string Put() {
    v1::PutSegmentRequest request;
    wire::KvSpecToProto(spec_, request.mutable_spec());
    for (const TokenId id : TestTokens(spec_.segment_tokens())) request.add_tokens(id);
    std::vector<std::byte> bytes(SegmentBytes(spec_, spec_.segment_pages));
    request.set_payload_crc32c(Crc32c(bytes));
    CallMessage answer;
    EXPECT_EQ(Call("Store/PutSegment", request, &answer, std::move(bytes)), OkStatus());
    v1::PutSegmentReply reply;
    EXPECT_TRUE(reply.ParseFromString(answer.control));
    return reply.key();
  }
  /// Waits for the server's own thread to raise or clear `trouble`.
  void Await(Trouble trouble, bool is_raised) {
    while (board_.IsRaised(trouble) != is_raised) quire::testing::WaitToLookAgain();
  }
  std::string DetailOf(Trouble trouble) const {
    for (const Health::Degradation& raised : board_.Degradations()) {
      if (raised.trouble == trouble) return raised.detail;
    }
    return "";
  }

  const KvSpec spec_ = TestSpec();
  quire::testing::TempDir dir_;
  quire::testing::FakeClock clock_;
  Health board_{&clock_};
  FaultEnv env_;
  const std::unique_ptr<IoEngine> device_ = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  FaultEngine engine_{device_.get()};
  std::unique_ptr<Server> server_;
  std::unique_ptr<LoopbackTransport> transport_;
};

TEST_F(UpkeepTest, WhatCannotBeDeletedDegradesUntilItCan) {
  Put();
  env_.faults.fault = Fault::kNoSpace;
  clock_.Advance(std::chrono::seconds(11));
  Await(Trouble::kCleanupFailed, true);
  EXPECT_THAT(DetailOf(Trouble::kCleanupFailed), ::testing::HasSubstr("No space left"));
  env_.faults.fault = Fault::kNone;
  clock_.Advance(std::chrono::minutes(2));
  Await(Trouble::kCleanupFailed, false);
  EXPECT_EQ(MetricValuesOf(*server_).at("segments"), 0u);
}

TEST_F(UpkeepTest, APinThatCannotBeRestoredDegradesUntilItIs) {
  v1::RegisterRequest named;
  named.mutable_name()->set_collection("c");
  named.mutable_name()->set_name("d");
  named.set_chain_tip(Put());
  CallMessage answer;
  ASSERT_EQ(Call("Registry/Register", named, &answer), OkStatus());
  v1::PinDocumentRequest pin;
  *pin.mutable_name() = named.name();
  ASSERT_EQ(Call("Registry/PinDocument", pin, &answer), OkStatus());
  engine_.Inject(IoRequest::Kind::kRead, IoFault::kNoSpace);
  Open();
  Await(Trouble::kPinsWaiting, true);
  EXPECT_THAT(DetailOf(Trouble::kPinsWaiting), ::testing::HasSubstr("pin of default/"));
  clock_.Advance(std::chrono::minutes(2));
  Await(Trouble::kPinsWaiting, false);
  EXPECT_EQ(MetricValuesOf(*server_).at("documents_pinned"), 1u);
}

}  // namespace
}  // namespace quire::kvserver::testing
