// SPDX-License-Identifier: Apache-2.0
//
// Asking: one conversation, asked in a sequence over its document.
// Thread-safety: none.
// Ownership: the arguments outlive it.
#ifndef QUIRE_BENCH_KIT_ASKING_H_
#define QUIRE_BENCH_KIT_ASKING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/answers/question_sets.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/status.h"

namespace quire::bench {

class Asking {
 public:
  /// `sequence` is over the conversation's document, with nothing appended. `tokenizer` is that of
  /// the bundled model, which takes any text.
  Asking(const Conversation& conversation, const worker::Tokenizer& tokenizer,
         worker::Sequence& sequence);

  /// Returns 1 for every question whose whole answer is right.
  StatusOr<std::vector<uint8_t>> AskAll();

 private:
  /// The part of the prompt that the model has not written itself.
  std::string RestOfPrompt(const Question& question) const;
  /// Generates until the answer has the expected length or ends. Returns true if it is the expected
  /// one.
  StatusOr<bool> Answers(const std::vector<TokenId>& expected);
  /// Returns true if the model writes the line start. Stops at the first other token.
  StatusOr<bool> BeginsLine();

  const Conversation& conversation_;
  const worker::Tokenizer& tokenizer_;
  const std::vector<TokenId> line_start_;
  worker::Sequence& sequence_;
  bool line_begun_ = false;  ///< True if the model has begun the next line.
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_ASKING_H_
