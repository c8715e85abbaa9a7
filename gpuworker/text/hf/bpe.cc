// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/bpe.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/json/json.h"
#include "gpuworker/text/hf/byte_alphabet.h"
#include "gpuworker/text/hf/unicode.h"

namespace quire::worker {
namespace {

constexpr std::string_view kMark = "\u2581";  ///< Stands for a space before a word.
constexpr int64_t kMostTokens = 1 << 24;

std::string FallbackToken(unsigned byte) {
  std::array<char, 7> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", byte & 0xff);
  return text.data();
}

/// A mark stands behind another character.
bool HoldsMarkInside(std::string_view token) {
  size_t begin = 0;
  while (token.substr(begin).starts_with(kMark)) begin += kMark.size();
  return token.substr(begin).find(kMark) != token.npos;
}

}  // namespace

const std::vector<TokenId>* BpeCache::Find(std::string_view piece) const {
  const auto found = kept_.find(piece);
  return found != kept_.end() ? &found->second : nullptr;
}

void BpeCache::Keep(std::string_view piece, std::vector<TokenId> ids) {
  if (kept_.size() < kMaxPieces) kept_.emplace(piece, std::move(ids));
}

/// Builds a Bpe from JSON.
class BpeParser {
 public:
  BpeParser(const nlohmann::json& json, bool byte_level, const std::string& name)
      : fields_(json, name) {
    bpe_.byte_level_ = byte_level;
  }

  StatusOr<Bpe> Parse() {
    QUIRE_RETURN_IF_ERROR(ReadSettings());
    QUIRE_RETURN_IF_ERROR(ReadVocabulary());
    QUIRE_RETURN_IF_ERROR(ReadMerges());
    QUIRE_RETURN_IF_ERROR(ReadUnknown());
    FindBytes();
    QUIRE_RETURN_IF_ERROR(fields_.CheckAllRead());
    return std::move(bpe_);
  }

 private:
  Status ReadSettings() {
    QUIRE_ASSIGN_OR_RETURN(const std::string type, fields_.String("type", "BPE"));
    if (type != "BPE") return fields_.Error("type", "is \"", type, "\"; only BPE is known");
    QUIRE_ASSIGN_OR_RETURN(bpe_.byte_fallback_, fields_.Bool("byte_fallback", false));
    QUIRE_ASSIGN_OR_RETURN(bpe_.fuse_unknown_, fields_.Bool("fuse_unk", false));
    QUIRE_ASSIGN_OR_RETURN(bpe_.ignore_merges_, fields_.Bool("ignore_merges", false));
    QUIRE_RETURN_IF_ERROR(fields_.Number("dropout", 0, 0, 0).status());
    for (const char* const affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      QUIRE_ASSIGN_OR_RETURN(const std::string text, fields_.String(affix, ""));
      if (!text.empty())
        return fields_.Error(affix, "is \"", text, "\"; tokens with affixes are not known");
    }
    return OkStatus();
  }

  Status ReadVocabulary() {
    const nlohmann::json* const vocabulary = fields_.Find("vocab");
    if (vocabulary == nullptr || !vocabulary->is_object())
      return fields_.Error("vocab", "must be an object");
    for (const auto& [token, id] : vocabulary->items()) {
      if (!id.is_number_unsigned() || id.get<int64_t>() >= kMostTokens) {
        return fields_.Error("vocab", "has \"", token, "\" with an id that is none");
      }
      const auto number = id.get<TokenId>();
      if (static_cast<size_t>(number) >= bpe_.tokens_.size()) bpe_.tokens_.resize(number + 1);
      if (!bpe_.tokens_[number].empty()) {
        return fields_.Error("vocab", "has the id ", number, " for \"", bpe_.tokens_[number],
                             "\" and \"", token, "\"");
      }
      bpe_.tokens_[number] = token;
      bpe_.ids_.emplace(token, number);
      if (!bpe_.byte_level_) continue;
      if (auto bytes = BytesOfSpelling(token))
        bpe_.ids_of_bytes_.emplace(*std::move(bytes), number);
    }
    return OkStatus();
  }

  Status ReadMerges() {
    const nlohmann::json* const merges = fields_.Find("merges");
    if (merges == nullptr || !merges->is_array()) return fields_.Error("merges", "must be a list");
    bpe_.merges_ = MergeTable(merges->size());
    bpe_.words_are_marked_ = !bpe_.byte_level_ && bpe_.Find(kMark).has_value();
    for (size_t rank = 0; rank < merges->size(); ++rank) {
      QUIRE_RETURN_IF_ERROR(AddMerge((*merges)[rank], static_cast<uint32_t>(rank)));
    }
    return OkStatus();
  }

