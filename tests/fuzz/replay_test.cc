// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target over its seed corpus, every truncation of the seeds, and seeded random
// mutations of them. It gives a part of fuzzing in an ordinary build.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/random.h"
#include "tests/kit/paths.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutationsPerSeed = 2000;
constexpr size_t kMaxTruncations = 4096;

/// The corpus of x_fuzz for the program x_replay_test.
std::string CorpusOfThisProgram() {
  constexpr std::string_view kEnd = "_replay_test";
  std::string name = program_invocation_short_name;
  if (name.ends_with(kEnd)) name.resize(name.size() - kEnd.size());
  return std::string(QUIRE_SOURCE_DIR) + "/tests/fuzz/corpus/" + name + "_fuzz";
}

std::vector<std::vector<uint8_t>> SeedsOf(const std::string& corpus) {
  std::vector<std::vector<uint8_t>> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

TEST(ReplayTest, SeedsTruncationsAndMutationsDoNotCrash) {
  const std::string corpus = CorpusOfThisProgram();
  const auto seeds = SeedsOf(corpus);
  ASSERT_FALSE(seeds.empty()) << corpus;
  for (const auto& seed : seeds) {
    const size_t step = std::max<size_t>(1, seed.size() / kMaxTruncations);
    for (size_t size = 0; size <= seed.size(); size += step)
      LLVMFuzzerTestOneInput(seed.data(), size);
    quire::SeededRandom random(20240607);
    for (int i = 0; i < kMutationsPerSeed && !seed.empty(); ++i) {
      std::vector<uint8_t> mutant = seed;
      for (uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
        mutant[random.Below(mutant.size())] = static_cast<uint8_t>(random.Next());
      }
      LLVMFuzzerTestOneInput(mutant.data(), mutant.size());
    }
  }
}

}  // namespace
