// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/prometheus_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/metrics/testing/prometheus_parser.h"

namespace quire::testing {
namespace {

using std::chrono::nanoseconds;
using ::testing::HasSubstr;

TEST(PrometheusTextTest, IsExactlyThis) {
  PrometheusText text;
  text.Gauge("held_bytes", "Held\nnow, \\ all.", 7);
  text.Counter("reads", "Reads.", 3, {{"tier", "ssd"}});
  text.Counter("reads", "Reads.", 4, {{"tier", "dram"}});
  EXPECT_EQ(text.Text(),
            "# HELP quire_held_bytes Held\\nnow, \\\\ all.\n"
            "# TYPE quire_held_bytes gauge\n"
            "quire_held_bytes 7\n"
            "# HELP quire_reads_total Reads.\n"
            "# TYPE quire_reads_total counter\n"
            "quire_reads_total{tier=\"dram\"} 4\n"
            "quire_reads_total{tier=\"ssd\"} 3\n");
}

TEST(PrometheusTextTest, LabelValuesOfAnyBytesComeBack) {
  const std::string value = "a\\b\"c\nd}, x=\"";
  PrometheusText text;
  text.Gauge("held", "Held.", 1, {{"tenant", value}, {"lane", "read"}});
  const auto families = PrometheusParser::Parse(text.Text());
  ASSERT_TRUE(families.ok()) << families.status();
  EXPECT_EQ(families->at("quire_held").samples.at(0).labels.at("tenant"), value);
}

TEST(PrometheusTextTest, ASeriesVisitedTwiceIsThereOnce) {
  PrometheusText text;
  text.Gauge("held", "Held.", 1);
  text.Gauge("held", "Held.", 2);
  const auto families = PrometheusParser::Parse(text.Text());
  ASSERT_TRUE(families.ok()) << families.status();
  ASSERT_EQ(families->at("quire_held").samples.size(), 1u);
  EXPECT_EQ(families->at("quire_held").samples[0].value, 2);
}

TEST(PrometheusTextTest, HistogramsAreCumulativeSecondsWithExactBounds) {
  LatencyHistogram histogram;
  for (const uint64_t nanos : {0ull, 256ull, 257ull, 1ull << 20, (1ull << 20) + 1, 1ull << 39}) {
    histogram.Record(nanoseconds(nanos));
  }
  PrometheusText text;
  text.Histogram("read_seconds", "Reads.", histogram, {{"op", "read"}});
  text.Histogram("read_seconds", "Reads.", LatencyHistogram(), {{"op", "none"}});
  const auto families = PrometheusParser::Parse(text.Text());
  ASSERT_TRUE(families.ok()) << families.status() << text.Text();
  std::map<std::string, double> of_read;
  for (const PrometheusSample& sample : families->at("quire_read_seconds").samples) {
    if (sample.labels.at("op") != "read") continue;
    const auto le = sample.labels.find("le");
    of_read[le == sample.labels.end() ? sample.name : le->second] = sample.value;
  }
  EXPECT_EQ(of_read.at("2.56e-07"), 2);
  EXPECT_EQ(of_read.at("5.12e-07"), 3);
  EXPECT_EQ(of_read.at("0.001048576"), 4);
  EXPECT_EQ(of_read.at("34.359738368"), 5);
  EXPECT_EQ(of_read.at("+Inf"), 6);
  EXPECT_EQ(of_read.at("quire_read_seconds_count"), 6);
  EXPECT_NEAR(of_read.at("quire_read_seconds_sum"), 549.757911554, 1e-9);
}

TEST(PrometheusParserTest, RefusesWhatIsWrong) {
  const std::string head = "# HELP a A.\n# TYPE a gauge\n";
  EXPECT_TRUE(PrometheusParser::Parse(head + "a 1\n").ok());
  for (const std::string& wrong :
       {std::string("a 1\n"), head, head + "a 1", head + "a 1\na 2\n", head + "a x\n",
        head + "b 1\n", head + "a{b=\"c} 1\n", head + "a{b=c} 1\n", head + "a{b=\"\\x\"} 1\n",
        head + "a 1\n" + head + "a 1\n", std::string("# HELP a A.\n# TYPE a counter\na 1\n"),
        std::string("# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 2\na_bucket{le=\"+Inf\"} "
                    "1\na_sum 1\na_count 1\n")}) {
    EXPECT_FALSE(PrometheusParser::Parse(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace quire::testing
