// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/jinja/builtins.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gpuworker/text/unicode.h"

namespace quire::worker::jinja {
namespace {

constexpr int64_t kMostItems = 1 << 20;  ///< Of a range.

Status WrongKind(std::string_view what, const Value& value) {
  return InvalidArgument(std::string(what), " is not for ", value.Kind());
}

std::vector<std::string> Characters(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const size_t bytes = FirstCharacter(text).bytes;
    characters.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

std::string Mapped(std::string text, int (*map)(int)) {
  for (char& c : text) {
    if (static_cast<signed char>(c) >= 0) c = static_cast<char>(map(c));
  }
  return text;
}
std::string Upper(std::string text) { return Mapped(std::move(text), std::toupper); }
std::string Lower(std::string text) { return Mapped(std::move(text), std::tolower); }
std::string Capitalized(const std::string& text) {
  return text.empty() ? text : Upper(text.substr(0, 1)) + Lower(text.substr(1));
}
std::string Title(const std::string& text) {
  std::string out = Lower(text);
  bool within = false;
  for (char& c : out) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (letter && !within) c = static_cast<char>(std::toupper(c));
    within = letter;
  }
  return out;
}

std::string Stripped(std::string_view text, const std::optional<std::string>& set, bool left,
                     bool right) {
  const auto goes = [&](Character c, std::string_view bytes) {
    return set ? set->find(bytes) != set->npos
               : IsWhiteSpace(c.code) || (c.code >= 0x1C && c.code <= 0x1F);
  };
  while (left && !text.empty()) {
    const Character c = FirstCharacter(text);
    if (!goes(c, text.substr(0, c.bytes))) break;
    text.remove_prefix(c.bytes);
  }
  while (right && !text.empty()) {
    const Character c = LastCharacter(text);
    if (!goes(c, text.substr(text.size() - c.bytes))) break;
    text.remove_suffix(c.bytes);
  }
  return std::string(text);
}

std::string Replaced(std::string_view text, const std::string& from, const std::string& to,
                     int64_t most) {
  if (from.empty()) return std::string(text);
  std::string out;
  for (size_t at = 0; most != 0 && (at = text.find(from)) != text.npos; --most) {
    out.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return out.append(text);
}

List SplitWords(std::string_view text) {
  List words;
  std::string word;
  for (const std::string& character : Characters(text)) {
    if (!IsWhiteSpace(FirstCharacter(character).code)) {
      word += character;
    } else if (!word.empty()) {
      words.push_back(Value::Of(std::exchange(word, "")));
    }
  }
  if (!word.empty()) words.push_back(Value::Of(word));
  return words;
}

List SplitBy(std::string_view text, const std::string& separator, int64_t most) {
  List parts;
  for (size_t at = 0; most != 0 && (at = text.find(separator)) != text.npos; --most) {
    parts.push_back(Value::Of(std::string(text.substr(0, at))));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(Value::Of(std::string(text)));
  return parts;
}

/// json.dumps(value, ensure_ascii=False) of Python, which puts a space behind commas and colons.
class JsonWriter {
 public:
  explicit JsonWriter(int indent) : indent_(indent) {}

  Status Write(const Value& value, int depth) {
    if (value.IsNone()) return Add("null");
    if (const bool* const flag = value.AsBool()) return Add(*flag ? "true" : "false");
    if (value.IsNumber()) return Add(value.ToText());
    if (const std::string* const text = value.AsText()) return Add(Quoted(*text));
    if (const List* const list = value.AsList()) {
      return WriteAll(list->size(), "[", "]", depth,
                      [&](size_t i) { return Write((*list)[i], depth + 1); });
    }
    const Dictionary* const dictionary = value.AsDictionary();
    if (dictionary == nullptr) return WrongKind("tojson", value);
    return WriteAll(dictionary->entries().size(), "{", "}", depth, [&](size_t i) {
      const auto& [key, held] = dictionary->entries()[i];
      out_ += Quoted(key) + ": ";
      return Write(held, depth + 1);
    });
  }

  std::string Take() { return std::move(out_); }

 private:
  static std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

  Status Add(std::string_view text) {
    out_ += text;
    return OkStatus();
  }

  template <typename Entry>
  Status WriteAll(size_t count, const char* open, const char* close, int depth,
                  const Entry& entry) {
    out_ += open;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_ += indent_ >= 0 ? "," : ", ";
      Break(depth + 1);
      QUIRE_RETURN_IF_ERROR(entry(i));
    }
    if (count > 0) Break(depth);
    out_ += close;
    return OkStatus();
  }

  void Break(int depth) {
    if (indent_ >= 0) out_ += "\n" + std::string(static_cast<size_t>(indent_ * depth), ' ');
  }

  const int indent_;  ///< Negative: all on one line.
  std::string out_;
};

StatusOr<Value> ToJson(const Value& value, const Arguments& arguments) {
  const int64_t* const indent = arguments.Get(99, "indent", Value()).AsInt();
  JsonWriter writer(indent != nullptr ? static_cast<int>(std::clamp<int64_t>(*indent, 0, 16)) : -1);
  QUIRE_RETURN_IF_ERROR(writer.Write(value, 0));
  return Value::Of(writer.Take());
}

StatusOr<Value> Length(const Value& value, const Arguments&) {
  if (const std::string* const text = value.AsText())
    return Value::Of(static_cast<int64_t>(Characters(*text).size()));
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  return Value::Of(static_cast<int64_t>(items.size()));
}

StatusOr<Value> Join(const Value& value, const Arguments& arguments) {
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const std::string separator = arguments.Get(0, "d", Value()).ToText();
  const Value attribute = arguments.Get(1, "attribute", Value());
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += separator;
    out += (attribute.IsUndefined() ? items[i] : Attribute(items[i], attribute.ToText())).ToText();
  }
  return Value::Of(out);
}

StatusOr<Value> Pairs(const Value& value, const Arguments&) {
  const Dictionary* const dictionary = value.AsDictionary();
  if (dictionary == nullptr) return WrongKind("items", value);
  List pairs;
  for (const auto& [key, held] : dictionary->entries())
    pairs.push_back(Value::Of(List{Value::Of(key), held}));
  return Value::Of(std::move(pairs));
}

StatusOr<Value> SortedPairs(const Value& value, const Arguments& arguments) {
  QUIRE_ASSIGN_OR_RETURN(const Value pairs, Pairs(value, arguments));
  List sorted = *pairs.AsList();
  std::ranges::stable_sort(
      sorted, {}, [](const Value& pair) { return Lower(pair.AsList()->front().ToText()); });
  return Value::Of(std::move(sorted));
}

StatusOr<Value> Map(const Value& value, const Arguments& arguments) {
  QUIRE_ASSIGN_OR_RETURN(List items, Items(value));
  const Value attribute = arguments.Get(99, "attribute", Value());
  const Value filter = arguments.Get(0, "", Value());
  for (Value& item : items) {
    if (!attribute.IsUndefined()) {
      item = Attribute(item, attribute.ToText());
      continue;
    }
    Arguments rest;
    rest.positional.assign(arguments.positional.begin() + (arguments.positional.empty() ? 0 : 1),
                           arguments.positional.end());
    QUIRE_ASSIGN_OR_RETURN(item, ApplyFilter(filter.ToText(), item, rest));
  }
  return Value::Of(std::move(items));
}

/// select, reject (of items) and selectattr, rejectattr (of an attribute of items).
StatusOr<Value> Select(const Value& value, const Arguments& arguments, bool of_attribute,
                       bool wanted) {
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const size_t first = of_attribute ? 1 : 0;
  const Value test = arguments.Get(first, "", Value());
  Arguments rest;
  for (size_t i = first + 1; i < arguments.positional.size(); ++i)
    rest.positional.push_back(arguments.positional[i]);
  List kept;
  for (const Value& item : items) {
    const Value subject =
        of_attribute ? Attribute(item, arguments.Get(0, "", Value()).ToText()) : item;
    bool passes = subject.IsTrue();
    if (!test.IsUndefined()) {
      QUIRE_ASSIGN_OR_RETURN(passes, ApplyTest(test.ToText(), subject, rest));
    }
    if (passes == wanted) kept.push_back(item);
  }
  return Value::Of(std::move(kept));
}

StatusOr<Value> First(const Value& value, const Arguments&) {
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  return items.empty() ? Value() : items.front();
}
StatusOr<Value> Last(const Value& value, const Arguments&) {
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  return items.empty() ? Value() : items.back();
}
StatusOr<Value> Reversed(const Value& value, const Arguments&) {
  QUIRE_ASSIGN_OR_RETURN(List items, Items(value));
  std::ranges::reverse(items);
  return Value::Of(std::move(items));
}
StatusOr<Value> ToList(const Value& value, const Arguments&) {
  QUIRE_ASSIGN_OR_RETURN(List items, Items(value));
  return Value::Of(std::move(items));
}
StatusOr<Value> Unique(const Value& value, const Arguments&) {
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  List kept;
  for (const Value& item : items) {
    if (std::ranges::none_of(kept, [&](const Value& other) { return item.Equals(other); }))
      kept.push_back(item);
  }
  return Value::Of(std::move(kept));
}

StatusOr<Value> Default(const Value& value, const Arguments& arguments) {
  const bool also_false = arguments.Get(1, "boolean", Value::Of(false)).IsTrue();
  const bool has = also_false ? value.IsTrue() : !value.IsUndefined();
  return has ? value : arguments.Get(0, "default_value", Value::Of(std::string()));
}

StatusOr<Value> Trim(const Value& value, const Arguments& arguments) {
  const Value set = arguments.Get(0, "chars", Value());
  return Value::Of(Stripped(value.ToText(),
                            set.AsText() != nullptr ? std::optional(set.ToText()) : std::nullopt,
                            true, true));
}

StatusOr<Value> Indent(const Value& value, const Arguments& arguments) {
  const Value width = arguments.Get(0, "width", Value::Of(int64_t{4}));
  const bool first = arguments.Get(1, "first", Value::Of(false)).IsTrue();
  const bool blank = arguments.Get(2, "blank", Value::Of(false)).IsTrue();
  const std::string pad =
      width.AsInt() != nullptr
          ? std::string(static_cast<size_t>(std::clamp<int64_t>(*width.AsInt(), 0, 256)), ' ')
          : width.ToText();
  std::string out;
  const List lines = SplitBy(value.ToText(), "\n", -1);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string line = lines[i].ToText();
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !line.empty()) out += pad;
    out += line;
  }
  return Value::Of(out);
}

