// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/pattern.h"

#include <string>

#include "common/json/json.h"

namespace quire::worker {

StatusOr<Regex> ParsePattern(const JsonFields& fields) {
  const nlohmann::json* const pattern = fields.Find("pattern");
  if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1 ||
      !pattern->begin()->is_string()) {
    return fields.Error("pattern", "must be {\"String\": text} or {\"Regex\": expression}");
  }
  const std::string text = pattern->begin()->get<std::string>();
  const std::string& kind = pattern->begin().key();
  if (text.empty()) return fields.Error("pattern", "must not be empty");
  if (kind == "String") return Regex::Literal(text);
  if (kind != "Regex")
    return fields.Error("pattern", "is a ", kind, "; known are String and Regex");
  auto regex = Regex::Compile(text);
  if (!regex.ok()) return fields.Error("pattern", "does not compile: ", Message(regex.status()));
  return regex;
}

}  // namespace quire::worker
