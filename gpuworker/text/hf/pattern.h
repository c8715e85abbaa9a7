// SPDX-License-Identifier: Apache-2.0
//
// The field `pattern` of several steps of a tokenizer.json: {"String": text} or {"Regex":
// expression}.
#ifndef QUIRE_GPUWORKER_TEXT_HF_PATTERN_H_
#define QUIRE_GPUWORKER_TEXT_HF_PATTERN_H_

#include "gpuworker/text/hf/regex.h"
#include "quire/status.h"

namespace quire::worker {

class JsonFields;

/// INVALID_ARGUMENT when the field `pattern` is absent, empty or does not compile.
StatusOr<Regex> ParsePattern(const JsonFields& fields);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_PATTERN_H_