StatusOr<Value> ToInt(const Value& value, const Arguments& arguments) {
  if (value.IsNumber()) return Value::Of(static_cast<int64_t>(value.ToDouble()));
  try {
    return Value::Of(static_cast<int64_t>(std::stoll(value.ToText())));
  } catch (const std::exception&) {
    return arguments.Get(0, "default", Value::Of(int64_t{0}));
  }
}

template <std::string (*kMap)(const std::string&)>
StatusOr<Value> TextFilter(const Value& value, const Arguments&) {
  return Value::Of(kMap(value.ToText()));
}
std::string UpperOf(const std::string& text) { return Upper(text); }
std::string LowerOf(const std::string& text) { return Lower(text); }
std::string Same(const std::string& text) { return text; }

using Filter = StatusOr<Value> (*)(const Value&, const Arguments&);
const std::map<std::string, Filter, std::less<>>& Filters() {
  static const std::map<std::string, Filter, std::less<>> filters = {
      {"capitalize", TextFilter<Capitalized>},
      {"count", Length},
      {"d", Default},
      {"default", Default},
      {"dictsort", SortedPairs},
      {"first", First},
      {"indent", Indent},
      {"int", ToInt},
      {"items", Pairs},
      {"join", Join},
      {"last", Last},
      {"length", Length},
      {"list", ToList},
      {"lower", TextFilter<LowerOf>},
      {"map", Map},
      {"reject", [](const Value& v, const Arguments& a) { return Select(v, a, false, false); }},
      {"rejectattr", [](const Value& v, const Arguments& a) { return Select(v, a, true, false); }},
      {"replace",
       [](const Value& v, const Arguments& a) -> StatusOr<Value> {
         return Value::Of(Replaced(v.ToText(), a.Get(0, "old", Value()).ToText(),
                                   a.Get(1, "new", Value()).ToText(), -1));
       }},
      {"reverse", Reversed},
      {"safe", TextFilter<Same>},
      {"select", [](const Value& v, const Arguments& a) { return Select(v, a, false, true); }},
      {"selectattr", [](const Value& v, const Arguments& a) { return Select(v, a, true, true); }},
      {"string", TextFilter<Same>},
      {"title", TextFilter<Title>},
      {"tojson", ToJson},
      {"trim", Trim},
      {"unique", Unique},
      {"upper", TextFilter<UpperOf>},
  };
  return filters;
}

