// SPDX-License-Identifier: Apache-2.0
//
// Normalizer: the first step of a tokenizer.json, a list of rewritings of the text. Known are NFC,
// NFD, NFKC, NFKD, Prepend, Replace, Strip and Sequence. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_HF_NORMALIZER_H_
#define QUIRE_GPUWORKER_TEXT_HF_NORMALIZER_H_

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::worker {

class Normalizer {
 public:
  /// Changes nothing.
  Normalizer() = default;
  /// Reads the field `normalizer`; null is one that changes nothing. INVALID_ARGUMENT for a kind or
  /// a field that is not known.
  static StatusOr<Normalizer> Parse(const nlohmann::json& json, const std::string& name);

  bool empty() const { return steps_.empty(); }
  /// `text` rewritten; both are valid UTF-8.
  StatusOr<std::string> Apply(std::string text) const;

 private:
  using Step = std::function<Status(std::string*)>;

  Status Add(const nlohmann::json& json, const std::string& name);

  std::vector<Step> steps_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_NORMALIZER_H_
