// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/methods.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "gpuworker/text/chat/jinja/operators.h"
#include "gpuworker/text/hf/unicode.h"

namespace quire::worker::jinja {
namespace {

/// White space as str.strip() of Python has it.
bool IsPythonSpace(int32_t code) { return IsWhiteSpace(code) || (code >= 0x1C && code <= 0x1F); }

std::string Mapped(std::string text, int (*map)(int)) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x80) c = static_cast<char>(map(c));
  }
  return text;
}

List SplitWords(std::string_view text) {
  List words;
  size_t begin = 0, at = 0;
  const auto end_word = [&] {
    if (at > begin) words.push_back(Value::Of(std::string(text.substr(begin, at - begin))));
  };
  while (at < text.size()) {
    const Character character = FirstCharacter(text.substr(at));
    if (IsPythonSpace(character.code)) {
      end_word();
      begin = at + character.bytes;
    }
    at += character.bytes;
  }
  end_word();
  return words;
}

List SplitBy(std::string_view text, std::string_view separator, int64_t most) {
  List parts;
  for (size_t at = 0; most != 0 && (at = text.find(separator)) != text.npos; --most) {
    parts.push_back(Value::Of(std::string(text.substr(0, at))));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(Value::Of(std::string(text)));
  return parts;
}

/// The text argument; INVALID_ARGUMENT for another kind.
StatusOr<std::string> TextArgument(const Arguments& arguments, size_t index,
                                   std::string_view name) {
  const Value value = arguments.Get(index, name);
  if (value.AsText() == nullptr)
    return InvalidArgument("argument ", index + 1, " must be text, not ", value.Kind());
  return *value.AsText();
}

StatusOr<Value> Strip(const std::string& text, const Arguments& arguments, bool left, bool right) {
  const Value set = arguments.Get(0, "chars");
  const bool given = !set.IsUndefined() && !set.IsNone();
  return Value::Of(Stripped(text, given ? std::optional(set.ToText()) : std::nullopt, left, right));
}

StatusOr<Value> Split(const std::string& text, const Arguments& arguments) {
  const Value separator = arguments.Get(0, "sep"), most = arguments.Get(1, "maxsplit");
  if (separator.IsUndefined() || separator.IsNone()) return Value::Of(SplitWords(text));
  if (separator.AsText() == nullptr || separator.AsText()->empty())
    return InvalidArgument("split() needs a text to split by");
  const int64_t* const count = most.AsInteger();
  return Value::Of(SplitBy(text, *separator.AsText(), count != nullptr ? *count : -1));
}

StatusOr<Value> Replace(const std::string& text, const Arguments& arguments) {
  QUIRE_ASSIGN_OR_RETURN(const std::string from, TextArgument(arguments, 0, "old"));
  QUIRE_ASSIGN_OR_RETURN(const std::string to, TextArgument(arguments, 1, "new"));
  const Value most = arguments.Get(2, "count");
  const int64_t count = most.AsInteger() != nullptr ? *most.AsInteger() : -1;
  QUIRE_ASSIGN_OR_RETURN(std::string replaced, Replaced(text, from, to, count));
  return Value::Of(std::move(replaced));
}

using TextMethod = StatusOr<Value> (*)(const std::string&, const Arguments&);

const std::map<std::string_view, TextMethod>& TextMethods() {
  using T = const std::string&;
  using A = const Arguments&;
  using Result = StatusOr<Value>;
  static const std::map<std::string_view, TextMethod> methods = {
      {"endswith",
       [](T text, A arguments) -> Result {
         QUIRE_ASSIGN_OR_RETURN(const std::string end, TextArgument(arguments, 0, "suffix"));
         return Value::Of(text.ends_with(end));
       }},
      {"lower", [](T text, A) -> Result { return Value::Of(Lower(text)); }},
      {"lstrip", [](T text, A arguments) { return Strip(text, arguments, true, false); }},
      {"replace", Replace},
      {"rstrip", [](T text, A arguments) { return Strip(text, arguments, false, true); }},
      {"split", Split},
      {"startswith",
       [](T text, A arguments) -> Result {
         QUIRE_ASSIGN_OR_RETURN(const std::string begin, TextArgument(arguments, 0, "prefix"));
         return Value::Of(text.starts_with(begin));
       }},
      {"strip", [](T text, A arguments) { return Strip(text, arguments, true, true); }},
      {"upper", [](T text, A) -> Result { return Value::Of(Upper(text)); }},
  };
  return methods;
}

StatusOr<Value> CallOfDictionary(const Value& value, std::string_view name,
                                 const Arguments& arguments) {
  const Dictionary& dictionary = *value.AsDictionary();
  if (name == "items") return Pairs(value);
  if (name == "get") {
    const Value* const found = dictionary.Find(arguments.Get(0, "key").ToText());
    const Value absent = arguments.Get(1, "default");
    return found != nullptr ? *found : absent.IsUndefined() ? Value::None() : absent;
  }
  List list;
  for (const auto& [key, held] : dictionary.entries())
    list.push_back(name == "keys" ? Value::Of(key) : held);
  return Value::Of(std::move(list));
}

bool IsMethodOfDictionaries(std::string_view name) {
  return name == "get" || name == "items" || name == "keys" || name == "values";
}

}  // namespace