bool IsSequence(const Value& value) {
  return value.AsList() != nullptr || value.AsText() != nullptr || value.AsDictionary() != nullptr;
}

StatusOr<bool> IsIn(const Value& value, const Arguments& arguments) {
  const Value set = arguments.Get(0, "", Value());
  if (const std::string* const text = set.AsText()) return text->find(value.ToText()) != text->npos;
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(set));
  return std::ranges::any_of(items, [&](const Value& item) { return item.Equals(value); });
}

using Test = StatusOr<bool> (*)(const Value&, const Arguments&);
const std::map<std::string, Test, std::less<>>& Tests() {
  using A = const Arguments&;
  using V = const Value&;
  static const std::map<std::string, Test, std::less<>> tests = {
      {"boolean", [](V v, A) -> StatusOr<bool> { return v.AsBool() != nullptr; }},
      {"callable", [](V v, A) -> StatusOr<bool> { return v.AsFunction() != nullptr; }},
      {"defined", [](V v, A) -> StatusOr<bool> { return !v.IsUndefined(); }},
      {"eq", [](V v, A a) -> StatusOr<bool> { return v.Equals(a.Get(0, "", Value())); }},
      {"equalto", [](V v, A a) -> StatusOr<bool> { return v.Equals(a.Get(0, "", Value())); }},
      {"false", [](V v, A) -> StatusOr<bool> { return v.AsBool() != nullptr && !*v.AsBool(); }},
      {"float", [](V v, A) -> StatusOr<bool> { return v.IsFloat(); }},
      {"in", IsIn},
      {"integer", [](V v, A) -> StatusOr<bool> { return v.AsInt() != nullptr; }},
      {"iterable", [](V v, A) -> StatusOr<bool> { return IsSequence(v); }},
      {"mapping", [](V v, A) -> StatusOr<bool> { return v.AsDictionary() != nullptr; }},
      {"ne", [](V v, A a) -> StatusOr<bool> { return !v.Equals(a.Get(0, "", Value())); }},
      {"none", [](V v, A) -> StatusOr<bool> { return v.IsNone(); }},
      {"number", [](V v, A) -> StatusOr<bool> { return v.IsNumber(); }},
      {"sequence", [](V v, A) -> StatusOr<bool> { return IsSequence(v); }},
      {"string", [](V v, A) -> StatusOr<bool> { return v.AsText() != nullptr; }},
      {"true", [](V v, A) -> StatusOr<bool> { return v.AsBool() != nullptr && *v.AsBool(); }},
      {"undefined", [](V v, A) -> StatusOr<bool> { return v.IsUndefined(); }},
  };
  return tests;
}

