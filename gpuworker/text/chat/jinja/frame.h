// SPDX-License-Identifier: Apache-2.0
//
// Frame: one rendering of a template: its variables, its output, and its limits. A template comes
// from outside and is not trusted. Ownership: the frame owns its namespaces. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_FRAME_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_FRAME_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuworker/text/chat/jinja/lexer.h"
#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

/// Limits of one rendering.
struct Limits {
  uint64_t steps = 20'000'000;          ///< Expressions, statements, and each 64 bytes of values.
  uint64_t bytes = uint64_t{16} << 20;  ///< A value; four times that for all output.
  uint32_t nesting = 32;                ///< Lists within lists.
  uint32_t depth = 400;                 ///< Expressions, blocks and macros within each other.
};

class Frame {
 public:
  explicit Frame(const Limits& limits) : limits_(limits), scopes_(1) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  /// Undefined for a name that was not set.
  Value Find(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return found->second;
    }
    return {};
  }
  /// Sets a variable of the innermost scope.
  void Set(const std::string& name, Value value) { scopes_.back()[name] = std::move(value); }
  void EnterScope() { scopes_.emplace_back(); }
  void LeaveScope() { scopes_.pop_back(); }

  Value NewNamespace(Dictionary attributes) {
    return Value::Of(&namespaces_.emplace_back(std::move(attributes)));
  }

  /// Begins a step. RESOURCE_EXHAUSTED past the limits of steps and depth. LeaveStep ends it.
  Status EnterStep() {
    if (++depth_ > limits_.depth) return ResourceExhausted("the template nests too deep");
    return Charge(1);
  }
  void LeaveStep() { --depth_; }
  /// Counts a round of a loop, whose body may have no step.
  Status CountRound() { return Charge(1); }

  /// RESOURCE_EXHAUSTED for a value that is too large.
  Status Admit(const Value& value) {
    if (value.weight() > limits_.bytes || value.depth() > limits_.nesting)
      return ResourceExhausted("a value of the template grows too large");
    return Charge(value.weight() / 64);
  }

  /// RESOURCE_EXHAUSTED when the output is too large.
  Status Print(std::string_view text) {
    printed_ += text.size();
    if (printed_ > 4 * limits_.bytes)
      return ResourceExhausted("the template prints more than ", 4 * limits_.bytes, " bytes");
    out_ += text;
    return OkStatus();
  }
  /// Replaces the output by `text` and returns the output before.
  std::string ExchangeOutput(std::string text) {
    std::swap(out_, text);
    return text;
  }

  /// Keeps the first place of an error, which is the innermost.
  void NoteError(Place place) {
    if (!error_place_) error_place_ = place;
  }
  const std::optional<Place>& error_place() const { return error_place_; }

 private:
  Status Charge(uint64_t steps) {
    steps_ += steps;
    if (steps_ <= limits_.steps) return OkStatus();
    return ResourceExhausted("the template takes more than ", limits_.steps, " steps");
  }

  const Limits limits_;
  std::vector<std::map<std::string, Value, std::less<>>> scopes_;
  std::deque<Dictionary> namespaces_;
  std::string out_;
  uint64_t printed_ = 0;  ///< Bytes, those of blocks and macros included.
  uint64_t steps_ = 0;
  uint32_t depth_ = 0;
  std::optional<Place> error_place_;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_FRAME_H_
