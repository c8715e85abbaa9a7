// SPDX-License-Identifier: Apache-2.0
//
// ChatFlags: which chat template text goes through. Commands that read text share them.
#ifndef QUIRE_APPS_KIT_WORKER_CHAT_FLAGS_H_
#define QUIRE_APPS_KIT_WORKER_CHAT_FLAGS_H_

#include <string>

#include "apps/kit/worker/local_worker.h"
#include "quire/status.h"

namespace CLI {
class App;
}

namespace quire::cli {

struct ChatFlags {
  std::string file;    ///< Template in place of the checkpoint's; empty: the checkpoint's.
  bool plain = false;  ///< No template: text is read as it is.
};

/// Adds --chat-template and --no-chat-template, which exclude each other.
void AddChatFlags(CLI::App& command, ChatFlags* flags);

/// Gives `local` the template of the flags, or that of its checkpoint where it has one.
/// INVALID_ARGUMENT naming the file, the place and the remedy. FAILED_PRECONDITION for a file
/// without a tokenizer.
Status LoadChat(const ChatFlags& flags, const std::string& model_directory, LocalWorker* local);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_WORKER_CHAT_FLAGS_H_
