// SPDX-License-Identifier: Apache-2.0
//
// Flags of benchmarks that ask the question sets (question_sets.h).
#ifndef QUIRE_BENCH_ANSWERS_SET_FLAGS_H_
#define QUIRE_BENCH_ANSWERS_SET_FLAGS_H_

#include <CLI/CLI.hpp>

#include "bench/answers/question_sets.h"

namespace quire::bench {

/// Adds --sets, --samples and --seed. `options` outlives the parsing.
inline void AddSetFlags(CLI::App& command, SetOptions* options) {
  command.add_option("--sets", options->sets, "Which questions are asked")
      ->delimiter(',')
      ->check(CLI::IsMember(SetNames()))
      ->capture_default_str();
  command
      .add_option("--samples", options->samples,
                  "Questions of each set, at least, while there are documents")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command.add_option("--seed", options->seed, "Of the choice of questions")->capture_default_str();
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ANSWERS_SET_FLAGS_H_
