// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/json_writer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "gpuworker/text/chat/jinja/operators.h"

namespace quire::worker::jinja {
namespace {

class JsonWriter {
 public:
  explicit JsonWriter(std::optional<int64_t> indent) : indent_(indent) {}

  Status Write(const Value& value, int64_t depth) {
    if (value.IsNone()) return Add("null");
    if (const bool* const flag = value.AsBool()) return Add(*flag ? "true" : "false");
    if (const int64_t* const number = value.AsInteger()) return Add(std::to_string(*number));
    if (const std::string* const text = value.AsText()) return Add(Quoted(*text));
    if (const List* const list = value.AsList()) {
      return WriteAll(list->size(), '[', ']', depth,
                      [&](size_t i) { return Write((*list)[i], depth + 1); });
    }
    const Dictionary* const dictionary = value.AsDictionary();
    if (dictionary == nullptr) return InvalidArgument(value.Kind(), " cannot be JSON");
    return WriteAll(dictionary->entries().size(), '{', '}', depth, [&](size_t i) {
      const auto& [key, held] = dictionary->entries()[i];
      out_ += Quoted(key) + ": ";
      return Write(held, depth + 1);
    });
  }

  std::string Take() { return std::move(out_); }

 private:
  static std::string Quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  Status Add(std::string_view text) {
    out_ += text;
    return OkStatus();
  }

  template <typename Entry>
  Status WriteAll(size_t count, char open, char close, int64_t depth, const Entry& entry) {
    out_ += open;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_ += indent_ ? "," : ", ";
      BreakLine(depth + 1);
      QUIRE_RETURN_IF_ERROR(CheckTextBytes(out_.size()));
      QUIRE_RETURN_IF_ERROR(entry(i));
    }
    if (count > 0) BreakLine(depth);
    out_ += close;
    return CheckTextBytes(out_.size());
  }

  void BreakLine(int64_t depth) {
    if (indent_) out_ += "\n" + std::string(static_cast<size_t>(*indent_ * depth), ' ');
  }

  const std::optional<int64_t> indent_;
  std::string out_;
};

}  // namespace

StatusOr<std::string> WriteJson(const Value& value, std::optional<int64_t> indent) {
  JsonWriter writer(indent);
  QUIRE_RETURN_IF_ERROR(writer.Write(value, 0));
  return writer.Take();
}

}  // namespace quire::worker::jinja
