// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/chat_prompt.h"

#include <algorithm>
#include <string>

namespace quire::worker {
namespace {

/// Stands where a document ends in a message. Characters for private use are in no real text.
constexpr std::string_view kPlaceOfDocumentEnd = "\xEE\x80\x80quire\xEE\x80\x81";

/// Ends a document. Pre-tokenizers divide text behind line ends, and no merge spans one.
constexpr std::string_view kEndOfDocument = "\n\n";

/// 26 July 2024, a day that published templates show where they are not told another one.
constexpr int64_t kDayOfDocuments = 1'721'952'000;

/// The text of `rendered` before and behind the mark.
struct Halves {
  std::string before, behind;
};

StatusOr<Halves> DivideAtMark(const std::string& rendered, size_t mark) {
  if (mark == rendered.npos) {
    return InvalidArgument("the chat template does not show the beginning of the user's message; ",
                           "a document cannot stand there");
  }
  return Halves{rendered.substr(0, mark), rendered.substr(mark + kPlaceOfDocumentEnd.size())};
}

}  // namespace

StatusOr<std::vector<TokenId>> DocumentInChat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                              std::string_view text) {
  std::string content(text);
  content.append(kEndOfDocument).append(kPlaceOfDocumentEnd);
  const ChatMessage message{"user", std::move(content)};
  QUIRE_ASSIGN_OR_RETURN(const std::string rendered,
                         chat.Render({&message, 1}, {.now_seconds = kDayOfDocuments}));
  QUIRE_ASSIGN_OR_RETURN(const Halves halves,
                         DivideAtMark(rendered, rendered.rfind(kPlaceOfDocumentEnd)));
  return tokenizer.Encode(halves.before);
}

StatusOr<std::vector<TokenId>> QuestionInChat(const ChatTemplate& chat, const Tokenizer& tokenizer,
                                              std::vector<ChatMessage> messages) {
  const auto has_role = [](std::string_view role) {
    return [role](const ChatMessage& message) { return message.role == role; };
  };
  if (std::ranges::any_of(messages, has_role("system"))) {
    return InvalidArgument("a message of the system cannot follow a stored document; ",
                           "put its words into the user's message");
  }
  const auto first = std::ranges::find_if(messages, has_role("user"));
  if (first == messages.end()) return InvalidArgument("a question needs a message of the user");
  first->content.insert(0, kPlaceOfDocumentEnd);
  QUIRE_ASSIGN_OR_RETURN(const std::string rendered,
                         chat.Render(messages, {.now_seconds = kDayOfDocuments}));
  QUIRE_ASSIGN_OR_RETURN(const Halves halves,
                         DivideAtMark(rendered, rendered.find(kPlaceOfDocumentEnd)));
  // Behind the end of the document, since tokenizers may put a space before a text.
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> end,
                         tokenizer.Encode(std::string(kEndOfDocument)));
  QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                         tokenizer.Encode(std::string(kEndOfDocument) + halves.behind));
  if (ids.size() < end.size() || !std::equal(end.begin(), end.end(), ids.begin()))
    return InvalidArgument("a question must not begin with a line end");
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(end.size()));
  return ids;
}

StatusOr<std::vector<TokenId>> ConversationInChat(const ChatTemplate& chat,
                                                  const Tokenizer& tokenizer,
                                                  std::span<const ChatMessage> messages,
                                                  int64_t now_seconds) {
  QUIRE_ASSIGN_OR_RETURN(const std::string rendered,
                         chat.Render(messages, {.now_seconds = now_seconds}));
  return tokenizer.Encode(rendered);
}

}  // namespace quire::worker
