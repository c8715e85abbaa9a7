// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "common/base/utf8.h"
#include "common/json/json.h"

namespace quire::worker {
namespace {

constexpr size_t kMostConfigBytes = 64 << 20;
constexpr size_t kMostTemplateBytes = 1 << 20;
constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
constexpr std::array<std::string_view, 3> kRoles = {"system", "user", "assistant"};

/// The text of `path`; empty when there is no such file.
StatusOr<std::string> ReadOrEmpty(const std::string& path, size_t most) {
  auto text = ReadTextFile(path, most);
  if (IsNotFound(text.status())) return std::string();
  return text;
}

StatusOr<nlohmann::json> ParseConfig(std::string_view text, const std::string& name) {
  if (text.empty()) return nlohmann::json::object();
  QUIRE_ASSIGN_OR_RETURN(nlohmann::json config, ParseJson(text, name));
  if (!config.is_object()) return InvalidArgument(name, ": not a JSON object");
  return config;
}

/// Special tokens by their names in templates. A token is text, or an object with its content.
StatusOr<jinja::Dictionary> SpecialTokens(const nlohmann::json& config, const std::string& name) {
  jinja::Dictionary tokens;
  for (const char* const field : kSpecialTokens) {
    nlohmann::json token = config.value(field, nlohmann::json());
    if (token.is_object()) token = token.value("content", nlohmann::json());
    if (token.is_null()) continue;
    if (!token.is_string()) return InvalidArgument(name, ": ", field, " is not a token");
    tokens.Set(field, jinja::Value::Of(token.get<std::string>()));
  }
  return tokens;
}

/// The field chat_template: a template, or a list of named ones, which has one called "default".
StatusOr<std::optional<std::string>> TemplateOf(const nlohmann::json& config,
                                                const std::string& name) {
  const nlohmann::json field = config.value("chat_template", nlohmann::json());
  if (field.is_null()) return std::optional<std::string>();
  if (field.is_string()) return std::optional(field.get<std::string>());
  if (field.is_array()) {
    for (const nlohmann::json& entry : field) {
      if (!entry.is_object() || entry.value("name", nlohmann::json()) != "default") continue;
      const nlohmann::json text = entry.value("template", nlohmann::json());
      if (text.is_string()) return std::optional(text.get<std::string>());
    }
  }
  return InvalidArgument(name, ": chat_template must be a template, or a list of {name, template} ",
                         "with one called \"default\"");
}

Status CheckMessages(std::span<const ChatMessage> messages) {
  if (messages.empty()) return InvalidArgument("a conversation needs a message");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (std::ranges::find(kRoles, messages[i].role) == kRoles.end()) {
      return InvalidArgument("message ", i + 1, " has the role '",
                             ReplaceInvalidUtf8(CutUtf8(messages[i].role, 40)),
                             "'; known are system, user and assistant");
    }
  }
  return OkStatus();
}

jinja::Value ValueOf(std::span<const ChatMessage> messages) {
  jinja::List list;
  for (const ChatMessage& message : messages) {
    jinja::Dictionary entry;
    entry.Set("role", jinja::Value::Of(message.role));
    entry.Set("content", jinja::Value::Of(ReplaceInvalidUtf8(message.content)));
    list.push_back(jinja::Value::Of(std::move(entry)));
  }
  return jinja::Value::Of(std::move(list));
}

}  // namespace

StatusOr<ChatTemplate> ChatTemplate::Make(std::string_view source, const std::string& name,
                                          jinja::Dictionary special_tokens) {
  auto parsed = jinja::Template::Parse(source);
  QUIRE_RETURN_IF_ERROR(Annotate(parsed.status(), name));
  return ChatTemplate(name, *std::move(parsed), std::move(special_tokens));
}

StatusOr<std::optional<ChatTemplate>> ChatTemplate::Parse(std::string_view tokenizer_config,
                                                          const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json config, ParseConfig(tokenizer_config, name));
  QUIRE_ASSIGN_OR_RETURN(const auto source, TemplateOf(config, name));
  if (!source) return std::optional<ChatTemplate>();
  QUIRE_ASSIGN_OR_RETURN(jinja::Dictionary tokens, SpecialTokens(config, name));
  QUIRE_ASSIGN_OR_RETURN(ChatTemplate made,
                         Make(*source, name + ": chat_template", std::move(tokens)));
  return std::optional(std::move(made));
}

StatusOr<ChatTemplate> ChatTemplate::Load(const std::string& file, const std::string& directory) {
  QUIRE_ASSIGN_OR_RETURN(const std::string source, ReadTextFile(file, kMostTemplateBytes));
  const std::string name = directory + "/tokenizer_config.json";
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadOrEmpty(name, kMostConfigBytes));
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json config, ParseConfig(text, name));
  QUIRE_ASSIGN_OR_RETURN(jinja::Dictionary tokens, SpecialTokens(config, name));
  return Make(source, file, std::move(tokens));
}

StatusOr<std::optional<ChatTemplate>> ChatTemplate::Find(const std::string& directory) {
  auto own = Load(directory + "/chat_template.jinja", directory);
  if (own.ok()) return std::optional(*std::move(own));
  if (!IsNotFound(own.status())) return own.status();
  const std::string name = directory + "/tokenizer_config.json";
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadOrEmpty(name, kMostConfigBytes));
  return Parse(text, name);
}

StatusOr<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                           const ChatOptions& options) const {
  QUIRE_RETURN_IF_ERROR(CheckMessages(messages));
  jinja::Dictionary variables = special_tokens_;
  variables.Set("messages", ValueOf(messages));
  variables.Set("tools", jinja::Value::None());
  variables.Set("documents", jinja::Value::None());
  variables.Set("add_generation_prompt", jinja::Value::Of(options.add_generation_prompt));
  auto text = source_.Render(variables, options.now_seconds);
  if (text.ok()) return text;
  return Status(text.status().code(), name_ + ": " + std::string(Message(text.status())) +
                                          "; give another chat template, or none");
}

}  // namespace quire::worker
