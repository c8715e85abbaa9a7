// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/companions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/json/json.h"

namespace quire::worker {
namespace {

constexpr size_t kMaxFileBytes = 64 << 20;

/// Fields of a tokenizer_config.json that change neither tokens nor text here.
constexpr std::string_view kHarmlessOfText[] = {
    // Read by CheckTokenizerConfig, or names of tokens, whose ids the tokenizer has.
    "added_tokens_decoder", "additional_special_tokens", "bos_token", "eos_token", "mask_token",
    "pad_token", "unk_token",
    // Where others cut texts and fill batches. A text too long for the model is refused here.
    "max_length", "model_max_length", "padding_side", "stride", "truncation_side",
    "truncation_strategy",
    // Conversations: ChatTemplate reads the first.
    "chat_template", "use_default_system_prompt",
    // Spaces before signs, which answers keep as the model wrote them.
    "clean_up_tokenization_spaces",
    // Classes and files of others' code.
    "backend", "errors", "extra_special_tokens", "is_local", "legacy", "model_input_names",
    "name_or_path", "sp_model_kwargs", "special_tokens_map_file", "tokenizer_class",
    "tokenizer_file", "use_fast"};

/// Fields that stand for other tokens, or other text of them, when they are true.
constexpr const char* kMustBeFalseOfText[] = {"add_eos_token", "add_prefix_space", "do_lower_case",
                                              "split_special_tokens",
                                              "spaces_between_special_tokens"};

/// The text of `path`; nullopt when there is no such file.
StatusOr<std::optional<std::string>> ReadIfThere(const std::string& path) {
  auto text = ReadTextFile(path, kMaxFileBytes);
  if (IsNotFound(text.status())) return std::optional<std::string>();
  QUIRE_RETURN_IF_ERROR(text.status());
  return std::optional<std::string>(*std::move(text));
}

StatusOr<nlohmann::json> ParseObject(std::string_view text, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(nlohmann::json object, ParseJson(text, name));
  if (!object.is_object()) return InvalidArgument(name, ": not a JSON object");
  return object;
}

std::optional<TokenId> Id(const nlohmann::json& value) {
  const bool is_id = value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX;
  return is_id ? std::optional(value.get<TokenId>()) : std::nullopt;
}

/// The id or the list of ids that `field` is; empty when it is absent or null. INVALID_ARGUMENT
/// when it is neither.
StatusOr<std::vector<TokenId>> IdsOf(const JsonFields& fields, const char* field) {
  std::vector<TokenId> ids;
  const nlohmann::json* const value = fields.Find(field);
  if (value == nullptr) return ids;
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const nlohmann::json& item : list) {
    const auto id = Id(item);
    if (!id) return fields.Error(field, "is ", value->dump(), ": must be an id or a list of ids");
    ids.push_back(*id);
  }
  return ids;
}

std::string Shown(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text;
}

bool Shares(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return std::ranges::find_first_of(a, b) != a.end();
}

/// The text of a token, which is a string or an object around it.
std::string Content(const nlohmann::json& token) {
  const nlohmann::json& text = token.is_object() ? token.value("content", nlohmann::json()) : token;
  return text.is_string() ? text.get<std::string>() : "";
}

/// Ids of the added tokens that are `text`.
std::vector<TokenId> AddedIds(const nlohmann::json& config, const std::string& text) {
  std::vector<TokenId> ids;
  const auto added = config.find("added_tokens_decoder");
  if (text.empty() || added == config.end() || !added->is_object()) return ids;
  for (const auto& [id, token] : added->items()) {
    const auto number = Id(nlohmann::json::parse(id, nullptr, /*allow_exceptions=*/false));
    if (number && Content(token) == text) ids.push_back(*number);
  }
  return ids;
}

/// INVALID_ARGUMENT when `theirs` are some, and none of them ends a sequence of `known`.
Status CheckEnds(const JsonFields& fields, const char* field, const std::vector<TokenId>& theirs,
                 const std::vector<TokenId>& known) {
  if (theirs.empty() || known.empty() || Shares(theirs, known)) return OkStatus();
  return fields.Error(field, "is ", Shown(theirs), ", but eos_token_id of config.json is ",
                      Shown(known), "; take both files from the same checkpoint");
}

}  // namespace

