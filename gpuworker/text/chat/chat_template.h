// SPDX-License-Identifier: Apache-2.0
//
// ChatTemplate: a conversation as the text that a chat model reads, by the Jinja template of its
// checkpoint. It gives the text of transformers' apply_chat_template.
//
// Ownership: a value. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_CHAT_TEMPLATE_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_CHAT_TEMPLATE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "gpuworker/text/chat/jinja/template.h"
#include "quire/status.h"

namespace quire::worker {

struct ChatMessage {
  std::string role;  ///< One of system, user and assistant.
  std::string content;
};

/// Variables of a rendering beside the messages.
struct ChatOptions {
  bool add_generation_prompt = true;  ///< Ends where the model's answer begins.
  int64_t now_seconds = 0;            ///< Time that the template may show: since 1970, in UTC.
};

class ChatTemplate {
 public:
  /// The template of a checkpoint: chat_template.jinja in `directory`, otherwise the field
  /// `chat_template` of its tokenizer_config.json. Nullopt when there is neither. INVALID_ARGUMENT
  /// naming the file, the line and the column.
  static StatusOr<std::optional<ChatTemplate>> Find(const std::string& directory);
  /// The Jinja template in `file`, with special tokens of the checkpoint in `directory`. NOT_FOUND
  /// when the file is not there, otherwise as above.
  static StatusOr<ChatTemplate> Load(const std::string& file, const std::string& directory);
  /// `tokenizer_config` is the text of a file called `name`; empty for none. Other errors start
  /// with `name`. Nullopt when it has no template.
  static StatusOr<std::optional<ChatTemplate>> Parse(std::string_view tokenizer_config,
                                                     const std::string& name);

  /// The text of a conversation. Invalid UTF-8 in it counts as U+FFFD. INVALID_ARGUMENT for no
  /// messages, an unknown role, and a conversation that the template refuses.
  StatusOr<std::string> Render(std::span<const ChatMessage> messages,
                               const ChatOptions& options) const;

 private:
  ChatTemplate(std::string name, jinja::Template source, jinja::Dictionary special_tokens)
      : name_(std::move(name)),
        source_(std::move(source)),
        special_tokens_(std::move(special_tokens)) {}
  static StatusOr<ChatTemplate> Make(std::string_view source, const std::string& name,
                                     jinja::Dictionary special_tokens);

  std::string name_;  ///< Starts errors.
  jinja::Template source_;
  jinja::Dictionary special_tokens_;  ///< bos_token and the like.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_CHAT_TEMPLATE_H_
