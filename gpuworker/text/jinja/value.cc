// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/jinja/value.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace quire::worker::jinja {
namespace {

/// Python's repr() of a float: the shortest digits that give it back.
std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  std::string text(digits.data(), end);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string Quoted(const std::string& text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      if (c == quote || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + quote;
}

}  // namespace

Value Arguments::Get(size_t index, std::string_view name, const Value& absent) const {
  if (index < positional.size()) return positional[index];
  for (const auto& [given, value] : named) {
    if (given == name) return value;
  }
  return absent;
}

void Dictionary::Set(const std::string& key, Value value) {
  for (auto& [known, held] : entries_) {
    if (known != key) continue;
    held = std::move(value);
    return;
  }
  entries_.emplace_back(key, std::move(value));
}

const Value* Dictionary::Find(std::string_view key) const {
  for (const auto& [known, value] : entries_) {
    if (known == key) return &value;
  }
  return nullptr;
}

Value Value::Of(List value) { return Value(Data(std::make_shared<const List>(std::move(value)))); }
Value Value::Of(Dictionary value) {
  return Value(Data(std::make_shared<const Dictionary>(std::move(value))));
}
Value Value::Of(Function value) {
  return Value(Data(std::make_shared<const Function>(std::move(value))));
}
Value Value::NewNamespace(Dictionary value) {
  return Value(Data(std::make_shared<Namespace>(Namespace{std::move(value)})));
}

Value Value::FromJson(const nlohmann::ordered_json& json) {
  if (json.is_null()) return None();
  if (json.is_boolean()) return Of(json.get<bool>());
  if (json.is_number_float()) return Of(json.get<double>());
  if (json.is_number()) return Of(json.get<int64_t>());
  if (json.is_string()) return Of(json.get<std::string>());
  if (json.is_array()) {
    List list;
    for (const auto& item : json) list.push_back(FromJson(item));
    return Of(std::move(list));
  }
  Dictionary dictionary;
  for (const auto& [key, item] : json.items()) dictionary.Set(key, FromJson(item));
  return Of(std::move(dictionary));
}

const List* Value::AsList() const {
  const auto* const list = std::get_if<std::shared_ptr<const List>>(&data_);
  return list != nullptr ? list->get() : nullptr;
}
const Dictionary* Value::AsDictionary() const {
  const auto* const dictionary = std::get_if<std::shared_ptr<const Dictionary>>(&data_);
  return dictionary != nullptr ? dictionary->get() : nullptr;
}
Dictionary* Value::AsNamespace() const {
  const auto* const space = std::get_if<std::shared_ptr<Namespace>>(&data_);
  return space != nullptr ? &(*space)->attributes : nullptr;
}
const Function* Value::AsFunction() const {
  const auto* const function = std::get_if<std::shared_ptr<const Function>>(&data_);
  return function != nullptr ? function->get() : nullptr;
}

double Value::ToDouble() const {
  if (const bool* const value = AsBool()) return *value ? 1 : 0;
  if (const int64_t* const value = AsInt()) return static_cast<double>(*value);
  const double* const value = std::get_if<double>(&data_);
  return value != nullptr ? *value : 0;
}

bool Value::IsTrue() const {
  if (IsUndefined() || IsNone()) return false;
  if (IsNumber()) return ToDouble() != 0;
  if (const std::string* const text = AsText()) return !text->empty();
  if (const List* const list = AsList()) return !list->empty();
  if (const Dictionary* const dictionary = AsDictionary()) return !dictionary->entries().empty();
  return true;
}

std::string Value::ToText() const {
  if (IsUndefined()) return "";
  if (const std::string* const text = AsText()) return *text;
  return ToRepr();
}

std::string Value::ToRepr() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "None";
  if (const bool* const value = AsBool()) return *value ? "True" : "False";
  if (const int64_t* const value = AsInt()) return std::to_string(*value);
  if (IsFloat()) return FloatText(ToDouble());
  if (const std::string* const text = AsText()) return Quoted(*text);
  std::string out;
  if (const List* const list = AsList()) {
    for (const Value& item : *list) out += (out.empty() ? "" : ", ") + item.ToRepr();
    return "[" + out + "]";
  }
  if (const Dictionary* const dictionary = AsDictionary()) {
    for (const auto& [key, value] : dictionary->entries()) {
      out += (out.empty() ? "" : ", ") + Quoted(key) + ": " + value.ToRepr();
    }
    return "{" + out + "}";
  }
  return std::string("<") + Kind() + ">";
}

const char* Value::Kind() const {
  static constexpr std::array kKinds = {"undefined",  "None",       "a bool", "an integer",
                                        "a float",    "text",       "a list", "a dictionary",
                                        "a function", "a namespace"};
  return kKinds[data_.index()];
}

bool Value::Equals(const Value& other) const {
  if (IsNumber() && other.IsNumber()) return ToDouble() == other.ToDouble();
  if (data_.index() != other.data_.index()) return false;
  if (const std::string* const text = AsText()) return *text == *other.AsText();
  if (const List* const list = AsList()) {
    const List& others = *other.AsList();
    if (list->size() != others.size()) return false;
    for (size_t i = 0; i < list->size(); ++i) {
      if (!(*list)[i].Equals(others[i])) return false;
    }
    return true;
  }
  if (const Dictionary* const dictionary = AsDictionary()) {
    const auto& others = *other.AsDictionary();
    if (dictionary->entries().size() != others.entries().size()) return false;
    for (const auto& [key, value] : dictionary->entries()) {
      const Value* const found = others.Find(key);
      if (found == nullptr || !value.Equals(*found)) return false;
    }
    return true;
  }
  return data_ == other.data_;
}

StatusOr<bool> Value::IsLess(const Value& other) const {
  if (IsNumber() && other.IsNumber()) return ToDouble() < other.ToDouble();
  if (AsText() != nullptr && other.AsText() != nullptr) return *AsText() < *other.AsText();
  return InvalidArgument("cannot compare ", Kind(), " with ", other.Kind());
}

}  // namespace quire::worker::jinja
