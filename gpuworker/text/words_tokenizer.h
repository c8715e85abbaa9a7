// SPDX-License-Identifier: Apache-2.0
//
// WordsTokenizer: text to token ids and back for the bundled models ("quire-words", version 1).
// Lossless for any bytes: words and signs of the vocabulary are one token each, everything else is
// spelled in bytes.
//
//   file    {"format": "quire-words", "version": 1, "bos_id": 0, "eos_id": 1, "tokens": [...]}
//   tokens  "<bos>", "<eos>", then "<0x00>" .. "<0xFF>", then pieces
//   piece   an optional space, then a maximal run of ASCII letters, one ASCII digit, or one byte
//           that is neither these nor a space; a space before none of them is a piece by itself
//
// A file with any other field is refused: added tokens, normalizers and the like are not known
// here. Thread-safety: const use is safe. Errors: INVALID_ARGUMENT naming the file and the token.
#ifndef QUIRE_GPUWORKER_TEXT_WORDS_TOKENIZER_H_
#define QUIRE_GPUWORKER_TEXT_WORDS_TOKENIZER_H_

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpuworker/text/text_coder.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class WordsTokenizer final : public TextCoder {
 public:
  /// Reads the object of a tokenizer.json; `name` starts every message.
  static StatusOr<WordsTokenizer> Parse(const nlohmann::json& json, const std::string& name);

  /// Never fails.
  StatusOr<std::vector<TokenId>> Encode(std::string_view text) const override;
  StatusOr<std::string> Decode(std::span<const TokenId> ids) const override;
  StatusOr<std::string> BytesOf(TokenId id, bool /*first*/) const override {
    return Decode({&id, 1});
  }
  bool IsSpecial(TokenId id) const override { return id == kStart || id == kEnd; }
  const std::vector<TokenId>& starts() const override { return starts_; }
  const std::vector<TokenId>& ends() const override { return ends_; }
  size_t vocab_size() const override { return bytes_.size(); }

 private:
  static constexpr TokenId kStart = 0;
  static constexpr TokenId kEnd = 1;

  WordsTokenizer() = default;

  std::vector<std::string> bytes_;                   ///< Bytes of each id.
  std::unordered_map<std::string, TokenId> pieces_;  ///< Ids from the first after the bytes on.
  std::vector<TokenId> starts_ = {kStart};
  std::vector<TokenId> ends_ = {kEnd};
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_WORDS_TOKENIZER_H_
