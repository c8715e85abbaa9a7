// SPDX-License-Identifier: Apache-2.0
//
// Template: the part of Jinja 2 that chat templates are written in (statements.h, expressions.h,
// builtins.h). It renders as transformers does: trim_blocks, lstrip_blocks, no escaping of HTML.
// A block, filter, test or sign that is not known here is refused by Parse.
//
// Ownership: a shared handle. Thread-safety: const use is safe.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_TEMPLATE_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gpuworker/text/chat/jinja/frame.h"
#include "gpuworker/text/chat/jinja/node.h"
#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

class Template {
 public:
  /// INVALID_ARGUMENT: "line 3, column 7: ...", or for text that is not UTF-8.
  static StatusOr<Template> Parse(std::string_view text);

  /// The text for these variables, whose text is valid UTF-8. `now_seconds` is the time that
  /// strftime_now() shows, since 1970 in UTC. INVALID_ARGUMENT with line and column when the
  /// template raises an exception or computes with values of the wrong kind. RESOURCE_EXHAUSTED
  /// past one of the limits.
  StatusOr<std::string> Render(const Dictionary& variables, int64_t now_seconds,
                               const Limits& limits = {}) const;

 private:
  explicit Template(StatementPtr body) : body_(std::move(body)) {}

  std::shared_ptr<const Statement> body_;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_TEMPLATE_H_
