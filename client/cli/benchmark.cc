// SPDX-License-Identifier: Apache-2.0
#include "client/cli/benchmark.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace quire::cli {

std::span<const Benchmark> Benchmarks() {
  static const std::vector<Benchmark> benchmarks = {
      {"decode", "Tokens per second of a model, full against sparse", &BenchDecode},
      {"recall", "Time and bytes of a recall, diff against resend and memcpy", &BenchRecall},
  };
  return benchmarks;
}

Duration Median(std::vector<Duration> times) {
  if (times.empty()) return Duration::zero();
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Json Machine() {
  std::string processor = "unknown";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    processor = line.substr(std::min(line.size(), line.find(':') + 2));
    break;
  }
  return {{"processor", processor}, {"cpus", std::thread::hardware_concurrency()}};
}

}  // namespace quire::cli