/// The method `name` of a text; undefined for another name.
Value TextMethod(const std::string& text, const std::string& name) {
  const auto method = [&](auto body) {
    return Value::Of(
        Function([text, body](const Arguments& a) -> StatusOr<Value> { return body(text, a); }));
  };
  const auto set = [](const Arguments& a) {
    const Value chars = a.Get(0, "chars", Value());
    return chars.AsText() != nullptr ? std::optional(chars.ToText()) : std::nullopt;
  };
  if (name == "strip")
    return method([set](const std::string& t, const Arguments& a) {
      return Value::Of(Stripped(t, set(a), true, true));
    });
  if (name == "lstrip")
    return method([set](const std::string& t, const Arguments& a) {
      return Value::Of(Stripped(t, set(a), true, false));
    });
  if (name == "rstrip")
    return method([set](const std::string& t, const Arguments& a) {
      return Value::Of(Stripped(t, set(a), false, true));
    });
  if (name == "upper")
    return method([](const std::string& t, const Arguments&) { return Value::Of(Upper(t)); });
  if (name == "lower")
    return method([](const std::string& t, const Arguments&) { return Value::Of(Lower(t)); });
  if (name == "title")
    return method([](const std::string& t, const Arguments&) { return Value::Of(Title(t)); });
  if (name == "capitalize")
    return method([](const std::string& t, const Arguments&) { return Value::Of(Capitalized(t)); });
  if (name == "startswith") {
    return method([](const std::string& t, const Arguments& a) {
      return Value::Of(t.starts_with(a.Get(0, "", Value()).ToText()));
    });
  }
  if (name == "endswith") {
    return method([](const std::string& t, const Arguments& a) {
      return Value::Of(t.ends_with(a.Get(0, "", Value()).ToText()));
    });
  }
  if (name == "find") {
    return method([](const std::string& t, const Arguments& a) {
      const size_t at = t.find(a.Get(0, "", Value()).ToText());
      return Value::Of(at == t.npos ? int64_t{-1}
                                    : static_cast<int64_t>(Characters(t.substr(0, at)).size()));
    });
  }
  if (name == "replace") {
    return method([](const std::string& t, const Arguments& a) {
      const int64_t* const most = a.Get(2, "count", Value()).AsInt();
      return Value::Of(Replaced(t, a.Get(0, "", Value()).ToText(), a.Get(1, "", Value()).ToText(),
                                most != nullptr ? *most : -1));
    });
  }
  if (name == "split") {
    return method([](const std::string& t, const Arguments& a) {
      const Value separator = a.Get(0, "sep", Value::None());
      const int64_t* const most = a.Get(1, "maxsplit", Value()).AsInt();
      if (separator.AsText() == nullptr || separator.AsText()->empty())
        return Value::Of(SplitWords(t));
      return Value::Of(SplitBy(t, *separator.AsText(), most != nullptr ? *most : -1));
    });
  }
  return {};
}

