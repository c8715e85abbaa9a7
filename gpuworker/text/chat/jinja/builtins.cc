// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gpuworker/text/chat/jinja/json_writer.h"
#include "gpuworker/text/chat/jinja/methods.h"
#include "gpuworker/text/chat/jinja/operators.h"
#include "gpuworker/text/hf/unicode.h"

namespace quire::worker::jinja {
namespace {

constexpr size_t kMostNumbers = size_t{1} << 16;  ///< In a range.

using Result = StatusOr<Value>;

Result Default(const Value& value, const Arguments& arguments) {
  const bool has = arguments.Get(1, "boolean").IsTrue() ? value.IsTrue() : !value.IsUndefined();
  if (has) return value;
  const Value given = arguments.Get(0, "default_value");
  return given.IsUndefined() ? Value::Of(std::string()) : given;
}

Result First(const Value& value, const Arguments&) { return Item(value, Value::Of(int64_t{0})); }
Result Last(const Value& value, const Arguments&) { return Item(value, Value::Of(int64_t{-1})); }

Result Join(const Value& value, const Arguments& arguments) {
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const std::string separator = arguments.Get(0, "d").ToText();
  const Value attribute = arguments.Get(1, "attribute");
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (!attribute.IsUndefined()) {
      QUIRE_ASSIGN_OR_RETURN(item, Attribute(item, attribute.ToText()));
    }
    out += (i > 0 ? separator : "") + item.ToText();
    QUIRE_RETURN_IF_ERROR(CheckTextBytes(out.size()));
  }
  return Value::Of(std::move(out));
}

Result Length(const Value& value, const Arguments&) {
  if (const std::string* const text = value.AsText()) {
    const auto is_first = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    return Value::Of(int64_t{std::ranges::count_if(*text, is_first)});
  }
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  return Value::Of(static_cast<int64_t>(items.size()));
}

Result ToList(const Value& value, const Arguments&) {
  QUIRE_ASSIGN_OR_RETURN(List items, Items(value));
  return Value::Of(std::move(items));
}

Result Reverse(const Value& value, const Arguments&) {
  return Slice(value, {Value(), Value(), Value::Of(int64_t{-1})});
}

/// map(attribute='name')
Result Map(const Value& value, const Arguments& arguments) {
  const Value attribute = arguments.Get("attribute");
  if (attribute.AsText() == nullptr || !arguments.positional.empty())
    return InvalidArgument("map() is known with attribute='NAME' only");
  QUIRE_ASSIGN_OR_RETURN(List items, Items(value));
  for (Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(item, Attribute(item, *attribute.AsText()));
  }
  return Value::Of(std::move(items));
}

/// selectattr('name', 'test', argument): keeps items whose attribute passes, or does not.
Result SelectByAttribute(const Value& value, const Arguments& arguments, bool wanted) {
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const std::string name = arguments.Get(0, "").ToText();
  const Value test_name = arguments.Get(1, "");
  const Test test = test_name.IsUndefined() ? nullptr : FindTest(test_name.ToText());
  if (test == nullptr && !test_name.IsUndefined())
    return InvalidArgument("the test '", test_name.ToText(), "' is not known");
  const Arguments rest{.positional = {arguments.Get(2, "")}, .named = {}};
  List kept;
  for (const Value& item : items) {
    QUIRE_ASSIGN_OR_RETURN(const Value subject, Attribute(item, name));
    const bool passes = test != nullptr ? test(subject, rest) : subject.IsTrue();
    if (passes == wanted) kept.push_back(item);
  }
  return Value::Of(std::move(kept));
}

Result ReplaceFilter(const Value& value, const Arguments& arguments) {
  return CallMethod(Value::Of(value.ToText()), "replace", arguments);
}

Result ToJson(const Value& value, const Arguments& arguments) {
  const Value given = arguments.Get("indent");
  const int64_t* const indent = given.AsInteger();
  QUIRE_ASSIGN_OR_RETURN(
      std::string json,
      WriteJson(value, indent != nullptr ? std::optional(std::clamp<int64_t>(*indent, 0, 16))
                                         : std::nullopt));
  return Value::Of(std::move(json));
}

Result Text(const Value& value, const Arguments&) { return Value::Of(value.ToText()); }

Result Trim(const Value& value, const Arguments& arguments) {
  return CallMethod(Value::Of(value.ToText()), "strip", arguments);
}

const std::map<std::string_view, Filter>& Filters() {
  using V = const Value&;
  using A = const Arguments&;
  static const std::map<std::string_view, Filter> filters = {
      {"default", Default},
      {"first", First},
      {"items", [](V value, A) { return Pairs(value); }},
      {"join", Join},
      {"last", Last},
      {"length", Length},
      {"list", ToList},
      {"lower", [](V value, A) -> Result { return Value::Of(Lower(value.ToText())); }},
      {"map", Map},
      {"rejectattr", [](V value, A args) { return SelectByAttribute(value, args, false); }},
      {"replace", ReplaceFilter},
      {"reverse", Reverse},
      {"safe", Text},
      {"selectattr", [](V value, A args) { return SelectByAttribute(value, args, true); }},
      {"string", Text},
      {"tojson", ToJson},
      {"trim", Trim},
      {"upper", [](V value, A) -> Result { return Value::Of(Upper(value.ToText())); }},
  };
  return filters;
}

bool IsEqual(const Value& value, const Arguments& arguments) {
  return value.Equals(arguments.Get(0, ""));
}
bool IsIn(const Value& value, const Arguments& arguments) {
  const auto contained = Contains(arguments.Get(0, ""), value);
  return contained.ok() && *contained;
}
bool IsBool(const Value& value, bool wanted) {
  return value.AsBool() != nullptr && *value.AsBool() == wanted;
}
bool IsNumber(const Value& value, const Arguments&) {
  return value.AsInteger() != nullptr || value.AsBool() != nullptr;
}
bool HasItems(const Value& value, const Arguments&) {
  return value.AsList() != nullptr || value.AsText() != nullptr || value.AsDictionary() != nullptr;
}

const std::map<std::string_view, Test>& Tests() {
  using V = const Value&;
  using A = const Arguments&;
  static const std::map<std::string_view, Test> tests = {
      {"boolean", [](V value, A) { return value.AsBool() != nullptr; }},
      {"defined", [](V value, A) { return !value.IsUndefined(); }},
      {"eq", IsEqual},
      {"equalto", IsEqual},
      {"false", [](V value, A) { return IsBool(value, false); }},
      {"in", IsIn},
      {"iterable", HasItems},
      {"mapping", [](V value, A) { return value.AsDictionary() != nullptr; }},
      {"ne", [](V value, A args) { return !IsEqual(value, args); }},
      {"none", [](V value, A) { return value.IsNone(); }},
      {"number", IsNumber},
      {"sequence", HasItems},
      {"string", [](V value, A) { return value.AsText() != nullptr; }},
      {"true", [](V value, A) { return IsBool(value, true); }},
      {"undefined", [](V value, A) { return value.IsUndefined(); }},
  };
  return tests;
}

Result Range(const Arguments& arguments) {
  std::array<int64_t, 3> bounds = {0, 0, 1};
  const size_t count = arguments.positional.size();
  if (count == 0 || count > bounds.size())
    return InvalidArgument("range() takes one to three numbers");
  for (size_t i = 0; i < count; ++i) {
    const int64_t* const number = arguments.positional[i].AsInteger();
    if (number == nullptr) return InvalidArgument("range() of ", arguments.positional[i].Kind());
    bounds[count == 1 ? 1 : i] = *number;
  }
  const auto [first, end, step] = bounds;
  if (step == 0) return InvalidArgument("the step of a range() is 0");
  List list;
  for (int64_t i = first; step > 0 ? i < end : i > end;) {
    if (list.size() == kMostNumbers)
      return ResourceExhausted("a range() has more than ", kMostNumbers, " numbers");
    list.push_back(Value::Of(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::Of(std::move(list));
}

Result RaiseException(const Arguments& arguments) {
  return InvalidArgument("the template refuses: ", arguments.Get(0, "message").ToText());
}

Result FormatTime(int64_t now_seconds, const Arguments& arguments) {
  const std::string format = arguments.Get(0, "format").ToText();
  const std::time_t now = now_seconds;
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 256> out{};
  return Value::Of(
      std::string(out.data(), std::strftime(out.data(), out.size(), format.c_str(), &parts)));
}

Dictionary Named(const Arguments& arguments) {
  Dictionary dictionary;
  for (const auto& [name, value] : arguments.named) dictionary.Set(name, value);
  return dictionary;
}

}  // namespace

Filter FindFilter(std::string_view name) {
  const auto found = Filters().find(name);
  return found != Filters().end() ? found->second : nullptr;
}

Test FindTest(std::string_view name) {
  const auto found = Tests().find(name);
  return found != Tests().end() ? found->second : nullptr;
}

bool TakesArgument(std::string_view test) {
  return test == "eq" || test == "equalto" || test == "ne" || test == "in";
}

void AddFunctions(int64_t now_seconds, Frame* frame) {
  frame->Set("dict", Value::Of(Function([](const Arguments& arguments) -> Result {
               return Value::Of(Named(arguments));
             })));
  frame->Set("namespace", Value::Of(Function([frame](const Arguments& arguments) -> Result {
               return frame->NewNamespace(Named(arguments));
             })));
  frame->Set("range", Value::Of(Function(Range)));
  frame->Set("raise_exception", Value::Of(Function(RaiseException)));
  frame->Set("strftime_now",
             Value::Of(Function([now_seconds](const Arguments& arguments) -> Result {
               return FormatTime(now_seconds, arguments);
             })));
}

}  // namespace quire::worker::jinja
