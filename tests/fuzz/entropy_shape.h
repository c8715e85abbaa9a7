// SPDX-License-Identifier: Apache-2.0
//
// The shape of the entropy containers that the fuzzer decodes, shared with the seeds.
#ifndef QUIRE_TESTS_FUZZ_ENTROPY_SHAPE_H_
#define QUIRE_TESTS_FUZZ_ENTROPY_SHAPE_H_

#include "kvserver/store/codec/entropy.h"

namespace quire::fuzz {

inline constexpr kvserver::EntropyShape kEntropyShape = {.units = 3, .unit_bytes = 96};

}  // namespace quire::fuzz

#endif  // QUIRE_TESTS_FUZZ_ENTROPY_SHAPE_H_
