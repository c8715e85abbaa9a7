// SPDX-License-Identifier: Apache-2.0
//
// Bpe: byte-pair encoding with the vocabulary and the merges of a tokenizer.json (Sennrich et al.,
// 2016). The earliest merge that applies joins its neighbours first, from left to right.
//
// A piece starts as single bytes (byte level) or as single characters. A character that is no token
// is spelled in the tokens <0x00> .. <0xFF> with byte_fallback, else it is the unknown token.
// Thread-safety: const use is safe; a BpeCache belongs to one thread.
#ifndef QUIRE_GPUWORKER_TEXT_HF_BPE_H_
#define QUIRE_GPUWORKER_TEXT_HF_BPE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpuworker/text/hf/merge_table.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Hash of texts that finds views without copying them.
struct TextHash : std::hash<std::string_view> {
  using is_transparent = void;
};
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

/// Tokens of short pieces that have been encoded. Words come again and again.
class BpeCache {
 public:
  static constexpr size_t kMaxPieceBytes = 48;

  /// Null when `piece` has not been kept.
  const std::vector<TokenId>* Find(std::string_view piece) const;
  void Keep(std::string_view piece, std::vector<TokenId> ids);

 private:
  static constexpr size_t kMaxPieces = 1 << 16;

  TextMap<std::vector<TokenId>> kept_;
};

class Bpe {
 public:
  /// Reads the field `model`. INVALID_ARGUMENT for another type, a setting that is not known, or a
  /// merge whose parts or result are no tokens.
  static StatusOr<Bpe> Parse(const nlohmann::json& json, bool byte_level, const std::string& name);

  /// Appends the tokens of `piece`, which is valid UTF-8.
  void Encode(std::string_view piece, BpeCache* cache, std::vector<TokenId>* ids) const;

  /// Tokens as the file spells them, by id; empty for an id that the model does not have.
  const std::vector<std::string>& tokens() const { return tokens_; }
  /// The id of a token as the file spells it.
  std::optional<TokenId> Find(std::string_view token) const;

 private:
  friend class BpeParser;

  void EncodeWhole(std::string_view piece, std::vector<TokenId>* ids) const;
  /// The tokens that `piece` starts as.
  std::vector<TokenId> Start(std::string_view piece) const;
  std::vector<TokenId> StartAsBytes(std::string_view piece) const;
  std::vector<TokenId> StartAsCharacters(std::string_view piece) const;
  bool SpellInBytes(std::string_view character, std::vector<TokenId>* ids) const;
  /// End of the first part of `text` that no token reaches across.
  size_t EndOfWord(std::string_view text) const;

  bool byte_level_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  bool ignore_merges_ = false;
  /// No merge joins a token with one that begins with U+2581: text may be divided before it.
  bool words_are_marked_ = false;
  std::optional<TokenId> unknown_;
  std::vector<std::string> tokens_;
  TextMap<TokenId> ids_;           ///< As the file spells them.
  TextMap<TokenId> ids_of_bytes_;  ///< As they stand in text, where that differs.
  std::array<std::optional<TokenId>, 256>
      byte_ids_;  ///< Tokens of single bytes, or of <0x00> .. <0xFF>.
  MergeTable merges_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_HF_BPE_H_
