// SPDX-License-Identifier: Apache-2.0
#include "common/json/json.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <vector>

namespace quire::worker {
namespace {

constexpr int kMaxDepth = 16;

/// Deepest nesting of brackets outside strings. Run before the parser, whose memory grows with it.
int NestingDepth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

std::string Shown(const nlohmann::json& value) {
  constexpr size_t kMaxShown = 60;
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

}  // namespace

StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view name) {
  if (NestingDepth(text) > kMaxDepth) {
    return InvalidArgument(name, ": JSON is nested deeper than ", kMaxDepth, " levels");
  }
  std::vector<std::set<std::string>> keys;  // Keys of the objects being read, outermost first.
  std::optional<std::string> duplicate;
  const auto watch = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get_ref<const std::string&>()).second) {
      duplicate = value.get_ref<const std::string&>();
    }
    return true;
  };
  nlohmann::json value =
      nlohmann::json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return InvalidArgument(name, ": not valid JSON; the file is damaged or not what it claims");
  }
  if (duplicate) return InvalidArgument(name, ": the key \"", *duplicate, "\" is given twice");
  return value;
}

StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return NotFound(path, ": no such file, or it cannot be read");
  const std::streamoff size = file.tellg();
  if (size < 0) return InvalidArgument(path, ": not a regular file");
  if (static_cast<uint64_t>(size) > max_bytes) {
    return ResourceExhausted(path, ": ", size, " bytes, more than the limit of ", max_bytes);
  }
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(text.data(), size)) return DataLoss(path, ": cannot be read to its end");
  return text;
}

bool JsonFields::Given(const char* field) const {
  read_.insert(field);
  return object_.contains(field);
}

Status JsonFields::CheckAllRead(std::span<const std::string_view> harmless) const {
  for (const auto& [field, value] : object_.items()) {
    if (value.is_null() || read_.contains(field)) continue;
    if (std::ranges::find(harmless, field) != harmless.end()) continue;
    return Error(
        field.c_str(), "is ", Shown(value),
        ", which is not known here: what it asks for would be left out. Take it out of the "
        "file if it changes nothing that the model computes");
  }
  return OkStatus();
}

const nlohmann::json* JsonFields::Find(const char* field) const {
  read_.insert(field);
  const auto it = object_.find(field);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

StatusOr<uint32_t> JsonFields::UInt(const char* field, uint32_t low, uint32_t high,
                                    std::optional<uint32_t> absent) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr && absent) return *absent;
  if (value == nullptr) return Error(field, "is missing");
  if (!value->is_number_unsigned() || value->get<uint64_t>() < low ||
      value->get<uint64_t>() > high) {
    return Error(field, "is ", Shown(*value), ", must be an integer of ", low, "..", high);
  }
  return static_cast<uint32_t>(value->get<uint64_t>());
}

StatusOr<double> JsonFields::Number(const char* field, double low, double high,
                                    std::optional<double> absent) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr && absent) return *absent;
  if (value == nullptr) return Error(field, "is missing");
  if (!value->is_number()) return Error(field, "is ", Shown(*value), ", must be a number");
  const double number = value->get<double>();
  if (!std::isfinite(number) || number < low || number > high) {
    return Error(field, "is ", Shown(*value), ", must be within ", low, "..", high);
  }
  return number;
}

StatusOr<bool> JsonFields::Bool(const char* field, bool absent) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return Error(field, "is ", Shown(*value), ", must be true or false");
  return value->get<bool>();
}

StatusOr<std::string> JsonFields::String(const char* field, std::string_view absent) const {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return std::string(absent);
  if (!value->is_string()) return Error(field, "is ", Shown(*value), ", must be a string");
  return value->get<std::string>();
}

}  // namespace quire::worker
