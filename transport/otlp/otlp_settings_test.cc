// SPDX-License-Identifier: Apache-2.0
#include "transport/otlp/otlp_settings.h"

#include <gmock/gmock.h>

#include <map>

namespace quire {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

using Environment = std::map<std::string, std::string>;
constexpr char kEndpoint[] = "OTEL_EXPORTER_OTLP_ENDPOINT";

StatusOr<std::optional<OtlpSettings>> Read(const Environment& environment) {
  return ReadOtlpSettings(
      [&](const char* name) -> const char* {
        const auto it = environment.find(name);
        return it == environment.end() ? nullptr : it->second.c_str();
      },
      "quired");
}
/// Reads variables beside an endpoint.
StatusOr<std::optional<OtlpSettings>> With(Environment environment) {
  environment.emplace(kEndpoint, "http://127.0.0.1:4317");
  return Read(environment);
}

TEST(OtlpSettingsTest, TracingIsOffUnlessACollectorIsNamed) {
  for (const Environment& off :
       {Environment{}, Environment{{kEndpoint, ""}},
        Environment{{"OTEL_TRACES_SAMPLER", "always_on"}},
        Environment{{kEndpoint, "http://h:1"}, {"OTEL_SDK_DISABLED", "true"}},
        Environment{{kEndpoint, "http://h:1"}, {"OTEL_TRACES_EXPORTER", "none"}}}) {
    const auto settings = Read(off);
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_FALSE(settings->has_value());
  }
}

TEST(OtlpSettingsTest, TheEndpointOfTracesGoesFirst) {
  EXPECT_EQ((*With({}))->address, "127.0.0.1:4317");
  EXPECT_EQ((*With({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[::1]:4318/"}}))->address,
            "[::1]:4318");
  EXPECT_EQ((*Read({{kEndpoint, "collector:4317"}}))->address, "collector:4317");
}

TEST(OtlpSettingsTest, SamplersAreThoseOfTheStandard) {
  EXPECT_TRUE((*With({}))->sampler.parent_based);
  EXPECT_EQ((*With({}))->sampler.ratio, 1);
  const auto one = *With(
      {{"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "0.01"}});
  EXPECT_TRUE(one->sampler.parent_based);
  EXPECT_EQ(one->sampler.ratio, 0.01);
  const auto off = *With({{"OTEL_TRACES_SAMPLER", "always_off"}});
  EXPECT_FALSE(off->sampler.parent_based);
  EXPECT_EQ(off->sampler.ratio, 0);
}

TEST(OtlpSettingsTest, TheResourceNamesTheService) {
  EXPECT_THAT((*With({}))->resource, Contains(Pair("service.name", "quired")));
  const auto settings = *With({{"OTEL_SERVICE_NAME", "mine"},
                               {"OTEL_RESOURCE_ATTRIBUTES", "service.name=other, room=a%2Cb"}});
  EXPECT_THAT(settings->resource, AllOf(Contains(Pair("service.name", "mine")).Times(1),
                                        Contains(Pair("room", "a,b"))));
}

TEST(OtlpSettingsTest, HeadersAndLimitsAreTaken) {
  const auto settings = *With({{"OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=s%3D1"},
                               {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                               {"OTEL_BSP_SCHEDULE_DELAY", "100"},
                               {"OTEL_BSP_MAX_QUEUE_SIZE", "64"}});
  EXPECT_THAT(settings->headers, ElementsAre(Pair("api-key", "s=1")));
  EXPECT_EQ(settings->timeout, std::chrono::milliseconds(250));
  EXPECT_EQ(settings->delay, std::chrono::milliseconds(100));
  EXPECT_EQ(settings->queue_spans, 64u);
  EXPECT_EQ(settings->batch_spans, 64u) << "no batch is larger than the queue";
}

TEST(OtlpSettingsTest, WhatIsNotUnderstoodIsRefusedByName) {
  for (const auto& [name, value] : Environment{
           {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
           {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://h:4317"},
           {"OTEL_TRACES_SAMPLER", "sometimes"},
           {"OTEL_RESOURCE_ATTRIBUTES", "room"},
           {"OTEL_EXPORTER_OTLP_HEADERS", "a b=c"},
           {"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"},
           {"OTEL_BSP_MAX_QUEUE_SIZE", "0"},
       }) {
    const auto settings = With({{name, value}});
    ASSERT_FALSE(settings.ok()) << name;
    EXPECT_THAT(std::string(Message(settings.status())), HasSubstr(name));
  }
  EXPECT_THAT(std::string(Message(Read({{kEndpoint, "nowhere"}}).status())),
              HasSubstr("http://127.0.0.1:4317"));
  EXPECT_FALSE(
      With({{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "1.5"}}).ok());
}

}  // namespace
}  // namespace quire
