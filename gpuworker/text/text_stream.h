// SPDX-License-Identifier: Apache-2.0
//
// TextStream: the text of an answer whose tokens come one after another. A token may end inside a
// character; what Add returns is whole characters, and the beginning of one waits for the tokens
// that follow. Ownership: the tokenizer outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_TEXT_STREAM_H_
#define QUIRE_GPUWORKER_TEXT_TEXT_STREAM_H_

#include <string>

#include "common/base/utf8.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The characters that `token` completes, as Utf8Joiner::Add. INTERNAL for a token that the
  /// tokenizer does not know: the model has chosen it.
  StatusOr<std::string> Add(TokenId token) {
    const auto bytes = tokenizer_.BytesOf(token, first_);
    if (!bytes.ok()) {
      return Internal("the model chose what its tokenizer does not know: ",
                      Message(bytes.status()));
    }
    first_ = first_ && tokenizer_.IsSpecial(token);
    return joiner_.Add(*bytes);
  }
  /// The answer is over: U+FFFD where it ends inside a character, otherwise nothing.
  std::string Finish() { return joiner_.Finish(); }

 private:
  const Tokenizer& tokenizer_;
  bool first_ = true;  ///< Only special tokens came so far.
  Utf8Joiner joiner_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_TEXT_STREAM_H_
