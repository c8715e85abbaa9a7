// SPDX-License-Identifier: Apache-2.0
//
// Compares docs/metrics.md with a process's metrics: one row for each metric, and no other. Only
// tests use it.
#ifndef QUIRE_COMMON_METRICS_TESTING_METRICS_PAGE_H_
#define QUIRE_COMMON_METRICS_TESTING_METRICS_PAGE_H_

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "common/metrics/prometheus_text.h"
#include "common/metrics/testing/prometheus_parser.h"
#include "tests/kit/paths.h"

namespace quire::testing {

/// The expected row for `family`.
inline std::string RowOf(const PrometheusFamily& family) {
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

/// The rows of metrics below the heading "## `section`", up to the next one.
inline std::set<std::string> RowsOfSection(const std::string& section) {
  std::set<std::string> rows;
  bool inside = false;
  std::ifstream page(QUIRE_SOURCE_DIR "/docs/metrics.md");
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## " + section;
    if (inside && line.starts_with("| `quire_")) rows.insert(line);
  }
  return rows;
}

/// Expects exactly the metrics of `component` in the section, at least `least` of them.
template <typename Component>
void ExpectSectionLists(const std::string& section, const Component& component, size_t least) {
  PrometheusText text;
  component.VisitMetrics(text);
  const auto families = PrometheusParser::Parse(text.Text());
  ASSERT_TRUE(families.ok()) << families.status();
  EXPECT_GE(families->size(), least);
  std::set<std::string> rows = RowsOfSection(section);
  for (const auto& [name, family] : *families) {
    EXPECT_EQ(rows.erase(RowOf(family)), 1u)
        << "docs/metrics.md, " << section << ", lacks the row\n"
        << RowOf(family);
  }
  for (const std::string& row : rows) {
    ADD_FAILURE() << "docs/metrics.md, " << section << ": no such metric:\n" << row;
  }
}

}  // namespace quire::testing

#endif  // QUIRE_COMMON_METRICS_TESTING_METRICS_PAGE_H_
