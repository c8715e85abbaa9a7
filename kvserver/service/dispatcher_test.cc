// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/dispatcher.h"

#include <algorithm>
#include <set>

#include "common/base/random.h"
#include "kvserver/service/admission/door.h"
#include "kvserver/service/testing/service_fixture.h"
#include "kvserver/session/testing/fake_page_store.h"
#include "quire/v1/cluster.pb.h"
#include "quire/v1/conversation.pb.h"
#include "quire/v1/data_plane.pb.h"
#include "quire/v1/events.pb.h"
#include "quire/v1/object.pb.h"
#include "quire/v1/replica.pb.h"
#include "tests/kit/fake_lease.h"
#include "transport/frames/part_collector.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class DispatcherTest : public ServiceFixture {};

TEST_F(DispatcherTest, AnswersEveryMethodOfTheWireServices) {
  std::set<std::string> defined;
  for (const google::protobuf::FileDescriptor* file :
       {v1::FetchRequest::descriptor()->file(), v1::RecallRequest::descriptor()->file(),
        v1::Document::descriptor()->file(), v1::StatsReply::descriptor()->file(),
        v1::OfferReply::descriptor()->file(), v1::RenewReply::descriptor()->file(),
        v1::ClusterViewReply::descriptor()->file(), v1::GetObjectsReply::descriptor()->file(),
        v1::PrefetchReply::descriptor()->file(), v1::FollowReply::descriptor()->file(),
        v1::ReplicaProgressReply::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        if (service->method(m)->client_streaming())
          continue;  // Served by the gRPC server itself: pipes.
        defined.insert(service->full_name() + "/" + service->method(m)->name());
      }
    }
  }
  const auto methods = server_->handler()->Methods();
  EXPECT_EQ(std::set<std::string>(methods.begin(), methods.end()), defined);
  EXPECT_EQ(defined.size(), 64u);
}

TEST_F(DispatcherTest, EveryMethodThatIsSaidToReadExists) {
  const auto methods = server_->handler()->Methods();
  const std::set<std::string_view> known(methods.begin(), methods.end());
  for (const std::string_view method : kReadingMethods)
    EXPECT_TRUE(known.contains(method)) << method;
  EXPECT_EQ(DoorOf("quire.v1.Admin/Stats"), Door::kControl);
  EXPECT_EQ(DoorOf("quire.v1.DataPlane/RemoveLanding"), Door::kControl);
  EXPECT_EQ(DoorOf("quire.v1.Leases/Renew"), Door::kControl);
  EXPECT_EQ(DoorOf("quire.v1.Registry/Watch"), Door::kControl);
  EXPECT_EQ(DoorOf("quire.v1.Store/Fetch"), Door::kRead);
  EXPECT_EQ(DoorOf("quire.v1.Store/PutSegment"), Door::kWrite);
}

TEST_F(DispatcherTest, CallsAreCountedByMethodAndErrorsByCode) {
  CallMessage reply;
  EXPECT_FALSE(CallRaw("Store/Fetch", {"\x0a\xff", {}}, &reply).ok());
  EXPECT_TRUE(CallRaw("Admin/Stats", {}, &reply).ok());
  const auto values = MetricValuesOf(*server_);
  EXPECT_EQ(values.at("call_errors{method=\"quire.v1.Store/Fetch\",code=\"INVALID_ARGUMENT\"}"),
            1u);
  EXPECT_EQ(values.at("call_request_bytes{method=\"quire.v1.Store/Fetch\"}"), 2u);
  EXPECT_EQ(values.at("call_reply_bytes{method=\"quire.v1.Store/Fetch\"}"), 0u);
  EXPECT_GT(values.at("call_reply_bytes{method=\"quire.v1.Admin/Stats\"}"), 0u);
}