Value DictionaryMethod(const Value& self, const std::string& name) {
  if (name == "get") {
    return Value::Of(Function([self](const Arguments& a) -> StatusOr<Value> {
      const Value* const found = self.AsDictionary()->Find(a.Get(0, "key", Value()).ToText());
      return found != nullptr ? *found : a.Get(1, "default", Value::None());
    }));
  }
  if (name == "items")
    return Value::Of(Function([self](const Arguments& a) { return Pairs(self, a); }));
  if (name == "keys")
    return Value::Of(Function([self](const Arguments& a) { return ToList(self, a); }));
  if (name == "values") {
    return Value::Of(Function([self](const Arguments&) -> StatusOr<Value> {
      List values;
      for (const auto& [key, value] : self.AsDictionary()->entries()) values.push_back(value);
      return Value::Of(std::move(values));
    }));
  }
  return {};
}

StatusOr<Value> Range(const Arguments& arguments) {
  int64_t bounds[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  if (count == 0 || count > 3) return InvalidArgument("range() takes one to three numbers");
  for (size_t i = 0; i < count; ++i) {
    const int64_t* const number = arguments.positional[i].AsInt();
    if (number == nullptr) return WrongKind("range()", arguments.positional[i]);
    bounds[count == 1 ? 1 : i] = *number;
  }
  const auto [first, end, step] = bounds;
  if (step == 0) return InvalidArgument("the step of a range() must not be 0");
  List list;
  for (int64_t i = first; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(list.size()) == kMostItems)
      return ResourceExhausted("a range() of more than ", kMostItems);
    list.push_back(Value::Of(i));
  }
  return Value::Of(std::move(list));
}

