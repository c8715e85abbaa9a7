// SPDX-License-Identifier: Apache-2.0
//
// TokenDecoder: the last step of a tokenizer.json, from tokens back to text. Known are ByteLevel,
// ByteFallback, Replace, Fuse, Strip, Metaspace and Sequence. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_HF_TOKEN_DECODER_H_
#define QUIRE_GPUWORKER_TEXT_HF_TOKEN_DECODER_H_

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::worker {

class JsonFields;

class TokenDecoder {
 public:
  /// Reads the field `decoder`. INVALID_ARGUMENT for a kind or a field that is not known.
  static StatusOr<TokenDecoder> Parse(const nlohmann::json& json, const std::string& name);

  /// The text of all tokens of an answer, as the file spells them. U+FFFD stands for bytes that are
  /// no character.
  std::string Decode(std::vector<std::string> tokens) const;

  /// The bytes of one token within an answer; a character may end in a later one. `first`: nothing
  /// came before it.
  std::string BytesOf(std::string_view token, bool first) const;

 private:
  using Step = std::function<void(std::vector<std::string>*)>;

  Status Add(const nlohmann::json& json, const std::string& name);
  Status AddStep(const std::string& type, const JsonFields& fields);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool byte_fallback_ = false;
  std::vector<std::pair<std::string, std::string>> replaced_;  ///< Text, and what stands for it.
  std::string stripped_;      ///< Text stripped from the start of an answer; may be empty.
  size_t most_stripped_ = 0;  ///< Most times that it is stripped.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_TOKEN_DECODER_H_