  /// Two tokens, as a list or, in older files, with a space between them.
  static std::optional<std::pair<std::string, std::string>> PartsOf(const nlohmann::json& merge) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
    }
    if (!merge.is_string()) return std::nullopt;
    const std::string text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) return std::nullopt;
    return std::pair(text.substr(0, space), text.substr(space + 1));
  }

  Status AddMerge(const nlohmann::json& merge, uint32_t rank) {
    const auto parts = PartsOf(merge);
    if (!parts) return fields_.Error("merges", "has entry ", rank, ", which is not two tokens");
    const std::string joined = parts->first + parts->second;
    const auto left = bpe_.Find(parts->first);
    const auto right = bpe_.Find(parts->second);
    const auto result = bpe_.Find(joined);
    if (!left || !right || !result) {
      return fields_.Error("merges", "joins \"", parts->first, "\" and \"", parts->second,
                           "\" to \"", joined, "\"; one of them is not in the vocabulary");
    }
    bpe_.merges_.Add(*left, *right, {.rank = rank, .joined = *result});
    if (HoldsMarkInside(joined)) bpe_.words_are_marked_ = false;
    return OkStatus();
  }

  Status ReadUnknown() {
    QUIRE_ASSIGN_OR_RETURN(const std::string token, fields_.String("unk_token", ""));
    if (token.empty()) return OkStatus();
    bpe_.unknown_ = bpe_.Find(token);
    return bpe_.unknown_
               ? OkStatus()
               : fields_.Error("unk_token", "is \"", token, "\", which is not in the vocabulary");
  }

  void FindBytes() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::string token =
          bpe_.byte_level_ ? SpellingOfByte(static_cast<unsigned char>(byte)) : FallbackToken(byte);
      bpe_.byte_ids_[byte] = bpe_.Find(token);
    }
  }

  const JsonFields fields_;
  Bpe bpe_;
};

StatusOr<Bpe> Bpe::Parse(const nlohmann::json& json, bool byte_level, const std::string& name) {
  if (!json.is_object()) return InvalidArgument(name, " must be an object");
  return BpeParser(json, byte_level, name).Parse();
}

std::optional<TokenId> Bpe::Find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found != ids_.end() ? std::optional(found->second) : std::nullopt;
}

void Bpe::Encode(std::string_view piece, BpeCache* cache, std::vector<TokenId>* ids) const {
  while (!piece.empty()) {
    const size_t end = words_are_marked_ && !ignore_merges_ ? EndOfWord(piece) : piece.size();
    const std::string_view word = piece.substr(0, end);
    piece.remove_prefix(end);
    if (word.size() > BpeCache::kMaxPieceBytes) {
      EncodeWhole(word, ids);
      continue;
    }
    if (const std::vector<TokenId>* const kept = cache->Find(word)) {
      ids->insert(ids->end(), kept->begin(), kept->end());
      continue;
    }
    const size_t before = ids->size();
    EncodeWhole(word, ids);
    cache->Keep(word, std::vector(ids->begin() + static_cast<std::ptrdiff_t>(before), ids->end()));
  }
}

size_t Bpe::EndOfWord(std::string_view text) const {
  size_t begin = 0;
  while (text.substr(begin).starts_with(kMark)) begin += kMark.size();
  const size_t end = text.find(kMark, begin);
  return end != text.npos ? end : text.size();
}

void Bpe::EncodeWhole(std::string_view piece, std::vector<TokenId>* ids) const {
  if (ignore_merges_) {
    const TextMap<TokenId>& whole = byte_level_ ? ids_of_bytes_ : ids_;
    if (const auto found = whole.find(piece); found != whole.end()) {
      ids->push_back(found->second);
      return;
    }
  }
  std::vector<TokenId> own = Start(piece);
  merges_.Apply(&own);
  ids->insert(ids->end(), own.begin(), own.end());
}

std::vector<TokenId> Bpe::Start(std::string_view piece) const {
  return byte_level_ ? StartAsBytes(piece) : StartAsCharacters(piece);
}

std::vector<TokenId> Bpe::StartAsBytes(std::string_view piece) const {
  std::vector<TokenId> ids;
  ids.reserve(piece.size());
  bool after_unknown = false;
  for (const char c : piece) {
    const std::optional<TokenId> id = byte_ids_[static_cast<unsigned char>(c)];
    if (id) {
      ids.push_back(*id);
    } else if (unknown_ && !(fuse_unknown_ && after_unknown)) {
      ids.push_back(*unknown_);
    }
    after_unknown = !id;
  }
  return ids;
}

std::vector<TokenId> Bpe::StartAsCharacters(std::string_view piece) const {
  std::vector<TokenId> ids;
  ids.reserve(piece.size());
  bool after_unknown = false;
  while (!piece.empty()) {
    const std::string_view character = piece.substr(0, FirstCharacter(piece).bytes);
    piece.remove_prefix(character.size());
    const std::optional<TokenId> id = Find(character);
    const bool known = id || SpellInBytes(character, &ids);
    if (id) ids.push_back(*id);
    if (!known && unknown_ && !(fuse_unknown_ && after_unknown)) ids.push_back(*unknown_);
    after_unknown = !known;
  }
  return ids;
}

bool Bpe::SpellInBytes(std::string_view character, std::vector<TokenId>* ids) const {
  const auto id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (!byte_fallback_ || !std::ranges::all_of(character, [&](char c) { return id(c).has_value(); }))
    return false;
  for (const char c : character) ids->push_back(*id(c));
  return true;
}

}  // namespace quire::worker