Dictionary Named(const Arguments& arguments) {
  Dictionary dictionary;
  for (const auto& [name, value] : arguments.named) dictionary.Set(name, value);
  return dictionary;
}

}  // namespace

bool IsFilter(std::string_view name) { return Filters().contains(name); }
bool IsTest(std::string_view name) { return Tests().contains(name); }

StatusOr<Value> ApplyFilter(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = Filters().find(name);
  if (found == Filters().end())
    return InvalidArgument("the filter ", std::string(name), " is not known");
  return found->second(value, arguments);
}

StatusOr<bool> ApplyTest(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = Tests().find(name);
  if (found == Tests().end())
    return InvalidArgument("the test ", std::string(name), " is not known");
  return found->second(value, arguments);
}

Value Attribute(const Value& value, const std::string& name) {
  if (const std::string* const text = value.AsText()) return TextMethod(*text, name);
  const Dictionary* const entries =
      value.AsNamespace() != nullptr ? value.AsNamespace() : value.AsDictionary();
  if (entries == nullptr) return {};
  if (const Value* const found = entries->Find(name)) return *found;
  return value.AsDictionary() != nullptr ? DictionaryMethod(value, name) : Value();
}

StatusOr<Value> Item(const Value& value, const Value& index) {
  if (value.IsUndefined()) return InvalidArgument("an item of what is undefined");
  if (const Dictionary* const dictionary = value.AsDictionary()) {
    const Value* const found = dictionary->Find(index.ToText());
    return found != nullptr ? *found : Value();
  }
  const int64_t* const position = index.AsInt();
  if (position == nullptr) {
    if (index.AsText() == nullptr) return WrongKind("an index", index);
    return Attribute(value, *index.AsText());
  }
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const auto size = static_cast<int64_t>(items.size());
  const int64_t at = *position < 0 ? *position + size : *position;
  return at >= 0 && at < size ? items[static_cast<size_t>(at)] : Value();
}

StatusOr<List> Items(const Value& value) {
  if (value.IsUndefined()) return List();
  if (const List* const list = value.AsList()) return *list;
  List items;
  if (const Dictionary* const dictionary = value.AsDictionary()) {
    for (const auto& [key, held] : dictionary->entries()) items.push_back(Value::Of(key));
    return items;
  }
  const std::string* const text = value.AsText();
  if (text == nullptr) return WrongKind("a loop", value);
  for (std::string& character : Characters(*text)) items.push_back(Value::Of(std::move(character)));
  return items;
}

void AddFunctions(int64_t now_seconds, Dictionary* globals) {
  globals->Set("range", Value::Of(Function(Range)));
  globals->Set("dict", Value::Of(Function([](const Arguments& a) -> StatusOr<Value> {
                 return Value::Of(Named(a));
               })));
  globals->Set("namespace", Value::Of(Function([](const Arguments& a) -> StatusOr<Value> {
                 return Value::NewNamespace(Named(a));
               })));
  globals->Set("raise_exception", Value::Of(Function([](const Arguments& a) -> StatusOr<Value> {
                 return InvalidArgument("the chat template refuses: ",
                                        a.Get(0, "message", Value()).ToText());
               })));
  globals->Set("strftime_now",
               Value::Of(Function([now_seconds](const Arguments& a) -> StatusOr<Value> {
                 const std::string format = a.Get(0, "format", Value()).ToText();
                 const std::time_t now = now_seconds;
                 std::tm parts{};
                 gmtime_r(&now, &parts);
                 std::array<char, 256> out{};
                 const size_t size = std::strftime(out.data(), out.size(), format.c_str(), &parts);
                 return Value::Of(std::string(out.data(), size));
               })));
}

}  // namespace quire::worker::jinja
