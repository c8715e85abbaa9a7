// SPDX-License-Identifier: Apache-2.0
//
// PreTokenizer: the second step of a tokenizer.json. It divides text into pieces, across whose
// bounds no token reaches. Known are Split, ByteLevel, Metaspace, Digits and Sequence.
// Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_HF_PRE_TOKENIZER_H_
#define QUIRE_GPUWORKER_TEXT_HF_PRE_TOKENIZER_H_

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "quire/status.h"

namespace quire::worker {

class JsonFields;

/// Text between two added tokens.
struct Section {
  std::string text;           ///< Valid UTF-8.
  bool starts_input = false;  ///< Nothing stands before it.
};

using Pieces = std::vector<std::string_view>;

class PreTokenizer {
 public:
  /// Leaves a section in one piece.
  PreTokenizer() = default;
  /// Reads the field `pre_tokenizer`; null is one that leaves sections whole. INVALID_ARGUMENT for
  /// a kind or a field that is not known.
  static StatusOr<PreTokenizer> Parse(const nlohmann::json& json, const std::string& name);

  /// Tokens are spelled in the 256 characters of GPT-2 that stand for bytes.
  bool byte_level() const { return byte_level_; }
  /// Rewrites `*section` and returns its pieces in order, views into it. None is empty.
  StatusOr<Pieces> Divide(Section* section) const;

 private:
  using Rewrite = std::function<void(Section*)>;
  using Split = std::function<Status(std::string_view, Pieces*)>;

  Status Add(const nlohmann::json& json, const std::string& name);
  Status AddSplit(const JsonFields& fields);
  Status AddByteLevel(const JsonFields& fields);
  Status AddMetaspace(const JsonFields& fields);
  /// A rewriting after a split would change every piece of it, which no known tokenizer does.
  Status AddRewrite(Rewrite rewrite, const JsonFields& fields);

  bool byte_level_ = false;
  std::vector<Rewrite> rewrites_;  ///< All come before the splits.
  std::vector<Split> splits_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_PRE_TOKENIZER_H_
