// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer: text to token ids and back, by the tokenizer.json of a checkpoint. It reads the files
// of Hugging Face's `tokenizers` (hf_tokenizer.h) and those of the bundled models
// (words_tokenizer.h). Ownership: a shared handle. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_TOKENIZER_H_
#define QUIRE_GPUWORKER_TEXT_TOKENIZER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuworker/text/text_coder.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

class Tokenizer {
 public:
  /// Reads a tokenizer.json. NOT_FOUND when it is not there; INVALID_ARGUMENT naming the file, the
  /// field and what is wrong or not known here.
  static StatusOr<Tokenizer> Load(const std::string& path);
  /// Parses the text of one; `name` starts every message.
  static StatusOr<Tokenizer> Parse(std::string_view text, const std::string& name);

  /// These are TextCoder's.
  StatusOr<std::vector<TokenId>> Encode(std::string_view text) const {
    return coder_->Encode(text);
  }
  StatusOr<std::string> Decode(std::span<const TokenId> ids) const { return coder_->Decode(ids); }
  StatusOr<std::string> BytesOf(TokenId id, bool first) const { return coder_->BytesOf(id, first); }
  bool IsSpecial(TokenId id) const { return coder_->IsSpecial(id); }
  const std::vector<TokenId>& starts() const { return coder_->starts(); }
  size_t vocab_size() const { return coder_->vocab_size(); }

  /// Every token that ends a sequence: those that the file names, and what AddEnds was given.
  const std::vector<TokenId>& ends() const { return ends_; }
  /// Adds those that the model's configuration names.
  void AddEnds(std::span<const TokenId> ids);

 private:
  explicit Tokenizer(std::shared_ptr<const TextCoder> coder)
      : coder_(std::move(coder)), ends_(coder_->ends()) {}

  std::shared_ptr<const TextCoder> coder_;
  std::vector<TokenId> ends_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_TOKENIZER_H_
