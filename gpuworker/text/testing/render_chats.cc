// SPDX-License-Identifier: Apache-2.0
//
// render_chats TOKENIZER_JSON TOKENIZER_CONFIG_JSON: prints {"text", "ids"} or {"error"} for each
// line {"messages": [{"role", "content"}], "add_generation_prompt"}.
// tools/golden/make_chat_golden.py --check compares them with transformers.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/json/json.h"
#include "gpuworker/text/chat/chat_template.h"
#include "gpuworker/text/tokenizer.h"

namespace {

using quire::worker::ChatMessage;

std::vector<ChatMessage> MessagesOf(const nlohmann::json& line) {
  std::vector<ChatMessage> messages;
  for (const auto& message : line["messages"])
    messages.push_back({message["role"], message["content"]});
  return messages;
}

nlohmann::json Rendered(const quire::worker::ChatTemplate& chat,
                        const quire::worker::Tokenizer& tokenizer, const nlohmann::json& line) {
  const auto text = chat.Render(
      MessagesOf(line), {.add_generation_prompt = line["add_generation_prompt"].get<bool>()});
  if (!text.ok()) return {{"error", quire::Message(text.status())}};
  const auto ids = tokenizer.Encode(*text);
  if (!ids.ok()) return {{"error", quire::Message(ids.status())}};
  return {{"text", *text}, {"ids", *ids}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: render_chats TOKENIZER_JSON TOKENIZER_CONFIG_JSON < LINES\n";
    return 2;
  }
  const auto tokenizer = quire::worker::Tokenizer::Load(argv[1]);
  const auto config = quire::worker::ReadTextFile(argv[2], 1 << 20);
  if (!tokenizer.ok() || !config.ok()) {
    std::cerr << tokenizer.status() << "\n" << config.status() << "\n";
    return 1;
  }
  const auto chat = quire::worker::ChatTemplate::Parse(*config, argv[2]);
  if (!chat.ok() || !chat->has_value()) {
    std::cerr << chat.status() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << Rendered(**chat, *tokenizer, nlohmann::json::parse(line)).dump() << "\n";
  }
  return 0;
}