TEST_F(DispatcherTest, UnknownMethodsTenantsAndLateCallsAreRefused) {
  CallMessage reply;
  EXPECT_EQ(CallRaw("Store/Nope", {}, &reply).code(), StatusCode::kUnimplemented);
  tenant_ = "nobody";
  const Status unknown = CallRaw("Admin/Stats", {}, &reply);
  EXPECT_EQ(unknown.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(Message(unknown)), HasSubstr("nobody"));
  tenant_ = "a/b";
  EXPECT_EQ(CallRaw("Admin/Stats", {}, &reply).code(), StatusCode::kInvalidArgument);
  const CallContext late{"default", SystemClock().Now()};
  PartCollector parts(1, 1 << 20);
  EXPECT_EQ(server_->handler()->Handle(late, "quire.v1.Admin/Stats", {}, parts).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(parts.parts().empty());
}

TEST_F(DispatcherTest, GarbageAndEmptyRequestsNeverCrashAnyMethod) {
  SeededRandom random(31);
  for (const std::string& method : server_->handler()->Methods()) {
    const std::string name = method.substr(std::string("quire.v1.").size());
    CallMessage reply;
    (void)CallRaw(name, {}, &reply);  // An empty request is valid for some methods.
    for (int round = 0; round < 300; ++round) {
      CallMessage request;
      for (uint64_t n = random.Below(60); n > 0; --n) {
        request.control.push_back(static_cast<char>(random.Next()));
      }
      request.payload.Append(std::vector<std::byte>(random.Below(100)));
      const Status status = CallRaw(name, request, &reply);
      EXPECT_NE(status.code(), StatusCode::kInternal) << method << ": " << status;
    }
    EXPECT_EQ(CallRaw(name, {"\x0a\xff", {}}, &reply).code(), StatusCode::kInvalidArgument)
        << method;
  }
}

TEST_F(DispatcherTest, StatsAreSortedAndCountCalls) {
  clock_.Advance(std::chrono::seconds(75));
  ASSERT_TRUE(Call<v1::StatsReply>("Admin/Stats", v1::StatsRequest()).ok());
  const auto stats = Call<v1::StatsReply>("Admin/Stats", v1::StatsRequest());
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->uptime_seconds(), 75);
  EXPECT_FALSE(stats->version().empty());
  uint64_t calls = 0;
  for (int i = 0; i < stats->counters_size(); ++i) {
    if (i > 0) {
      EXPECT_LT(stats->counters(i - 1).name(), stats->counters(i).name());
    }
    if (stats->counters(i).name() == "calls") calls = stats->counters(i).value();
  }
  EXPECT_EQ(calls, 2u);
  EXPECT_GT(stats->counters_size(), 10);
}

TEST_F(DispatcherTest, ATenantLearnsOfItsSlowCalls) {
  v1::StatRequest nowhere;
  nowhere.mutable_context()->set_chain_tip(std::string(32, 'x'));
  ASSERT_TRUE(IsNotFound(Call<v1::StatReply>("Store/Stat", nowhere).status()));
  v1::SlowCallsRequest request;
  const auto reply = Call<v1::SlowCallsReply>("Admin/SlowCalls", request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->calls_size(), 1) << "calls about the server are none";
  EXPECT_EQ(reply->calls(0).method(), "quire.v1.Store/Stat");
  EXPECT_EQ(reply->calls(0).code(), static_cast<uint32_t>(StatusCode::kNotFound));
  EXPECT_GT(reply->calls(0).request_bytes(), 32u);
  EXPECT_GE(reply->calls(0).waits().queue_nanos(), 0);
  request.set_limit(1001);
  EXPECT_TRUE(IsInvalidArgument(Call<v1::SlowCallsReply>("Admin/SlowCalls", request).status()));
  tenant_ = "team-b";
  EXPECT_EQ(Call<v1::SlowCallsReply>("Admin/SlowCalls", v1::SlowCallsRequest())->calls_size(), 0);
}

TEST_F(DispatcherTest, ASlowCallSaysWhatItWaitedFor) {
  clock_.Advance(std::chrono::seconds(50));
  const uint64_t context = OpenContext();
  clock_.Advance(std::chrono::seconds(10));  // The first call of a minute is kept.
  ASSERT_TRUE(Append(context, 0, spec_.segment_pages).ok());
  const auto reply = Call<v1::SlowCallsReply>("Admin/SlowCalls", v1::SlowCallsRequest());
  ASSERT_EQ(reply->calls_size(), 2);
  const auto append = std::ranges::find(reply->calls(), "quire.v1.Store/AppendPages",
                                        [](const v1::SlowCall& call) { return call.method(); });
  ASSERT_NE(append, reply->calls().end());
  EXPECT_GT(append->waits().ssd_nanos(), 0) << "a segment was put";
  EXPECT_EQ(append->waits().selection_nanos(), 0);
}

/// A dispatcher with one method that answers in parts and one that answers whole.
class StreamingMethodTest : public ::testing::Test {
 protected:
  static constexpr char kMethod[] = "quire.v1.Test/Do";
  static constexpr char kRunning[] = "admission_running{door=\"write\"}";

  static v1::DocumentName Named(const std::string& name) {
    v1::DocumentName message;
    message.set_name(name);
    return message;
  }
  static Payload Bytes(size_t count) {
    Payload payload;
    payload.Append(std::vector<std::byte>(count));
    return payload;
  }
  Status Run(const CallMessage& request, ReplyWriter& reply) {
    const CallContext context{.tenant = "default",
                              .deadline = TimePoint::max(),
                              .priority = Priority::kCorrection,
                              .max_parts = 8,
                              .part_bytes = 1000};
    return dispatcher_.Handle(context, kMethod, request, reply);
  }
  uint64_t ReplyBytes() {
    return MetricValuesOf(dispatcher_)
        .at(std::string("call_reply_bytes{method=\"") + kMethod + "\"}");
  }

