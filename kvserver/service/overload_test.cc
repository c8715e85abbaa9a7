// SPDX-License-Identifier: Apache-2.0
//
// A whole server on a hanging payload device. Calls that wait for it, reading or writing, take no
// place from calls served from DRAM. When the device is back every call is answered.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/retry_hint.h"
#include "common/wire/convert.h"
#include "kvserver/service/admission/call_limits.h"
#include "kvserver/service/server.h"
#include "kvserver/session/testing/test_pages.h"
#include "kvserver/store/page_store_impl.h"
#include "kvserver/store/payload/engine/engine_choice.h"
#include "kvserver/store/payload/testing/fault_engine.h"
#include "quire/layout.h"
#include "quire/v1/admin.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/kit/look_again.h"
#include "tests/kit/temp_dir.h"
#include "transport/local/loopback_transport.h"

namespace quire::kvserver::testing {
namespace {

using Kind = IoRequest::Kind;

TEST(CallLimitsTest, SomePlacesToReadAreLeftWhateverTheSsdDoes) {
  ServerOptions options;
  for (uint32_t calls = 16; calls <= 4096; ++calls) {
    options.max_concurrent_calls = calls;
    for (const size_t tenants : {1, 5}) {
      options.tenants.assign(tenants, "t");
      const IoGate::Options gate = SsdGateOf(options);
      const uint32_t reads = AdmissionOf(options, Door::kRead).max_running;
      const uint32_t writes = AdmissionOf(options, Door::kWrite).max_running;
      EXPECT_EQ(reads + writes, calls);
      EXPECT_GE(writes, 1u);
      EXPECT_GE(gate.max_inside_per_tenant, 1u);
      EXPECT_GE(gate.max_waiting_per_tenant, 1u);
      // One more call of its session may wait behind each call at the gate.
      EXPECT_GE(reads, 2 * (gate.max_inside + gate.max_waiting) + calls / 4) << calls;
    }
  }
}

class OverloadTest : public ::testing::Test {
 protected:
  OverloadTest() {
    options_.data_dir = dir_ / "data";
    options_.tenants = {"default", "other"};
    options_.max_concurrent_calls = 16;
    options_.max_queued_calls_per_tenant = 4;
  }
  void SetUp() override { Open(); }
  /// Opens the server with empty DRAM.
  void Open() {
    transport_.reset();
    server_.reset();
    PageStore::Options store;
    store.ssd_path = options_.data_dir;
    store.dram_bytes = 8 << 20;
    store.ssd_volume_bytes = 1 << 20;
    store.tenants = options_.tenants;
    store.promote_after_touches = 1000;
    store.ssd_gate = SsdGateOf(options_);
    auto opened = PageStoreImpl::Open(store, {.engine = &engine_});
    ASSERT_TRUE(opened.ok()) << opened.status();
    auto server = Server::Over(*std::move(opened), options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    transport_ =
        std::make_unique<LoopbackTransport>(server_->handler(), LoopbackTransport::Options{});
  }

  Status Call(const std::string& tenant, const std::string& method, const CallMessage& request,
              CallMessage* reply, Priority priority = Priority::kNormal) {
    return transport_->Call(
        "quire.v1." + method, request, reply,
        {.tenant = tenant, .timeout = std::chrono::minutes(5), .priority = priority});
  }
  /// Puts a segment made from `seed` alone and returns its key.
  Status Put(const std::string& tenant, TokenId seed, std::string* key) {
    v1::PutSegmentRequest request;
    wire::KvSpecToProto(spec_, request.mutable_spec());
    for (const TokenId id : TestTokens(spec_.segment_tokens(), seed)) request.add_tokens(id);
    std::vector<std::byte> bytes(SegmentBytes(spec_, spec_.segment_pages));
    request.set_payload_crc32c(Crc32c(bytes));
    CallMessage message{request.SerializeAsString(), {}}, answer;
    message.payload.Append(std::move(bytes));
    QUIRE_RETURN_IF_ERROR(Call(tenant, "Store/PutSegment", message, &answer));
    v1::PutSegmentReply reply;
    EXPECT_TRUE(reply.ParseFromString(answer.control));
    *key = reply.key();
    return OkStatus();
  }
  Status FetchOne(const std::string& tenant, const std::string& key,
                  Priority priority = Priority::kNormal) {
    v1::FetchRequest request;
    request.mutable_context()->set_chain_tip(key);
    request.add_ranges()->add_pages(0);
    CallMessage answer;
    return Call(tenant, "Store/Fetch", {request.SerializeAsString(), {}}, &answer, priority);
  }
  uint64_t Value(const std::string& name) { return MetricValuesOf(*server_).at(name); }

  quire::testing::TempDir dir_;
  const std::unique_ptr<IoEngine> device_ = ChooseEngine(EngineKind::kAuto, {}).value().engine;
  FaultEngine engine_{device_.get()};
  const KvSpec spec_ = TestSpec();
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<LoopbackTransport> transport_;
};

TEST_F(OverloadTest, ADeviceThatHangsKeepsNobodyFromDram) {
  std::map<std::string, std::string> cold, hot;
  for (const std::string& tenant : options_.tenants)
    ASSERT_EQ(Put(tenant, 1, &cold[tenant]), OkStatus());
  Open();
  for (const std::string& tenant : options_.tenants)
    ASSERT_EQ(Put(tenant, 2, &hot[tenant]), OkStatus());

  const uint64_t readers = SsdGateOf(options_).max_inside;
  const uint64_t writers = AdmissionOf(options_, Door::kWrite).max_running;
  for (uint64_t i = 0; i < readers; ++i) engine_.Inject(Kind::kRead, IoFault::kPause);
  for (uint64_t i = 0; i < writers; ++i) engine_.Inject(Kind::kWrite, IoFault::kPause);
  std::vector<std::thread> callers;
  std::atomic<int> finished{0}, refused{0};
  constexpr int kCallers = 48;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&, i, tenant = options_.tenants[i % 2]] {
      std::string key;
      Status status;
      do {
        status = i % 4 < 2 ? FetchOne(tenant, cold[tenant])
                           : Put(tenant, static_cast<TokenId>(1000 * (i + 1)), &key);
        if (RetryAfter(status)) ++refused;
        std::this_thread::yield();
      } while (RetryAfter(status));
      EXPECT_EQ(status, OkStatus());
      ++finished;
    });
  }
  engine_.AwaitPaused(readers + writers);
  while (refused < 2 * kCallers) quire::testing::WaitToLookAgain();

