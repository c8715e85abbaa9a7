// SPDX-License-Identifier: Apache-2.0
//
// Frame: one rendering of a template: its variables, its output, and how much it may still do. A
// template comes with a checkpoint and is not trusted. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_JINJA_FRAME_H_
#define QUIRE_GPUWORKER_TEXT_JINJA_FRAME_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gpuworker/text/jinja/value.h"

namespace quire::worker::jinja {

class Frame {
 public:
  explicit Frame(const Dictionary* globals) : globals_(globals), scopes_(1) {}

  /// Undefined for a name without a value.
  Value Find(std::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return found->second;
    }
    const Value* const global = globals_->Find(name);
    return global != nullptr ? *global : Value();
  }
  /// Sets a variable of the innermost scope.
  void Set(const std::string& name, Value value) { scopes_.back()[name] = std::move(value); }

  /// RESOURCE_EXHAUSTED for macros that call each other too deep.
  Status EnterCall() {
    return ++calls_ <= kMostCalls
               ? OkStatus()
               : ResourceExhausted("macros call each other more than ", kMostCalls, " deep");
  }
  void LeaveCall() { --calls_; }

  void Enter() { scopes_.emplace_back(); }
  void Leave() { scopes_.pop_back(); }

  /// RESOURCE_EXHAUSTED when the template has printed more than a prompt can be.
  Status Print(std::string_view text) {
    if (out_.size() + text.size() > kMostOutputBytes) {
      return ResourceExhausted("the template prints more than ", kMostOutputBytes, " bytes");
    }
    out_ += text;
    return OkStatus();
  }
  /// RESOURCE_EXHAUSTED when the template does not come to an end.
  Status CountStep() {
    return ++steps_ <= kMostSteps
               ? OkStatus()
               : ResourceExhausted("the template takes more than ", kMostSteps, " steps");
  }
  /// Replaces the output by `text` and returns what it was.
  std::string ExchangeOutput(std::string text) {
    std::swap(out_, text);
    return text;
  }

 private:
  static constexpr size_t kMostOutputBytes = size_t{256} << 20;
  static constexpr uint64_t kMostSteps = 50'000'000;
  static constexpr int kMostCalls = 64;

  const Dictionary* const globals_;
  std::vector<std::map<std::string, Value, std::less<>>> scopes_;
  std::string out_;
  uint64_t steps_ = 0;
  int calls_ = 0;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_JINJA_FRAME_H_
