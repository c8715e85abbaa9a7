// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/template.h"

#include <utility>

#include "common/base/utf8.h"
#include "gpuworker/text/chat/jinja/builtins.h"
#include "gpuworker/text/chat/jinja/lexer.h"
#include "gpuworker/text/chat/jinja/statements.h"
#include "gpuworker/text/chat/jinja/word_reader.h"

namespace quire::worker::jinja {

StatusOr<Template> Template::Parse(std::string_view text) {
  if (const auto wrong = FirstInvalidUtf8(text))
    return InvalidArgument("byte ", *wrong, ": not UTF-8");
  QUIRE_ASSIGN_OR_RETURN(std::vector<Word> words, Lex(text));
  QUIRE_ASSIGN_OR_RETURN(StatementPtr body, ParseTemplate(WordReader(std::move(words))));
  return Template(std::move(body));
}

StatusOr<std::string> Template::Render(const Dictionary& variables, int64_t now_seconds,
                                       const Limits& limits) const {
  Frame frame(limits);
  AddFunctions(now_seconds, &frame);
  for (const auto& [name, value] : variables.entries()) frame.Set(name, value);
  const Status status = body_->Run(frame).status();
  if (status.ok()) return frame.ExchangeOutput("");
  if (const auto place = frame.error_place()) {
    return Annotate(status, "line ", place->line, ", column ", place->column);
  }
  return status;
}

}  // namespace quire::worker::jinja
