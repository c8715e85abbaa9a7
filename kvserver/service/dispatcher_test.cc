// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/dispatcher.h"

#include <set>

#include "common/base/random.h"
#include "kvserver/service/lane.h"
#include "kvserver/service/testing/service_fixture.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

class DispatcherTest : public ServiceFixture {};

TEST_F(DispatcherTest, AnswersEveryMethodOfTheWireServices) {
  std::set<std::string> defined;
  for (const google::protobuf::FileDescriptor* file :
       {v1::FetchRequest::descriptor()->file(), v1::RecallRequest::descriptor()->file(),
        v1::Document::descriptor()->file(), v1::StatsReply::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        defined.insert(service->full_name() + "/" + service->method(m)->name());
      }
    }
  }
  const auto methods = server_->handler()->Methods();
  EXPECT_EQ(std::set<std::string>(methods.begin(), methods.end()), defined);
  EXPECT_EQ(defined.size(), 25u);
}

TEST_F(DispatcherTest, EveryMethodThatIsSaidToReadExists) {
  const auto methods = server_->handler()->Methods();
  const std::set<std::string_view> known(methods.begin(), methods.end());
  for (const std::string_view method : kReadingMethods)
    EXPECT_TRUE(known.contains(method)) << method;
  EXPECT_EQ(LaneOf("quire.v1.Admin/Stats"), Lane::kControl);
  EXPECT_EQ(LaneOf("quire.v1.Store/Fetch"), Lane::kRead);
  EXPECT_EQ(LaneOf("quire.v1.Store/PutSegment"), Lane::kWrite);
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
  EXPECT_EQ(server_->handler()->Handle(late, "quire.v1.Admin/Stats", {}, &reply).code(),
            StatusCode::kDeadlineExceeded);
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

}  // namespace
}  // namespace quire::kvserver::testing
