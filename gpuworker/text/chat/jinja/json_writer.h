// SPDX-License-Identifier: Apache-2.0
//
// The filter tojson: json.dumps(value, ensure_ascii=False) of Python. Thread-safety: pure.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_JSON_WRITER_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_JSON_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

/// All on one line without `indent`; otherwise each level is indented by so many blanks.
/// INVALID_ARGUMENT for an undefined value, a function or a namespace.
StatusOr<std::string> WriteJson(const Value& value, std::optional<int64_t> indent);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_JSON_WRITER_H_
