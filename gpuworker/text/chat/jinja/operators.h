// SPDX-License-Identifier: Apache-2.0
//
// Operators of expressions, with Python's meaning. Errors: INVALID_ARGUMENT for values of the wrong
// kind, RESOURCE_EXHAUSTED for a result that is too large. Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_OPERATORS_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_OPERATORS_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

/// RESOURCE_EXHAUSTED for a text of so many bytes, before it is made.
Status CheckTextBytes(uint64_t bytes);

/// Signs: + - * // % ~
StatusOr<Value> Combine(std::string_view sign, const Value& left, const Value& right);
/// Signs: == != < > <= >=
StatusOr<Value> Compare(std::string_view sign, const Value& left, const Value& right);

/// Items of a list, keys of a dictionary, or characters of a text. Empty for undefined.
StatusOr<List> Items(const Value& value);
/// `item in value`
StatusOr<bool> Contains(const Value& value, const Value& item);
/// `value[index]`. Undefined when there is none.
StatusOr<Value> Item(const Value& value, const Value& index);
/// `value[begin:end:step]`. Undefined bounds are absent.
StatusOr<Value> Slice(const Value& value, const std::array<Value, 3>& bounds);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_OPERATORS_H_
