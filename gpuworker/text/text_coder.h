// SPDX-License-Identifier: Apache-2.0
//
// TextCoder: what a Tokenizer needs of a kind of tokenizer.json. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_TEXT_CODER_H_
#define QUIRE_GPUWORKER_TEXT_TEXT_CODER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class TextCoder {
 public:
  virtual ~TextCoder() = default;

  /// Ids of `text`, without those that a sequence begins and ends with. INVALID_ARGUMENT for text
  /// that a rule of the file cannot be applied to.
  virtual StatusOr<std::vector<TokenId>> Encode(std::string_view text) const = 0;
  /// The text of an answer. INVALID_ARGUMENT for an id that is no token.
  virtual StatusOr<std::string> Decode(std::span<const TokenId> ids) const = 0;
  /// The bytes of one token within an answer; a character may end in a later one. `first`: only
  /// special tokens came before it. INVALID_ARGUMENT for an id that is no token.
  virtual StatusOr<std::string> BytesOf(TokenId id, bool first) const = 0;
  /// Stands for no text: starts and ends of sequences, turns of a chat. False for an unknown id.
  virtual bool IsSpecial(TokenId id) const = 0;

  /// First ids of a text: the start of a sequence, or none.
  virtual const std::vector<TokenId>& starts() const = 0;
  /// Ids that end a sequence, where the file itself says so.
  virtual const std::vector<TokenId>& ends() const = 0;
  /// One more than the largest id.
  virtual size_t vocab_size() const = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_TEXT_CODER_H_
