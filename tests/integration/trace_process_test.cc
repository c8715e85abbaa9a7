// SPDX-License-Identifier: Apache-2.0
//
// Traces of a put and a question over the processes `quire`, `quire worker` and `quire serve`, as a
// collector gets them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/quire_fixture.h"
#include "tests/kit/tiny_model.h"
#include "transport/testing/otlp_collector.h"

namespace quire {
namespace {

using testing::CollectedSpan;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::OtlpCollector;
namespace otlp = testing::otlp;

constexpr char kDocument[] = "secret-dossier";

/// Sets a variable of the environment that child processes get, while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
};

uint64_t NanosOf(const otlp::Span& span) {
  return span.end_time_unix_nano() - span.start_time_unix_nano();
}

/// One trace.
class Trace {
 public:
  Trace(const std::vector<CollectedSpan>& all, const std::string& root) {
    const auto found = std::ranges::find_if(all, [&](const CollectedSpan& one) {
      return one.span.name() == root && one.span.parent_span_id().empty();
    });
    if (found == all.end()) return;
    root_ = &found->span;
    for (const CollectedSpan& one : all) {
      if (one.span.trace_id() == root_->trace_id()) by_id_[one.span.span_id()] = &one;
    }
  }
  /// Null when there is no such trace.
  const otlp::Span* root() const { return root_; }
  std::set<std::string> services() const {
    std::set<std::string> services;
    for (const auto& [id, one] : by_id_) services.insert(one->service);
    return services;
  }
  /// Chains of names from the root to each span: "quire ask > quire.v1.Worker/Generate".
  std::set<std::string> Paths() const {
    std::set<std::string> paths;
    for (const auto& [id, one] : by_id_) paths.insert(PathOf(one->span));
    return paths;
  }
  /// Spans whose parent is missing, or that do not lie within it.
  std::vector<std::string> Loose() const {
    std::vector<std::string> loose;
    for (const auto& [id, one] : by_id_) {
      if (!LiesWithin(*one)) loose.push_back(PathOf(one->span));
    }
    return loose;
  }
  /// The share of a span's time that its children cover.
  double Covered(const otlp::Span& span) const {
    std::vector<std::pair<uint64_t, uint64_t>> parts;
    for (const auto& [id, one] : by_id_) {
      if (one->span.parent_span_id() != span.span_id()) continue;
      parts.emplace_back(one->span.start_time_unix_nano(), one->span.end_time_unix_nano());
    }
    std::ranges::sort(parts);
    uint64_t covered = 0, at = span.start_time_unix_nano();
    for (const auto& [start, end] : parts) {
      const uint64_t last = std::min(end, span.end_time_unix_nano());
      if (last > at) covered += last - std::max(at, start);
      at = std::max(at, last);
    }
    return static_cast<double>(covered) / static_cast<double>(NanosOf(span));
  }
  /// The first span of this name and kind.
  const otlp::Span* Find(const std::string& name, otlp::Span::SpanKind kind) const {
    for (const auto& [id, one] : by_id_) {
      if (one->span.name() == name && one->span.kind() == kind) return &one->span;
    }
    return nullptr;
  }

 private:
  std::string PathOf(const otlp::Span& span) const {
    const auto parent = by_id_.find(span.parent_span_id());
    return parent == by_id_.end() ? span.name()
                                  : PathOf(parent->second->span) + " > " + span.name();
  }
  bool LiesWithin(const CollectedSpan& one) const {
    if (&one.span == root_) return true;
    const auto found = by_id_.find(one.span.parent_span_id());
    if (found == by_id_.end()) return false;
    const otlp::Span& parent = found->second->span;
    // A cancelled call ends at once for its caller.
    if (parent.status().message() == "CANCELLED") return true;
    // Processes read the wall clock by themselves, and a server ends its span after its answer.
    const bool same = found->second->service == one.service;
    const uint64_t early = same ? 0 : 1'000'000, late = same ? 0 : 100'000'000;
    return one.span.start_time_unix_nano() + early >= parent.start_time_unix_nano() &&
           one.span.end_time_unix_nano() <= parent.end_time_unix_nano() + late;
  }

  const otlp::Span* root_ = nullptr;
  std::map<std::string, const CollectedSpan*> by_id_;
};

class TraceProcessTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    testing::WriteTinyModel(model_.path(), {});
    std::ofstream ids(dir_ / "ids.txt");
    for (int i = 0; i < 300; ++i) ids << (7 * i + 3) % 64 << "\n";
  }
  void Put() {
    const auto put = QuireJson({"put", "--token-ids", "@" + (dir_ / "ids.txt"), "--name", kDocument,
                                "--model", model_.path()});
    ASSERT_TRUE(put.contains("documents")) << put;
  }
  /// Starts a worker. Returns its address.
  std::string StartWorker() {
    worker_ = std::make_unique<testing::ChildProcess>(
        Binary("quire"),
        std::vector<std::string>{"--server", address_, "worker", "--model", model_.path(),
                                 "--listen", "127.0.0.1:0", "--budget", "128", "--sinks", "32",
                                 "--window", "32", "--json"},
        dir_ / "worker.err");
    std::string line;
    EXPECT_TRUE(worker_->ReadLine(&line)) << worker_->Stderr();
    const auto ready = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    return ready.is_object() ? ready.value("listening", "") : "";
  }
  void Ask(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"ask",         "--document",       kDocument, "--token-ids",
                                     "5, 8 13, 21", "--max-new-tokens", "48"};
    args.insert(args.end(), more.begin(), more.end());
    const auto answer = QuireJson(args);
    EXPECT_EQ(answer["tokens"].size(), 48u) << answer;
  }

  testing::TempDir model_;
  std::unique_ptr<testing::ChildProcess> worker_;
};

