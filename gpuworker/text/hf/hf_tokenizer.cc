// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/hf_tokenizer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/utf8.h"
#include "common/json/json.h"

namespace quire::worker {
namespace {

constexpr uint32_t kLargestId = 1 << 24;

const nlohmann::json& NullJson() {
  static const nlohmann::json null;
  return null;
}

}  // namespace

/// Builds an HfTokenizer from JSON.
class HfTokenizerParser {
 public:
  HfTokenizerParser(const nlohmann::json& json, const std::string& name)
      : name_(name), fields_(json, name) {}

  StatusOr<HfTokenizer> Parse() {
    QUIRE_RETURN_IF_ERROR(fields_.String("version", "").status());
    for (const char* const setting : {"truncation", "padding"}) {
      if (fields_.Has(setting))
        return fields_.Error(setting, "must be null: text is neither cut nor filled up");
    }
    QUIRE_ASSIGN_OR_RETURN(out_.normalizer_,
                           Normalizer::Parse(Field("normalizer"), NameOf("normalizer")));
    QUIRE_ASSIGN_OR_RETURN(out_.pre_tokenizer_,
                           PreTokenizer::Parse(Field("pre_tokenizer"), NameOf("pre_tokenizer")));
    QUIRE_ASSIGN_OR_RETURN(
        out_.bpe_, Bpe::Parse(Field("model"), out_.pre_tokenizer_.byte_level(), NameOf("model")));
    QUIRE_ASSIGN_OR_RETURN(out_.decoder_, TokenDecoder::Parse(Field("decoder"), NameOf("decoder")));
    out_.tokens_ = out_.bpe_.tokens();
    out_.special_.resize(out_.tokens_.size());
    QUIRE_RETURN_IF_ERROR(ReadAddedTokens());
    QUIRE_RETURN_IF_ERROR(ReadPostProcessor(Field("post_processor"), NameOf("post_processor")));
    QUIRE_RETURN_IF_ERROR(fields_.CheckAllRead());
    return std::move(out_);
  }

 private:
  const nlohmann::json& Field(const char* field) {
    const nlohmann::json* const found = fields_.Find(field);
    return found != nullptr ? *found : NullJson();
  }
  std::string NameOf(const char* field) const { return name_ + ": " + field; }

  Status ReadAddedTokens() {
    const nlohmann::json& list = Field("added_tokens");
    if (list.is_null()) return OkStatus();
    if (!list.is_array()) return fields_.Error("added_tokens", "must be a list");
    for (const nlohmann::json& entry : list) {
      if (!entry.is_object()) return fields_.Error("added_tokens", "must hold objects");
      QUIRE_ASSIGN_OR_RETURN(const AddedToken token,
                             ReadAddedToken(JsonFields(entry, NameOf("added_tokens"))));
      QUIRE_RETURN_IF_ERROR(AddToken(token));
    }
    return OkStatus();
  }

  static StatusOr<AddedToken> ReadAddedToken(const JsonFields& fields) {
    AddedToken token;
    QUIRE_ASSIGN_OR_RETURN(const uint32_t id, fields.UInt("id", 0, kLargestId));
    token.id = static_cast<TokenId>(id);
    QUIRE_ASSIGN_OR_RETURN(token.content, fields.String("content", ""));
    if (token.content.empty())
      return fields.Error("content", "must not be empty, as it is for the id ", id);
    QUIRE_ASSIGN_OR_RETURN(token.special, fields.Bool("special", false));
    QUIRE_ASSIGN_OR_RETURN(token.normalized, fields.Bool("normalized", false));
    QUIRE_ASSIGN_OR_RETURN(token.single_word, fields.Bool("single_word", false));
    QUIRE_ASSIGN_OR_RETURN(token.lstrip, fields.Bool("lstrip", false));
    QUIRE_ASSIGN_OR_RETURN(token.rstrip, fields.Bool("rstrip", false));
    QUIRE_RETURN_IF_ERROR(fields.CheckAllRead());
    return token;
  }

