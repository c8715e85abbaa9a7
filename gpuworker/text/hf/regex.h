// SPDX-License-Identifier: Apache-2.0
//
// Regex: a regular expression as tokenizer.json holds them (Oniguruma's syntax), run by PCRE2 with
// its compiler to machine code. Ownership: a shared handle. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_HF_REGEX_H_
#define QUIRE_GPUWORKER_TEXT_HF_REGEX_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire::worker {

class Regex {
 public:
  /// INVALID_ARGUMENT with the position of the first mistake.
  static StatusOr<Regex> Compile(std::string_view pattern);
  /// A pattern that matches `text` itself.
  static Regex Literal(std::string_view text);

  using Match = std::function<void(size_t begin, size_t end)>;
  /// Calls `match` for each match in `text`, which is valid UTF-8, from left to right. Matches do
  /// not overlap; an empty one is reported once and then passed. INVALID_ARGUMENT when a match
  /// would take more steps or memory than PCRE2's limits allow.
  Status ForEach(std::string_view text, const Match& match) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}

  std::shared_ptr<const Code> code_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_REGEX_H_
