// SPDX-License-Identifier: Apache-2.0
//
// Filters, tests, methods and functions that chat templates call, with the meaning that Jinja and
// Python give them. Thread-safety: pure functions.
#ifndef QUIRE_GPUWORKER_TEXT_JINJA_BUILTINS_H_
#define QUIRE_GPUWORKER_TEXT_JINJA_BUILTINS_H_

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "gpuworker/text/jinja/value.h"

namespace quire::worker::jinja {

/// True for a filter that ApplyFilter knows; likewise for tests.
bool IsFilter(std::string_view name);
bool IsTest(std::string_view name);

/// `value | name(arguments)`. INVALID_ARGUMENT for a value that the filter is not for.
StatusOr<Value> ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments);
/// `value is name(arguments)`.
StatusOr<bool> ApplyTest(std::string_view name, const Value& value, const Arguments& arguments);

/// `value.name`: an entry of a dictionary, an attribute of a namespace, or a method of text, lists
/// and dictionaries. Undefined when there is none.
Value Attribute(const Value& value, const std::string& name);
/// `value[index]`. Undefined when there is none.
StatusOr<Value> Item(const Value& value, const Value& index);

/// What `for` runs over: items of a list, keys of a dictionary, characters of text.
/// INVALID_ARGUMENT for anything else.
StatusOr<List> Items(const Value& value);

/// The functions range, namespace and dict, raise_exception, and strftime_now, which formats
/// `now_seconds` (since 1970, UTC).
void AddFunctions(int64_t now_seconds, Dictionary* globals);

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_JINJA_BUILTINS_H_
