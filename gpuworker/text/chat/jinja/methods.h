// SPDX-License-Identifier: Apache-2.0
//
// Attributes and methods of values. Methods are those of Python that chat templates call.
// Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_METHODS_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_METHODS_H_

#include <optional>
#include <string>
#include <string_view>

#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

/// `value.name`: an entry of a dictionary or an attribute of a namespace. Undefined when there is
/// none. INVALID_ARGUMENT for an undefined value.
StatusOr<Value> Attribute(const Value& value, std::string_view name);

/// `value.name(arguments)`. Text: strip, lstrip, rstrip, upper, lower, startswith, endswith,
/// replace, split. Dictionaries: get, items, keys, values. INVALID_ARGUMENT for another one.
StatusOr<Value> CallMethod(const Value& value, std::string_view name, const Arguments& arguments);

/// `text` without the characters of `set` at its ends; without white space when there is no set.
std::string Stripped(std::string_view text, const std::optional<std::string>& set, bool left,
                     bool right);
/// `text` with `to` for `from`, the first `most` times; always when `most` is negative.
StatusOr<std::string> Replaced(std::string_view text, const std::string& from,
                               const std::string& to, int64_t most);
/// Upper and lower case of ASCII letters. Other characters stay.
std::string Upper(std::string text);
std::string Lower(std::string text);
/// Pairs of key and value. INVALID_ARGUMENT for another kind than a dictionary.
StatusOr<Value> Pairs(const Value& value);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_METHODS_H_
