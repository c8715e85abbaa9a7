// SPDX-License-Identifier: Apache-2.0
//
// Require: what must hold of accepted input. A fuzzer takes the end of the process for a finding.
#ifndef QUIRE_TESTS_FUZZ_REQUIRE_H_
#define QUIRE_TESTS_FUZZ_REQUIRE_H_

#include <cstdlib>

namespace quire::fuzz {

inline void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace quire::fuzz

#endif  // QUIRE_TESTS_FUZZ_REQUIRE_H_
