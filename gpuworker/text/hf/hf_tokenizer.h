// SPDX-License-Identifier: Apache-2.0
//
// HfTokenizer: a tokenizer.json of Hugging Face's `tokenizers`, with byte-pair encoding. Llama 3
// and Qwen encode at byte level. Llama 2 and Mistral encode characters with byte fallback. It gives
// the ids that the package gives. A file that asks for anything not known here is refused.
//
//   text -> added tokens -> normalizer -> pre-tokenizer -> byte-pair encoding -> ids
//
// Thread-safety: const use is safe. Errors: INVALID_ARGUMENT naming the file, the field and the
// remedy.
#ifndef QUIRE_GPUWORKER_TEXT_HF_HF_TOKENIZER_H_
#define QUIRE_GPUWORKER_TEXT_HF_HF_TOKENIZER_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/text/hf/added_tokens.h"
#include "gpuworker/text/hf/bpe.h"
#include "gpuworker/text/hf/normalizer.h"
#include "gpuworker/text/hf/pre_tokenizer.h"
#include "gpuworker/text/hf/token_decoder.h"
#include "gpuworker/text/text_coder.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class HfTokenizer final : public TextCoder {
 public:
  /// Reads the object of a tokenizer.json; `name` starts every message.
  static StatusOr<HfTokenizer> Parse(const nlohmann::json& json, const std::string& name);

  /// Added tokens are found in the text. Bytes that are no UTF-8 count as U+FFFD. INVALID_ARGUMENT
  /// for text that a regular expression of the file gives up on.
  StatusOr<std::vector<TokenId>> Encode(std::string_view text) const override;
  /// Special tokens stand for nothing.
  StatusOr<std::string> Decode(std::span<const TokenId> ids) const override;
  StatusOr<std::string> BytesOf(TokenId id, bool first) const override;
  bool IsSpecial(TokenId id) const override;
  /// Tokens that the file's post-processor puts before a text.
  const std::vector<TokenId>& starts() const override { return starts_; }
  /// Empty: the file does not say which of its tokens that is.
  const std::vector<TokenId>& ends() const override { return ends_; }
  size_t vocab_size() const override { return tokens_.size(); }

  /// The id of a token as the file spells it, added ones included.
  std::optional<TokenId> Find(std::string_view token) const;

 private:
  friend class HfTokenizerParser;

  Status EncodeNormal(std::string_view text, bool starts_input, BpeCache* cache,
                      std::vector<TokenId>* ids) const;
  Status EncodeSection(Section section, BpeCache* cache, std::vector<TokenId>* ids) const;
  Status CheckKnown(TokenId id) const;

  std::vector<std::string> tokens_;  ///< By id; empty: no token.
  std::vector<bool> special_;        ///< By id.
  TextMap<TokenId> added_ids_;
  AddedTokenFinder added_;             ///< Found in the text as it comes.
  AddedTokenFinder added_normalized_;  ///< Found after the normalizer.
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  TokenDecoder decoder_;
  std::vector<TokenId> starts_;
  std::vector<TokenId> ends_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_HF_TOKENIZER_H_