std::string Upper(std::string text) { return Mapped(std::move(text), std::toupper); }
std::string Lower(std::string text) { return Mapped(std::move(text), std::tolower); }

std::string Stripped(std::string_view text, const std::optional<std::string>& set, bool left,
                     bool right) {
  const auto goes = [&](Character character, std::string_view bytes) {
    return set ? set->find(bytes) != set->npos : IsPythonSpace(character.code);
  };
  while (left && !text.empty()) {
    const Character first = FirstCharacter(text);
    if (!goes(first, text.substr(0, first.bytes))) break;
    text.remove_prefix(first.bytes);
  }
  while (right && !text.empty()) {
    const Character last = LastCharacter(text);
    if (!goes(last, text.substr(text.size() - last.bytes))) break;
    text.remove_suffix(last.bytes);
  }
  return std::string(text);
}

StatusOr<std::string> Replaced(std::string_view text, const std::string& from,
                               const std::string& to, int64_t most) {
  if (from.empty()) return InvalidArgument("an empty text cannot be replaced");
  std::string out;
  for (size_t at = 0; most != 0 && (at = text.find(from)) != text.npos; --most) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
    QUIRE_RETURN_IF_ERROR(CheckTextBytes(out.size()));
  }
  out += text;
  return out;
}

StatusOr<Value> Pairs(const Value& value) {
  const Dictionary* const dictionary = value.AsDictionary();
  if (dictionary == nullptr) return InvalidArgument(value.Kind(), " has no pairs");
  List pairs;
  for (const auto& [key, held] : dictionary->entries())
    pairs.push_back(Value::Of(List{Value::Of(key), held}));
  return Value::Of(std::move(pairs));
}

StatusOr<Value> Attribute(const Value& value, std::string_view name) {
  if (value.IsUndefined()) return InvalidArgument("'", name, "' of an undefined value");
  const Dictionary* const entries =
      value.AsNamespace() != nullptr ? value.AsNamespace() : value.AsDictionary();
  const Value* const found = entries != nullptr ? entries->Find(name) : nullptr;
  return found != nullptr ? *found : Value();
}

StatusOr<Value> CallMethod(const Value& value, std::string_view name, const Arguments& arguments) {
  if (const std::string* const text = value.AsText()) {
    const auto found = TextMethods().find(name);
    if (found != TextMethods().end()) return found->second(*text, arguments);
  }
  if (value.AsDictionary() != nullptr && IsMethodOfDictionaries(name))
    return CallOfDictionary(value, name, arguments);
  return InvalidArgument(value.Kind(), " has no method '", name, "' here");
}

}  // namespace quire::worker::jinja
