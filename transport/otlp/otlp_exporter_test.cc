// SPDX-License-Identifier: Apache-2.0
#include "transport/otlp/otlp_exporter.h"

#include <gmock/gmock.h>

#include <optional>

#include "common/metrics/testing/metrics_page.h"
#include "transport/testing/otlp_collector.h"

namespace quire {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::OtlpCollector;
namespace otlp = testing::otlp;
using ::testing::Pair;

/// Reports of spans that were not sent.
class Reports {
 public:
  OtlpExporter::Report Taker() {
    return [this](std::string_view why, uint64_t) {
      MutexLock lock(mutex_);
      all_.emplace_back(why);
      changed_.NotifyAll();
    };
  }
  /// The first one.
  std::string Await() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (all_.empty()) {
      if (!changed_.WaitFor(mutex_, OtlpCollector::kPatience)) return "no report";
    }
    return all_.front();
  }
  size_t count() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return all_.size();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> all_ QUIRE_GUARDED_BY(mutex_);
};

OtlpSettings SettingsFor(const std::string& address) {
  return {.address = address,
          .resource = {{"service.name", "test"}},
          .headers = {{"api-key", "secret"}},
          .delay = std::chrono::milliseconds(1)};
}

TEST(OtlpExporterTest, SpansArriveWithTheirParentsAndCounts) {
  OtlpCollector collector;
  Reports reports;
  auto exporter = *OtlpExporter::Start(SettingsFor(collector.address()), reports.Taker());
  const Tracer tracer({}, exporter->sink());
  {
    Span root = tracer.Begin("root");
    Span call = root.Child("call", SpanKind::kClient);
    call.Count("quire.lanes", 3);
    call.End(DataLoss("the name of a document"));
  }
  const auto spans = collector.Await(2);
  ASSERT_EQ(spans.size(), 2u);
  const otlp::Span &call = spans[0].span, &root = spans[1].span;
  EXPECT_EQ(spans[0].service, "test");
  EXPECT_EQ(call.name(), "call");
  EXPECT_EQ(call.kind(), otlp::Span::SPAN_KIND_CLIENT);
  EXPECT_EQ(call.trace_id().size(), 16u);
  EXPECT_EQ(call.trace_id(), root.trace_id());
  EXPECT_EQ(call.parent_span_id(), root.span_id());
  EXPECT_EQ(call.attributes(0).key(), "quire.lanes");
  EXPECT_EQ(call.attributes(0).value().int_value(), 3);
  EXPECT_EQ(call.status().code(), otlp::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(call.status().message(), "DATA_LOSS") << "and nothing that names what is stored";
  EXPECT_TRUE(root.parent_span_id().empty());
  EXPECT_FALSE(root.has_status());
  EXPECT_GE(root.end_time_unix_nano(), call.end_time_unix_nano());
  EXPECT_THAT(collector.metadata(), Contains(Pair("api-key", "secret")));
  exporter.reset();
  EXPECT_EQ(reports.count(), 0u);
}

TEST(OtlpExporterTest, TheEndSendsWhatIsLeft) {
  OtlpCollector collector;
  OtlpSettings settings = SettingsFor(collector.address());
  settings.delay = std::chrono::hours(1);
  settings.batch_spans = 100;
  {
    const auto exporter = *OtlpExporter::Start(settings, nullptr);
    const Tracer tracer({}, exporter->sink());
    for (int i = 0; i < 250; ++i) tracer.Begin("root").End();
    EXPECT_EQ(collector.Await(200).size(), 200u) << "full batches do not wait";
  }
  EXPECT_EQ(collector.Await(250).size(), 250u);
  EXPECT_EQ(collector.calls(), 3u);
}

TEST(OtlpExporterTest, ACollectorThatComesLateAndGoesCostsWhatFindsNoRoom) {
  std::optional<OtlpCollector> collector(std::in_place);
  const int port = collector->port();
  OtlpSettings settings = SettingsFor(collector->address());
  settings.queue_spans = 4;
  settings.batch_spans = 1;
  collector.reset();
  Reports reports;
  auto exporter = *OtlpExporter::Start(settings, reports.Taker());
  const Tracer tracer({}, exporter->sink());
  tracer.Begin("early").End();
  EXPECT_THAT(reports.Await(), HasSubstr("connect"));
  for (int i = 0; i < 10; ++i) tracer.Begin("later").End();
  EXPECT_EQ(exporter->dropped(), 6u) << "four of ten found room";
  collector.emplace(port);
  EXPECT_EQ(collector->Await(5).size(), 5u);
  collector.reset();
  for (int i = 0; i < 3; ++i) tracer.Begin("last").End();
  const TimePoint start = SystemClock().Now();
  exporter.reset();
  EXPECT_LE(SystemClock().Now() - start, 2 * OtlpExporter::kTimeAtEnd);
  EXPECT_EQ(reports.count(), 1u) << "one line a minute";
}

TEST(OtlpExporterTest, RefusedSpansAreCountedAndNotSentAgain) {
  OtlpCollector refusing(0, grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no"));
  Reports reports;
  auto exporter = *OtlpExporter::Start(SettingsFor(refusing.address()), reports.Taker());
  Tracer({}, exporter->sink()).Begin("root").End();
  EXPECT_EQ(reports.Await(), "no");
  EXPECT_EQ(exporter->dropped(), 1u);
  testing::ExpectSectionLists("Traces", *exporter, 3);
  exporter.reset();
  EXPECT_EQ(refusing.calls(), 1u);

  otlp::ExportTraceServiceResponse some;
  some.mutable_partial_success()->set_rejected_spans(1);
  OtlpCollector choosy(0, grpc::Status::OK, some);
  Reports of_choosy;
  exporter = *OtlpExporter::Start(SettingsFor(choosy.address()), of_choosy.Taker());
  Tracer({}, exporter->sink()).Begin("root").End();
  EXPECT_THAT(of_choosy.Await(), HasSubstr("refused"));
  EXPECT_EQ(exporter->dropped(), 1u);
  EXPECT_EQ(exporter->exported(), 0u);
}

}  // namespace
}  // namespace quire
