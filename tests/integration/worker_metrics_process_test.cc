// SPDX-License-Identifier: Apache-2.0
//
// `quire worker --admin-listen`: scrapes a worker process before, during and after calls.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/metrics/testing/http_get.h"
#include "common/metrics/testing/prometheus_parser.h"
#include "tests/integration/quire_fixture.h"
#include "tests/kit/tiny_model.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using testing::HttpBody;
using testing::HttpGet;
using ::testing::Not;
using testing::PrometheusParser;
using ::testing::StartsWith;

class WorkerMetricsTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    testing::WriteTinyModel(model_.path(), {});
    StartServer();
    std::ofstream ids(dir_ / "ids.txt");
    for (int i = 0; i < 300; ++i) ids << (7 * i + 3) % 64 << "\n";
    ids.close();
    const auto put = QuireJson({"put", "--token-ids", "@" + (dir_ / "ids.txt"), "--name", "ids",
                                "--model", model_.path()});
    ASSERT_TRUE(put.contains("documents")) << put;
  }
  std::vector<std::string> WorkerArgs(const std::string& admin) const {
    return {"--server", address_,      "worker",         "--model", model_.path(),
            "--listen", "127.0.0.1:0", "--admin-listen", admin,     "--json"};
  }
  void StartWorker() {
    worker_ = std::make_unique<testing::ChildProcess>(Binary("quire"), WorkerArgs("127.0.0.1:0"),
                                                      dir_ / "worker.err");
    std::string line;
    ASSERT_TRUE(worker_->ReadLine(&line)) << worker_->Stderr();
    ready_ = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(ready_.is_object() && ready_.contains("admin")) << line;
    const std::string admin = ready_["admin"];
    port_ = std::stoi(admin.substr(admin.rfind(':') + 1));
  }
  nlohmann::json Ask(const std::string& document) {
    return QuireJson({"ask", "--document", document, "--token-ids", "5, 8 13", "--max-new-tokens",
                      "6", "--worker", ready_["listening"]});
  }
  /// The sum over a family's series.
  double Scrape(const std::string& family) const {
    const auto families = PrometheusParser::Parse(HttpBody(HttpGet(port_, "/metrics")));
    EXPECT_TRUE(families.ok()) << families.status();
    if (!families.ok() || !families->contains(family)) return -1;
    double sum = 0;
    for (const auto& sample : families->at(family).samples) sum += sample.value;
    return sum;
  }

  testing::TempDir model_;
  std::unique_ptr<testing::ChildProcess> worker_;
  nlohmann::json ready_;
  int port_ = 0;
};

TEST_F(WorkerMetricsTest, MetricsMoveWithCallsAndThePortGoesWithTheWorker) {
  StartWorker();
  EXPECT_THAT(HttpGet(port_, "/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(HttpGet(port_, "/readyz"), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(Scrape("quire_build_info"), 1);
  EXPECT_EQ(Scrape("quire_worker_calls_total"), 0);
  EXPECT_EQ(Scrape("quire_batch_finished_total"), 0);
  const auto answer = Ask("ids");
  ASSERT_EQ(answer["tokens"].size(), 6u) << answer;
  EXPECT_EQ(Scrape("quire_worker_calls_total"), 1);
  EXPECT_EQ(Scrape("quire_worker_calls_running"), 0);
  EXPECT_EQ(Scrape("quire_batch_finished_total"), 1);
  // The prompt's three tokens, and the answer's except the last one, which is not run.
  EXPECT_EQ(Scrape("quire_batch_tokens_total"), 3 + 5);
  EXPECT_EQ(Scrape("quire_batch_running"), 0);
  const std::string given = "given-by-a-caller";
  EXPECT_EQ(Ask(given)["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(Scrape("quire_worker_calls_failed_total"), 1);
  EXPECT_EQ(Scrape("quire_troubles_total"), 0);
  const auto refused = QuireJson({"ask", "--document", "ids", "--token-ids", "5", "--tenant", given,
                                  "--worker", ready_["listening"]});
  EXPECT_EQ(refused["error"]["code"], "PERMISSION_DENIED");
  EXPECT_EQ(Scrape("quire_troubles_total"), 1);
  EXPECT_THAT(HttpBody(HttpGet(port_, "/metrics")), Not(HasSubstr(given))) << "no label has it";
  worker_->Signal(SIGTERM);
  EXPECT_EQ(worker_->Wait(), 0) << worker_->Stderr();
  EXPECT_EQ(HttpGet(port_, "/healthz"), "") << "nobody listens any more";
}

// A lost store is named at the worker's port, and to callers, whose worker itself is healthy.
TEST_F(WorkerMetricsTest, AStoreThatIsGoneIsNamed) {
  StartWorker();
  ASSERT_EQ(Ask("ids")["tokens"].size(), 6u);
  EXPECT_EQ(StopServer(SIGTERM), 0);
  const auto asked = Quire({"ask", "--document", "ids", "--token-ids", "5", "--worker",
                            ready_["listening"], "--timeout", "3"});
  EXPECT_EQ(asked.exit_code, 1);
  EXPECT_THAT(asked.err, HasSubstr(address_));
  EXPECT_THAT(asked.err, HasSubstr("quire serve"));
  EXPECT_THAT(asked.err, Not(HasSubstr("quire worker")));
  EXPECT_THAT(HttpBody(HttpGet(port_, "/readyz")), HasSubstr("degraded: store_unreached: "));
  EXPECT_GE(Scrape("quire_degraded"), 1);
  StartServer({}, address_);
  EXPECT_EQ(Ask("ids")["tokens"].size(), 6u);
  EXPECT_THAT(HttpBody(HttpGet(port_, "/readyz")), Not(HasSubstr("degraded")));
  EXPECT_THAT(worker_->Stderr(), HasSubstr("info store_unreached state=over"));
}

TEST_F(WorkerMetricsTest, ATakenAdminPortIsNamed) {
  StartWorker();
  const auto second =
      testing::RunChild(Binary("quire"), WorkerArgs("127.0.0.1:" + std::to_string(port_)));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.out + second.err, HasSubstr("127.0.0.1:" + std::to_string(port_)));
  EXPECT_THAT(second.out + second.err, HasSubstr("--admin-listen"));
}

}  // namespace
}  // namespace quire
