// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/asking.h"

namespace quire::bench {

Asking::Asking(const Conversation& conversation, const worker::Tokenizer& tokenizer,
               worker::Sequence& sequence)
    : conversation_(conversation),
      tokenizer_(tokenizer),
      line_start_(*tokenizer.Encode(conversation.line_start)),
      sequence_(sequence) {}

StatusOr<std::vector<uint8_t>> Asking::AskAll() {
  if (!line_start_.empty()) {
    QUIRE_RETURN_IF_ERROR(
        sequence_.CheckRoom(conversation_.context_tokens - sequence_.num_tokens()));
  }
  std::vector<uint8_t> right;
  for (const Question& question : conversation_.questions) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> asked,
                           tokenizer_.Encode(question.reads + RestOfPrompt(question)));
    QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> expected, tokenizer_.Encode(question.answer));
    // Many wrong line starts may use up the room. The remaining questions are not answered.
    if (!line_start_.empty() && !sequence_.CheckRoom(asked.size() + expected.size()).ok()) break;
    QUIRE_RETURN_IF_ERROR(sequence_.Append(asked));
    QUIRE_ASSIGN_OR_RETURN(const bool answered, Answers(expected));
    right.push_back(answered ? 1 : 0);
    QUIRE_ASSIGN_OR_RETURN(line_begun_, BeginsLine());
  }
  right.resize(conversation_.questions.size());
  return right;
}

std::string Asking::RestOfPrompt(const Question& question) const {
  return question.prompt.substr(line_begun_ ? conversation_.line_start.size() : 0);
}

StatusOr<bool> Asking::Answers(const std::vector<TokenId>& expected) {
  QUIRE_ASSIGN_OR_RETURN(
      const worker::Generation given,
      sequence_.Generate({.max_new_tokens = static_cast<uint32_t>(expected.size()),
                          .stop_tokens = tokenizer_.ends(),
                          .on_token = [&](TokenId token) { return token != expected.back(); }}));
  return given.tokens == expected;
}

StatusOr<bool> Asking::BeginsLine() {
  if (line_start_.empty()) return false;
  size_t agreed = 0;
  const auto agrees = [&](TokenId token) {
    if (token != line_start_[agreed]) return false;
    ++agreed;
    return true;
  };
  QUIRE_RETURN_IF_ERROR(sequence_
                            .Generate({.max_new_tokens = static_cast<uint32_t>(line_start_.size()),
                                       .on_token = agrees})
                            .status());
  return agreed == line_start_.size();
}

}  // namespace quire::bench
