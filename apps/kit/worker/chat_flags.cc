// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/worker/chat_flags.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace quire::cli {
namespace {

StatusOr<std::optional<worker::ChatTemplate>> FindChat(const ChatFlags& flags,
                                                       const std::string& model_directory) {
  if (flags.file.empty()) return worker::ChatTemplate::Find(model_directory);
  QUIRE_ASSIGN_OR_RETURN(worker::ChatTemplate chat,
                         worker::ChatTemplate::Load(flags.file, model_directory));
  return std::optional(std::move(chat));
}

}  // namespace

void AddChatFlags(CLI::App& command, ChatFlags* flags) {
  CLI::Option* const file =
      command
          .add_option("--chat-template", flags->file,
                      "File with the chat template (Jinja), in place of the model's own")
          ->type_name("FILE");
  command
      .add_flag("--no-chat-template", flags->plain,
                "Read text as it is, also where the model has a chat template")
      ->excludes(file);
}

Status LoadChat(const ChatFlags& flags, const std::string& model_directory, LocalWorker* local) {
  if (flags.plain) return OkStatus();
  if (!flags.file.empty()) {
    QUIRE_RETURN_IF_ERROR(local->NeedsTokenizer("leave --chat-template away"));
  }
  if (local->tokenizer == nullptr) return OkStatus();
  auto chat = FindChat(flags, model_directory);
  if (!chat.ok()) {
    return Status(chat.status().code(),
                  std::string(Message(chat.status())) +
                      "; give another template with --chat-template FILE, or read text as it is "
                      "with --no-chat-template");
  }
  local->chat = *std::move(chat);
  return OkStatus();
}

}  // namespace quire::cli
