// SPDX-License-Identifier: Apache-2.0
//
// Template: the part of Jinja 2 that chat templates are written in. Blocks: if, for (with a
// condition, else, break and continue), set, macro, generation, raw. Filters, tests and methods:
// builtins.h. It renders as transformers does: trim_blocks, lstrip_blocks, no escaping. Everything
// else is refused when it is parsed.
//
// Thread-safety: const use is safe. Ownership: a shared handle.
#ifndef QUIRE_GPUWORKER_TEXT_JINJA_TEMPLATE_H_
#define QUIRE_GPUWORKER_TEXT_JINJA_TEMPLATE_H_

#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "gpuworker/text/jinja/node.h"
#include "gpuworker/text/jinja/value.h"

namespace quire::worker::jinja {

class Template {
 public:
  /// INVALID_ARGUMENT naming the line and what is wrong or not known there.
  static StatusOr<Template> Parse(std::string_view text);

  /// The text for these variables. INVALID_ARGUMENT when the template raises an exception or
  /// computes what cannot be; RESOURCE_EXHAUSTED when it does not end or prints without end.
  StatusOr<std::string> Render(const Dictionary& globals) const;

 private:
  explicit Template(std::shared_ptr<const Statement> body) : body_(std::move(body)) {}

  std::shared_ptr<const Statement> body_;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_JINJA_TEMPLATE_H_
