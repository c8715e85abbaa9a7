// SPDX-License-Identifier: Apache-2.0
//
// Asking: one conversation, asked in a sequence over its document. Thread-safety: none. Ownership:
// what it is given outlives it.
#ifndef QUIRE_BENCH_KIT_ASKING_H_
#define QUIRE_BENCH_KIT_ASKING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/answers/question_sets.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/model/tokenizer.h"
#include "quire/status.h"

namespace quire::bench {

class Asking {
 public:
  /// `sequence` is over the conversation's document, and nothing has been appended to it.
  Asking(const Conversation& conversation, const worker::Tokenizer& tokenizer,
         worker::Sequence& sequence);

  /// 1 for every question whose whole answer is right.
  StatusOr<std::vector<uint8_t>> AskAll();

 private:
  /// What the model has not written of it itself.
  std::string RestOfPrompt(const Question& question) const;
  /// Generates until the answer is as long as the expected one, or has come to its end.
  StatusOr<bool> Answers(const std::vector<TokenId>& expected);
  /// Whether the model writes the line start. The first token that is not of it is the last one.
  StatusOr<bool> BeginsLine();

  const Conversation& conversation_;
  const worker::Tokenizer& tokenizer_;
  const std::vector<TokenId> line_start_;
  worker::Sequence& sequence_;
  bool line_begun_ = false;  ///< The model has begun the next line.
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_ASKING_H_