TEST_F(TraceProcessTest, APutAndAQuestionAreATraceEachOverAllProcesses) {
  OtlpCollector collector;
  {
    const Variable endpoint("OTEL_EXPORTER_OTLP_ENDPOINT", "http://" + collector.address());
    StartServer();
    Put();
    EXPECT_EQ(StopServer(SIGTERM), 0);
    StartServer({}, address_);  // Nothing is in DRAM now.
    const std::string worker = StartWorker();
    // A busy machine may stop a process between two spans of one question, not of three.
    for (int i = 0; i < 3; ++i) Ask({"--worker", worker});
    worker_->Signal(SIGTERM);
    EXPECT_EQ(worker_->Wait(), 0) << worker_->Stderr();
    EXPECT_EQ(StopServer(SIGTERM), 0);
  }
  // All processes have ended, and sent what they had.
  const std::vector<CollectedSpan> spans = collector.Await(1);
  for (const CollectedSpan& one : spans) {
    EXPECT_THAT(one.span.ShortDebugString(), ::testing::Not(HasSubstr("secret")));
  }

  const Trace put(spans, "quire put");
  ASSERT_NE(put.root(), nullptr);
  EXPECT_THAT(put.services(), IsSupersetOf({"quire", "quired"}));
  EXPECT_THAT(put.Loose(), ::testing::IsEmpty());
  const std::string append = "quire put > ingest > send_pages > quire.v1.Store/AppendLayers";
  EXPECT_THAT(put.Paths(), IsSupersetOf({append + " > quire.v1.Store/AppendLayers > queue",
                                         append + " > quire.v1.Store/AppendLayers > ssd",
                                         std::string("quire put > ingest > quire.v1.Store/Seal > "
                                                     "quire.v1.Store/Seal > ssd")}));

  std::vector<CollectedSpan> left = spans;
  double covered = 0, by_phases = 0;
  for (int i = 0; i < 3; ++i) {
    const Trace ask(left, "quire ask");
    ASSERT_NE(ask.root(), nullptr) << i;
    EXPECT_THAT(ask.services(), IsSupersetOf({"quire", "quire-worker", "quired"}));
    EXPECT_THAT(ask.Loose(), ::testing::IsEmpty());
    const std::string call = "quire ask > quire.v1.Worker/Generate > quire.v1.Worker/Generate";
    const std::string recall =
        call + " > sequence > quire.v1.Session/Recall > quire.v1.Session/Recall";
    EXPECT_THAT(ask.Paths(),
                IsSupersetOf({call + " > sequence > queue", call + " > sequence > open",
                              call + " > sequence > prompt", call + " > sequence > generate",
                              recall + " > queue", recall + " > dram"}));
    // The first question reads from SSD, and brings the pages back to DRAM.
    if (i == 0) {
      EXPECT_THAT(ask.Paths(),
                  IsSupersetOf({recall + " > dram > ssd", recall + " > dram > ssd > gate"}));
    }
    covered = std::max(covered, ask.Covered(*ask.root()));
    const otlp::Span* const generate =
        ask.Find("quire.v1.Worker/Generate", otlp::Span::SPAN_KIND_SERVER);
    ASSERT_NE(generate, nullptr);
    by_phases = std::max(by_phases, ask.Covered(*generate));
    const std::string id = ask.root()->trace_id();
    std::erase_if(left, [&](const CollectedSpan& one) { return one.span.trace_id() == id; });
  }
  EXPECT_GE(covered, 0.95) << "the root's children add up to its time";
  EXPECT_GE(by_phases, 0.95) << "and so do those of the worker's call";
}

TEST_F(TraceProcessTest, ACollectorThatIsAwayCostsALine) {
  std::optional<OtlpCollector> gone(std::in_place);
  const std::string address = gone->address();
  gone.reset();
  StartServer();
  const Variable endpoint("OTEL_EXPORTER_OTLP_ENDPOINT", "http://" + address);
  const auto ls = Quire({"ls"});
  EXPECT_EQ(ls.exit_code, 0) << ls.err;
  EXPECT_THAT(ls.err, HasSubstr("warning traces_not_sent collector=" + address));
  {
    const Variable off("OTEL_SDK_DISABLED", "true");
    EXPECT_THAT(Quire({"ls"}).err, ::testing::Not(HasSubstr("traces_not_sent")));
  }
  const Variable protocol("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
  const auto refused = Quire({"ls"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("OTEL_EXPORTER_OTLP_PROTOCOL is 'http/protobuf'"));
  EXPECT_THAT(refused.err, HasSubstr("4317"));
}

}  // namespace
}  // namespace quire