  Status AddToken(const AddedToken& token) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= out_.tokens_.size()) {
      out_.tokens_.resize(id + 1);
      out_.special_.resize(id + 1);
    }
    std::string& known = out_.tokens_[id];
    if (!known.empty() && known != token.content) {
      return fields_.Error("added_tokens", "gives the id ", token.id, " to \"", token.content,
                           "\", but the vocabulary has \"", known, "\" there");
    }
    known = token.content;
    out_.special_[id] = token.special;
    out_.added_ids_[token.content] = token.id;
    if (!token.normalized) {
      out_.added_.Add(token.content, token);
      return OkStatus();
    }
    QUIRE_ASSIGN_OR_RETURN(const std::string text, out_.normalizer_.Apply(token.content));
    if (!text.empty()) out_.added_normalized_.Add(text, token);
    return OkStatus();
  }

  Status ReadPostProcessor(const nlohmann::json& json, const std::string& name) {
    if (json.is_null()) return OkStatus();
    if (!json.is_object()) return InvalidArgument(name, " must be an object");
    const JsonFields fields(json, name);
    QUIRE_ASSIGN_OR_RETURN(const std::string type, fields.String("type", ""));
    if (type == "ByteLevel") return OkStatus();  // It is about offsets.
    if (type == "Sequence") {
      const nlohmann::json* const list = fields.Find("processors");
      if (list == nullptr || !list->is_array()) return fields.Error("processors", "must be a list");
      for (const nlohmann::json& step : *list) QUIRE_RETURN_IF_ERROR(ReadPostProcessor(step, name));
      return fields.CheckAllRead();
    }
    if (type != "TemplateProcessing") {
      return fields.Error("type", "is \"", type,
                          "\"; known are TemplateProcessing, ByteLevel, Sequence");
    }
    fields.Find("pair");  // Template for two texts, which are never given here.
    QUIRE_RETURN_IF_ERROR(ReadTemplate(fields));
    return fields.CheckAllRead();
  }

  /// A list of special tokens around one {"Sequence": {"id": "A"}}.
  Status ReadTemplate(const JsonFields& fields) {
    const nlohmann::json* const single = fields.Find("single");
    const nlohmann::json* const tokens = fields.Find("special_tokens");
    if (single == nullptr || !single->is_array()) return fields.Error("single", "must be a list");
    size_t texts = 0;
    std::vector<TokenId> after;
    for (const nlohmann::json& part : *single) {
      if (!part.is_object() || part.size() != 1)
        return fields.Error("single", "must hold objects of one field");
      if (part.contains("Sequence")) {
        ++texts;
        continue;
      }
      QUIRE_RETURN_IF_ERROR(
          AddTemplateToken(fields, part, tokens, texts == 0 ? &out_.starts_ : &after));
    }
    if (!after.empty())
      return fields.Error("single", "ends texts with tokens, which is not done here");
    return texts == 1 ? OkStatus()
                      : fields.Error("single", "must hold the text once, not ", texts, " times");
  }

  static Status AddTemplateToken(const JsonFields& fields, const nlohmann::json& part,
                                 const nlohmann::json* tokens, std::vector<TokenId>* ids) {
    const auto special = part.find("SpecialToken");
    if (special == part.end() || !special->is_object() || !special->contains("id") ||
        !(*special)["id"].is_string()) {
      return fields.Error("single", "must hold SpecialToken and Sequence");
    }
    const std::string name = (*special)["id"].get<std::string>();
    const auto list = tokens != nullptr && tokens->is_object() ? tokens->find(name)
                                                               : nlohmann::json::const_iterator();
    if (tokens == nullptr || !tokens->is_object() || list == tokens->end() || !list->is_object() ||
        !list->contains("ids") || !(*list)["ids"].is_array()) {
      return fields.Error("special_tokens", "has no ids of \"", name, "\"");
    }
    for (const nlohmann::json& id : (*list)["ids"]) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > kLargestId) {
        return fields.Error("special_tokens", "has an id of \"", name, "\" that is none");
      }
      ids->push_back(id.get<TokenId>());
    }
    return OkStatus();
  }

  const std::string name_;
  const JsonFields fields_;
  HfTokenizer out_;
};

StatusOr<HfTokenizer> HfTokenizer::Parse(const nlohmann::json& json, const std::string& name) {
  if (!json.is_object()) return InvalidArgument(name, ": not a JSON object");
  return HfTokenizerParser(json, name).Parse();
}

StatusOr<std::vector<TokenId>> HfTokenizer::Encode(std::string_view text) const {
  std::string whole;
  if (FirstInvalidUtf8(text)) {
    whole = ReplaceInvalidUtf8(text);
    text = whole;
  }
  std::vector<TokenId> ids;
  BpeCache cache;
  for (const TextSpan& span : added_.Divide(text)) {
    if (span.token) {
      ids.push_back(*span.token);
    } else {
      QUIRE_RETURN_IF_ERROR(EncodeNormal(span.text, span.text.data() == text.data(), &cache, &ids));
    }
  }
  return ids;
}

Status HfTokenizer::EncodeNormal(std::string_view text, bool starts_input, BpeCache* cache,
                                 std::vector<TokenId>* ids) const {
  QUIRE_ASSIGN_OR_RETURN(const std::string normal, normalizer_.Apply(std::string(text)));
  for (const TextSpan& span : added_normalized_.Divide(normal)) {
    if (span.token) {
      ids->push_back(*span.token);
    } else {
      const bool starts = starts_input && span.text.data() == normal.data();
      QUIRE_RETURN_IF_ERROR(EncodeSection({std::string(span.text), starts}, cache, ids));
    }
  }
  return OkStatus();
}

Status HfTokenizer::EncodeSection(Section section, BpeCache* cache,
                                  std::vector<TokenId>* ids) const {
  QUIRE_ASSIGN_OR_RETURN(const Pieces pieces, pre_tokenizer_.Divide(&section));
  for (const std::string_view piece : pieces) bpe_.Encode(piece, cache, ids);
  return OkStatus();
}

Status HfTokenizer::CheckKnown(TokenId id) const {
  if (id >= 0 && static_cast<size_t>(id) < tokens_.size() && !tokens_[id].empty())
    return OkStatus();
  return InvalidArgument("token id ", id, " is not in the vocabulary of ", tokens_.size());
}

StatusOr<std::string> HfTokenizer::Decode(std::span<const TokenId> ids) const {
  std::vector<std::string> tokens;
  for (const TokenId id : ids) {
    QUIRE_RETURN_IF_ERROR(CheckKnown(id));
    if (!special_[id]) tokens.push_back(tokens_[id]);
  }
  return decoder_.Decode(std::move(tokens));
}

bool HfTokenizer::IsSpecial(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < special_.size() && special_[id];
}

StatusOr<std::string> HfTokenizer::BytesOf(TokenId id, bool first) const {
  QUIRE_RETURN_IF_ERROR(CheckKnown(id));
  return special_[id] ? std::string() : decoder_.BytesOf(tokens_[id], first);
}

std::optional<TokenId> HfTokenizer::Find(std::string_view token) const {
  const auto found = added_ids_.find(token);
  return found != added_ids_.end() ? std::optional(found->second) : bpe_.Find(token);
}

}  // namespace quire::worker
