// SPDX-License-Identifier: Apache-2.0
//
// AddedTokens: tokens that a tokenizer.json lists beside its model, as `<|eot_id|>`. They are found
// in the text before anything else and never divided. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_HF_ADDED_TOKENS_H_
#define QUIRE_GPUWORKER_TEXT_HF_ADDED_TOKENS_H_

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "quire/key.h"

namespace quire::worker {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;      ///< Stands for no text.
  bool normalized = false;   ///< Is looked for in the normalized text.
  bool single_word = false;  ///< Only where no word character is next to it.
  bool lstrip = false;       ///< Takes the white space before it.
  bool rstrip = false;       ///< Takes the white space behind it.
};

/// A stretch of text: an added token, or what lies between two.
struct TextSpan {
  std::optional<TokenId> token;
  std::string_view text;
};

/// Finds tokens of one list, the longest first where several begin.
class AddedTokenFinder {
 public:
  /// Looks for `text`, which is not empty and stands for `token`. A later one of the same text
  /// wins.
  void Add(const std::string& text, const AddedToken& token);

  /// All of `text` in order. Spans are views into it; none is empty.
  std::vector<TextSpan> Divide(std::string_view text) const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  /// The longest token at the beginning of `text`; null when none begins there. `*bytes` gets its
  /// size.
  const AddedToken* At(std::string_view text, size_t* bytes) const;

  std::unordered_map<std::string, AddedToken, Hash, std::equal_to<>> tokens_;
  std::array<bool, 256> begins_{};  ///< By first byte.
  std::vector<size_t> sizes_;       ///< Sizes of tokens, each once, the largest first.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_ADDED_TOKENS_H_
