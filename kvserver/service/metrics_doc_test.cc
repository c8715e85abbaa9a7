// SPDX-License-Identifier: Apache-2.0
//
// docs/metrics.md against what a server exports: a row for each metric, and no other.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "common/transport/inproc_pipe.h"
#include "kvserver/service/data_plane.h"
#include "kvserver/service/prometheus_text.h"
#include "kvserver/service/testing/prometheus_parser.h"
#include "kvserver/service/testing/service_fixture.h"

namespace quire::kvserver::testing {
namespace {

/// The row that the page has to have for `family`.
std::string RowOf(const PrometheusFamily& family) {
  std::set<std::string> labels;
  for (const PrometheusSample& sample : family.samples) {
    for (const auto& [label, value] : sample.labels) {
      if (label != "le") labels.insert(label);
    }
  }
  std::string list;
  for (const std::string& label : labels) list += (list.empty() ? "`" : ", `") + label + "`";
  return "| `" + family.name + "` | " + family.type + " | " + list + " | " + family.help + " |";
}

class NoListener final : public PipeListener {
 public:
  std::string_view kind() const override { return "none"; }
  std::string address() const override { return ""; }
};

class MetricsDocTest : public ServiceFixture {};

TEST_F(MetricsDocTest, ThePageListsEveryMetricAsItIs) {
  EXPECT_FALSE(Call<v1::FetchReply>("Store/Fetch", v1::FetchRequest()).ok());
  EXPECT_TRUE(Call<v1::LookupReply>("Store/Lookup",
                                    [&] {
                                      v1::LookupRequest request;
                                      *request.mutable_spec() = SpecProto();
                                      return request;
                                    }())
                  .ok());
  // A connection of each kind that has been there has a series: one in this process will do.
  server_->data_plane().Add(std::make_unique<NoListener>());
  InprocPair pipes = MakeInprocPair({});
  server_->data_plane().accept()(std::move(pipes.server));
  PrometheusText text;
  server_->VisitMetrics(text);
  const auto families = PrometheusParser::Parse(text.Text());
  ASSERT_TRUE(families.ok()) << families.status();
  EXPECT_GT(families->size(), 60u);
  std::set<std::string> rows;
  std::ifstream page(QUIRE_SOURCE_DIR "/docs/metrics.md");
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `quire_")) rows.insert(line);
  }
  for (const auto& [name, family] : *families) {
    EXPECT_EQ(rows.erase(RowOf(family)), 1u) << "docs/metrics.md lacks the row\n" << RowOf(family);
  }
  for (const std::string& row : rows) ADD_FAILURE() << "no such metric:\n" << row;
}

}  // namespace
}  // namespace quire::kvserver::testing
