// SPDX-License-Identifier: Apache-2.0
//
// HfTokenizer: a tokenizer.json of Hugging Face's `tokenizers`, with byte-pair encoding: byte level
// as Llama 3 and Qwen have it, or of characters with byte fallback as Llama 2 and Mistral have it.
// It gives the ids that the package gives. A file that asks for anything not known here is refused.
//
//   text -> added tokens -> normalizer -> pre-tokenizer -> byte-pair encoding -> ids
//
// Thread-safety: const use is safe. Errors: INVALID_ARGUMENT naming the file, the field and the
// remedy.
#ifndef QUIRE_GPUWORKER_TEXT_HF_TOKENIZER_H_
#define QUIRE_GPUWORKER_TEXT_HF_TOKENIZER_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/page/key.h"
#include "gpuworker/text/added_tokens.h"
#include "gpuworker/text/bpe.h"
#include "gpuworker/text/normalizer.h"
#include "gpuworker/text/pre_tokenizer.h"
#include "gpuworker/text/token_decoder.h"

namespace quire::worker {

class HfTokenizer {
 public:
  /// Reads the object of a tokenizer.json; `name` starts every message.
  static StatusOr<HfTokenizer> Parse(const nlohmann::json& json, const std::string& name);

  /// Ids of `text`, without those that a sequence begins and ends with. Added tokens are found in
  /// the text. Bytes that are no UTF-8 count as U+FFFD. INVALID_ARGUMENT for text that a regular
  /// expression of the file gives up on.
  StatusOr<std::vector<TokenId>> Encode(std::string_view text) const;

  /// The text of an answer. Special tokens stand for nothing. INVALID_ARGUMENT for an id that is no
  /// token.
  StatusOr<std::string> Decode(std::span<const TokenId> ids) const;
  /// Stands for no text: starts and ends of sequences, turns of a chat. False for an unknown id.
  bool IsSpecial(TokenId id) const;
  /// The bytes of one token within an answer (TokenDecoder::BytesOf). `first`: only special tokens
  /// came before it.
  StatusOr<std::string> BytesOf(TokenId id, bool first) const;

  /// What the file puts before and behind a text (its post-processor).
  const std::vector<TokenId>& prefix() const { return prefix_; }
  const std::vector<TokenId>& suffix() const { return suffix_; }
  /// The id of a token as the file spells it, added ones included.
  std::optional<TokenId> Find(std::string_view token) const;
  /// One more than the largest id.
  size_t vocab_size() const { return tokens_.size(); }

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
  std::vector<TokenId> prefix_;
  std::vector<TokenId> suffix_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_TOKENIZER_H_