  quire::testing::FakeClock clock_;
  FakePageStore store_;
  Admission door_{{.door = "write"}};
  Dispatcher dispatcher_{{.store = &store_, .reads = &door_, .writes = &door_, .clock = &clock_}};
};

TEST_F(StreamingMethodTest, PartsArriveInOrderWithTheirPlacesAndAllAreCounted) {
  dispatcher_.AddStreaming<v1::DocumentName>(
      kMethod, [](const Call& call, const v1::DocumentName& request, ReplyWriter& parts) {
        EXPECT_EQ(call.context.priority, Priority::kCorrection);
        EXPECT_EQ(call.context.max_parts, 8u);
        EXPECT_EQ(call.context.part_bytes, 1000u);
        EXPECT_EQ(call.payload.size_bytes(), 5u);
        QUIRE_RETURN_IF_ERROR(WritePart(parts, Named(request.name() + "1"), Bytes(100), {7}));
        return WritePart(parts, Named(request.name() + "2"));
      });
  PartCollector reply(8, 1000);
  ASSERT_TRUE(Run({Named("p").SerializeAsString(), Bytes(5)}, reply).ok());
  ASSERT_EQ(reply.parts().size(), 2u);
  EXPECT_EQ(reply.parts()[0].control, Named("p1").SerializeAsString());
  EXPECT_EQ(reply.parts()[0].places, std::vector<uint64_t>{7});
  EXPECT_EQ(reply.parts()[1].control, Named("p2").SerializeAsString());
  EXPECT_EQ(ReplyBytes(), 100 + 2 * Named("p1").ByteSizeLong());
}

// A caller could change what it lends between a check and a use.
TEST_F(StreamingMethodTest, LentPayloadIsCopiedUnlessTheMethodReadsItOnce) {
  CallMessage request{{}, Bytes(64)};
  const std::byte* const lent = request.payload.slices()[0].bytes.data();
  for (const bool is_lent : {false, true}) {
    if (is_lent) request.payload.AddLease(std::make_shared<quire::testing::FakeLease>());
    for (const PayloadUse use : {PayloadUse::kMany, PayloadUse::kOnce}) {
      dispatcher_.Add<v1::DocumentName, v1::DocumentName>(
          kMethod,
          [&](const Call& call, const v1::DocumentName&, v1::DocumentName*) {
            const bool copied = call.payload.slices()[0].bytes.data() != lent;
            EXPECT_EQ(copied, is_lent && use == PayloadUse::kMany);
            EXPECT_EQ(call.payload.size_bytes(), 64u);
            return OkStatus();
          },
          use);
      PartCollector reply(8, 1000);
      EXPECT_TRUE(Run(request, reply).ok());
    }
  }
}

TEST_F(StreamingMethodTest, AFailedPartEndsTheCallAndCountsAsAnError) {
  dispatcher_.AddStreaming<v1::DocumentName>(
      kMethod, [](const Call&, const v1::DocumentName&, ReplyWriter& parts) {
        QUIRE_RETURN_IF_ERROR(WritePart(parts, v1::DocumentName(), Bytes(100)));
        return WritePart(parts, v1::DocumentName(), Bytes(100));
      });
  PartCollector reply(1, 1000);
  EXPECT_EQ(Run({}, reply).code(), StatusCode::kInternal);
  EXPECT_EQ(ReplyBytes(), 100u);
  EXPECT_EQ(Run({"\x0a\xff", {}}, reply).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MetricValuesOf(dispatcher_).at("calls_failed"), 2u);
}

TEST_F(StreamingMethodTest, RepliesAndTheirPartsAreSentOutsideTheLane) {
  class LaneWitness final : public ReplyWriter {
   public:
    explicit LaneWitness(const Admission& door) : door_(door) {}
    Status Write(CallMessage) override {
      running.push_back(MetricValuesOf(door_).at(kRunning));
      return OkStatus();
    }
    std::vector<uint64_t> running;

   private:
    const Admission& door_;
  } reply(door_);
  dispatcher_.AddStreaming<v1::DocumentName>(
      kMethod, [](const Call&, const v1::DocumentName&, ReplyWriter& parts) {
        return WritePart(parts, v1::DocumentName());
      });
  ASSERT_TRUE(Run({}, reply).ok());
  dispatcher_.Add<v1::DocumentName, v1::DocumentName>(
      kMethod, [](const Call&, const v1::DocumentName&, v1::DocumentName*) { return OkStatus(); });
  ASSERT_TRUE(Run({}, reply).ok());
  EXPECT_EQ(reply.running, (std::vector<uint64_t>{0, 0}));
}

}  // namespace
}  // namespace quire::kvserver::testing
