// SPDX-License-Identifier: Apache-2.0
//
// Filters, tests and functions that chat templates use, with the meaning that Jinja and
// transformers give them. Thread-safety: pure functions; AddFunctions as its frame.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_BUILTINS_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_BUILTINS_H_

#include <cstdint>
#include <string_view>

#include "gpuworker/text/chat/jinja/frame.h"
#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

using Filter = StatusOr<Value> (*)(const Value& value, const Arguments& arguments);
using Test = bool (*)(const Value& value, const Arguments& arguments);

/// `value | name`. Null for an unknown filter.
Filter FindFilter(std::string_view name);
/// `value is name`. Null for an unknown test.
Test FindTest(std::string_view name);
/// True for a test with one argument.
bool TakesArgument(std::string_view test);

/// Adds namespace(), dict(), range(), raise_exception() and strftime_now() to the innermost scope.
/// The last formats `now_seconds`, counted from 1970 in UTC.
void AddFunctions(int64_t now_seconds, Frame* frame);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_BUILTINS_H_
