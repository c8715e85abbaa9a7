// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a parsed template: expressions, which have a value, and statements, which print.
// Thread-safety: const use is safe, with a frame for each thread.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_NODE_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_NODE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gpuworker/text/chat/jinja/frame.h"
#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

class Expression {
 public:
  explicit Expression(Place place) : place_(place) {}
  virtual ~Expression() = default;

  /// The value, within the frame's limits. The frame notes the place of an error.
  StatusOr<Value> Evaluate(Frame& frame) const {
    StatusOr<Value> value = EvaluateWithin(frame);
    frame.LeaveStep();
    if (!value.ok()) frame.NoteError(place_);
    return value;
  }

 private:
  virtual StatusOr<Value> Compute(Frame& frame) const = 0;

  StatusOr<Value> EvaluateWithin(Frame& frame) const {
    QUIRE_RETURN_IF_ERROR(frame.EnterStep());
    QUIRE_ASSIGN_OR_RETURN(Value value, Compute(frame));
    QUIRE_RETURN_IF_ERROR(frame.Admit(value));
    return value;
  }

  const Place place_;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

/// Way on for a loop after a statement in it.
enum class Flow : uint8_t { kNext, kContinue, kBreak };

class Statement {
 public:
  virtual ~Statement() = default;
  virtual StatusOr<Flow> Run(Frame& frame) const = 0;
};
using StatementPtr = std::unique_ptr<const Statement>;

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_NODE_H_
