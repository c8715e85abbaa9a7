// SPDX-License-Identifier: Apache-2.0
//
// Reports of `quire bench`, for tests that run it as a program. The last line of its output is one
// JSON object with the figures. Such tests run it so briefly that the figures themselves mean
// nothing. They check that the figures exist and agree with each other.
#ifndef QUIRE_TESTS_INTEGRATION_BENCH_REPORT_H_
#define QUIRE_TESTS_INTEGRATION_BENCH_REPORT_H_

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"

namespace quire::testing {

/// The last line that `quire bench` prints with `args`; an empty object if it is not JSON.
inline nlohmann::json BenchReport(std::vector<std::string> args) {
  args.insert(args.begin(), "bench");
  args.push_back("--json");
  const ChildResult result = RunChild(QUIRE_BINARY_DIR "/bin/quire", std::move(args));
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  if (!result.out.ends_with('\n')) {
    ADD_FAILURE() << "the last line has no end: " << result.out;
    return nlohmann::json::object();
  }
  const std::string lines = result.out.substr(0, result.out.size() - 1);
  const size_t end = lines.rfind('\n');
  const nlohmann::json report =
      nlohmann::json::parse(lines.substr(end == std::string::npos ? 0 : end + 1), nullptr, false);
  EXPECT_TRUE(report.is_object()) << result.out;
  return report.is_object() ? report : nlohmann::json::object();
}

/// The object `key` in `report`; empty if missing.
inline nlohmann::json Part(const nlohmann::json& report, const std::string& key) {
  if (report.contains(key) && report[key].is_object()) return report[key];
  ADD_FAILURE() << "no object " << key << " in " << report.dump();
  return nlohmann::json::object();
}

/// The figure `key` in `report`; NaN if missing, which fails every comparison.
inline double Figure(const nlohmann::json& report, const std::string& key) {
  if (report.contains(key) && report[key].is_number()) return report[key].get<double>();
  ADD_FAILURE() << "no figure " << key << " in " << report.dump();
  return std::numeric_limits<double>::quiet_NaN();
}

inline std::set<std::string> KeysOf(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

inline void ExpectPositive(const nlohmann::json& report, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) EXPECT_GT(Figure(report, key), 0) << key;
}

/// Expects figures from 0 to 1, up to rounding.
inline void ExpectShares(const nlohmann::json& report, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    EXPECT_GE(Figure(report, key), 0) << key;
    EXPECT_LE(Figure(report, key), 1 + 1e-5) << key;
  }
}

inline void ExpectMachine(const nlohmann::json& report) {
  const nlohmann::json machine = Part(report, "machine");
  EXPECT_TRUE(machine.contains("processor")) << machine;
  ExpectPositive(machine, {"cpus"});
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_BENCH_REPORT_H_