Status CheckGenerationConfig(std::string_view text, const std::string& name, ModelConfig* config) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json object, ParseObject(text, name));
  const JsonFields fields(object, name);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> starts, IdsOf(fields, "bos_token_id"));
  if (!starts.empty() && config->bos_id && starts != std::vector{*config->bos_id}) {
    return fields.Error("bos_token_id", "is ", Shown(starts), ", but that of config.json is ",
                        *config->bos_id, "; take both files from the same checkpoint");
  }
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> ends, IdsOf(fields, "eos_token_id"));
  QUIRE_RETURN_IF_ERROR(CheckEnds(fields, "eos_token_id", ends, config->eos_ids));
  for (const TokenId id : ends) {
    auto& known = config->eos_ids;
    if (std::ranges::find(known, id) == known.end()) known.push_back(id);
  }
  return OkStatus();
}

Status CheckTokenizerConfig(std::string_view text, const std::string& name,
                            const std::vector<TokenId>& ends) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json object, ParseObject(text, name));
  const std::string end = Content(object.value("eos_token", nlohmann::json()));
  return CheckEnds(JsonFields(object, name), "eos_token", AddedIds(object, end), ends);
}

Status CheckTextSettings(std::string_view text, const std::string& name, bool begins_texts) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json object, ParseObject(text, name));
  const JsonFields fields(object, name);
  QUIRE_ASSIGN_OR_RETURN(const bool begins, fields.Bool("add_bos_token", begins_texts));
  if (begins != begins_texts) {
    return fields.Error("add_bos_token", "is ", begins ? "true" : "false",
                        ", but tokenizer.json puts ", begins_texts ? "a token" : "nothing",
                        " before a text; make both files agree");
  }
  for (const char* const field : kMustBeFalseOfText) {
    QUIRE_ASSIGN_OR_RETURN(const bool set, fields.Bool(field, false));
    if (set) {
      return fields.Error(field, "is true, which is not done here; send token ids, or take the ",
                          "field out if it is wrong");
    }
  }
  return fields.CheckAllRead(kHarmlessOfText);
}

Status CheckTextSettingsOf(const std::string& directory, const Tokenizer& tokenizer) {
  const std::string path = directory + "/tokenizer_config.json";
  QUIRE_ASSIGN_OR_RETURN(const auto text, ReadIfThere(path));
  return text ? CheckTextSettings(*text, path, !tokenizer.starts().empty()) : OkStatus();
}

Status ReadCompanions(const std::string& directory, ModelConfig* config) {
  const std::string generation = directory + "/generation_config.json";
  QUIRE_ASSIGN_OR_RETURN(const auto generated, ReadIfThere(generation));
  if (generated) {
    QUIRE_RETURN_IF_ERROR(CheckGenerationConfig(*generated, generation, config));
  }
  const std::string tokenizer = directory + "/tokenizer_config.json";
  QUIRE_ASSIGN_OR_RETURN(const auto tokens, ReadIfThere(tokenizer));
  return tokens ? CheckTokenizerConfig(*tokens, tokenizer, config->eos_ids) : OkStatus();
}

Status CheckTokenizer(const Tokenizer& tokenizer, const std::string& name,
                      const ModelConfig& config) {
  if (tokenizer.vocab_size() > config.vocab_size) {
    return InvalidArgument(name, ": has ", tokenizer.vocab_size(),
                           " tokens, but vocab_size of config.json is ", config.vocab_size,
                           "; take both files from the same checkpoint");
  }
  const std::vector<TokenId>& starts = tokenizer.starts();
  if (config.bos_id && !starts.empty() && starts != std::vector{*config.bos_id}) {
    return InvalidArgument(name, ": texts begin with ", Shown(starts),
                           ", but bos_token_id of config.json is ", *config.bos_id);
  }
  const std::vector<TokenId>& ends = tokenizer.ends();
  if (ends.empty() || config.eos_ids.empty() || Shares(ends, config.eos_ids)) return OkStatus();
  return InvalidArgument(name, ": sequences end with ", Shown(ends),
                         ", but eos_token_id of config.json is ", Shown(config.eos_ids));
}

}  // namespace quire::worker
