// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer: text to token ids and back for the bundled models ("quire-words", version 1). Lossless
// for any bytes: words and signs of the vocabulary are one token each, everything else is spelled
// in bytes.
//
//   file    {"format": "quire-words", "version": 1, "bos_id": 0, "eos_id": 1, "tokens": [...]}
//   tokens  "<bos>", "<eos>", then "<0x00>" .. "<0xFF>", then pieces
//   piece   an optional space, then a maximal run of ASCII letters, one ASCII digit, or one byte
//           that is neither these nor a space; a space before none of them is a piece by itself
//
// A file with any other field is refused: added tokens, normalizers and the like are not known
// here. Thread-safety: const use is safe. Errors: INVALID_ARGUMENT naming the file and the token.
#ifndef QUIRE_GPUWORKER_MODEL_TOKENIZER_H_
#define QUIRE_GPUWORKER_MODEL_TOKENIZER_H_

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class Tokenizer {
 public:
  /// Reads a tokenizer.json. NOT_FOUND when it is not there.
  static StatusOr<Tokenizer> Load(const std::string& path);
  /// Parses the text of one; `name` starts every message.
  static StatusOr<Tokenizer> Parse(std::string_view text, const std::string& name);

  /// Token ids of `text`, without BOS or EOS.
  std::vector<TokenId> Encode(std::string_view text) const;
  /// The bytes that `ids` stand for; BOS and EOS stand for none. INVALID_ARGUMENT for an unknown
  /// id.
  StatusOr<std::string> Decode(std::span<const TokenId> ids) const;

  TokenId bos_id() const { return bos_id_; }
  TokenId eos_id() const { return eos_id_; }
  /// Every token that ends a sequence: EOS, and what AddEnds was given.
  const std::vector<TokenId>& ends() const { return ends_; }
  /// Adds those that the model's configuration names besides.
  void AddEnds(std::span<const TokenId> ids);
  size_t vocab_size() const { return bytes_.size(); }

 private:
  Tokenizer() = default;

  std::vector<std::string> bytes_;                   ///< What each id stands for.
  std::unordered_map<std::string, TokenId> pieces_;  ///< Ids from the first after the bytes on.
  TokenId bos_id_ = 0;
  TokenId eos_id_ = 1;
  std::vector<TokenId> ends_ = {eos_id_};
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_TOKENIZER_H_
