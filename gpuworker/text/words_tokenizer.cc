// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/words_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/json/json.h"

namespace quire::worker {
namespace {

constexpr TokenId kFirstByte = 2;
constexpr TokenId kFirstPiece = kFirstByte + 256;

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Bytes of the piece that `text`, which is not empty, begins with.
size_t PieceLength(std::string_view text) {
  const size_t space = text[0] == ' ' ? 1 : 0;
  if (space == text.size() || text[space] == ' ') return 1;  // A space that starts no piece.
  size_t end = space;
  while (end < text.size() && IsLetter(text[end])) ++end;
  return end > space ? end : space + 1;
}

/// The token that the vocabulary must hold at `id`, before the pieces.
std::string FixedToken(TokenId id) {
  if (id < kFirstByte) return id == 0 ? "<bos>" : "<eos>";
  std::array<char, 7> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>",
                static_cast<unsigned>(id - kFirstByte) & 0xff);
  return text.data();
}

/// The vocabulary, if it is an array of strings that begins as the format says.
StatusOr<std::vector<std::string>> ReadTokens(const JsonFields& fields) {
  const nlohmann::json* list = fields.Find("tokens");
  if (list == nullptr || !list->is_array() || list->size() < kFirstPiece) {
    return fields.Error("tokens", "must list <bos>, <eos>, the 256 bytes and the pieces");
  }
  std::vector<std::string> tokens;
  for (const auto& token : *list) {
    if (!token.is_string()) return fields.Error("tokens", "must be strings");
    tokens.push_back(token.get<std::string>());
  }
  for (TokenId id = 0; id < kFirstPiece; ++id) {
    if (tokens[id] != FixedToken(id)) {
      return fields.Error("tokens", "has \"", tokens[id], "\" as token ", id, ", must be ",
                          FixedToken(id));
    }
  }
  return tokens;
}

}  // namespace

StatusOr<WordsTokenizer> WordsTokenizer::Parse(const nlohmann::json& json,
                                               const std::string& name) {
  const JsonFields fields(json, name);
  QUIRE_ASSIGN_OR_RETURN(const std::string format, fields.String("format", ""));
  if (format != "quire-words") {
    return fields.Error(
        "format", "is \"", format,
        "\"; known are quire-words, and the files of Hugging Face, which have no such field");
  }
  QUIRE_RETURN_IF_ERROR(fields.UInt("version", 1, 1).status());
  QUIRE_RETURN_IF_ERROR(fields.UInt("bos_id", 0, 0).status());
  QUIRE_RETURN_IF_ERROR(fields.UInt("eos_id", 1, 1).status());
  QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> tokens, ReadTokens(fields));
  QUIRE_RETURN_IF_ERROR(fields.CheckAllRead());

  WordsTokenizer tokenizer;
  tokenizer.bytes_.resize(kFirstByte);
  for (int byte = 0; byte < 256; ++byte) {
    tokenizer.bytes_.push_back(std::string(1, static_cast<char>(byte)));
  }
  for (size_t id = kFirstPiece; id < tokens.size(); ++id) {
    const std::string& piece = tokens[id];
    if (piece.empty() || PieceLength(piece) != piece.size()) {
      return fields.Error("tokens", "has \"", piece, "\" as token ", id, ", which is not a piece");
    }
    if (!tokenizer.pieces_.emplace(piece, static_cast<TokenId>(id)).second) {
      return fields.Error("tokens", "has \"", piece, "\" twice");
    }
    tokenizer.bytes_.push_back(piece);
  }
  return tokenizer;
}

StatusOr<std::vector<TokenId>> WordsTokenizer::Encode(std::string_view text) const {
  std::vector<TokenId> ids;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, PieceLength(text));
    text.remove_prefix(piece.size());
    const auto it = pieces_.find(std::string(piece));
    if (it != pieces_.end()) {
      ids.push_back(it->second);
      continue;
    }
    for (const char c : piece) ids.push_back(kFirstByte + static_cast<unsigned char>(c));
  }
  return ids;
}

StatusOr<std::string> WordsTokenizer::Decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= bytes_.size()) {
      return InvalidArgument("token id ", id, " is outside the vocabulary of ", bytes_.size());
    }
    text += bytes_[id];
  }
  return text;
}

}  // namespace quire::worker