  for (const std::string& tenant : options_.tenants) {
    for (int i = 0; i < 50; ++i) {
      Status status;
      do {  // The others keep calling, and now and then a queue is full.
        status = FetchOne(tenant, hot[tenant]);
      } while (RetryAfter(status));
      EXPECT_EQ(status, OkStatus());
    }
  }
  CallMessage answer;
  EXPECT_EQ(Call("default", "Admin/Stats", {}, &answer), OkStatus());
  EXPECT_EQ(Value("ssd_gate_inside"), readers);
  EXPECT_LE(Value("ssd_gate_waiting"), SsdGateOf(options_).max_waiting);
  for (const std::string& tenant : options_.tenants) {
    EXPECT_LE(Value("admission_queued{door=\"write\",tenant=\"" + tenant + "\"}"),
              options_.max_queued_calls_per_tenant);
  }
  EXPECT_EQ(finished, 0);
  engine_.Resume();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(finished, kCallers);
  EXPECT_EQ(Value("ssd_gate_inside"), 0u);
  EXPECT_EQ(Value("admission_running{door=\"write\"}"), 0u);
}

TEST_F(OverloadTest, ACorrectionComesToTheSsdBeforeAPrefetch) {
  std::string cold;
  ASSERT_EQ(Put("default", 1, &cold), OkStatus());
  Open();
  const IoGate::Options gate = SsdGateOf(options_);
  ASSERT_EQ(gate.max_waiting_per_tenant, 1u);
  for (uint64_t i = 0; i < gate.max_inside_per_tenant; ++i) {
    engine_.Inject(Kind::kRead, IoFault::kPause);
  }
  std::vector<std::thread> callers;
  for (uint64_t i = 0; i < gate.max_inside_per_tenant; ++i) {
    callers.emplace_back([&] { EXPECT_EQ(FetchOne("default", cold), OkStatus()); });
  }
  engine_.AwaitPaused(gate.max_inside_per_tenant);
  std::thread prefetch([&] {
    const Status refused = FetchOne("default", cold, Priority::kPrefetch);
    EXPECT_TRUE(RetryAfter(refused)) << refused;
  });
  while (Value("ssd_gate_waiting") != 1) quire::testing::WaitToLookAgain();
  callers.emplace_back(
      [&] { EXPECT_EQ(FetchOne("default", cold, Priority::kCorrection), OkStatus()); });
  prefetch.join();  // The device still hangs: only the correction can have ended it.
  engine_.Resume();
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace quire::kvserver::testing
