// SPDX-License-Identifier: Apache-2.0
//
// Nodes of a parsed template: expressions, which have a value, and statements, which print.
// Thread-safety: const use is safe, with a frame for each thread.
#ifndef QUIRE_GPUWORKER_TEXT_JINJA_NODE_H_
#define QUIRE_GPUWORKER_TEXT_JINJA_NODE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "gpuworker/text/jinja/frame.h"
#include "gpuworker/text/jinja/value.h"

namespace quire::worker::jinja {

class Expression {
 public:
  virtual ~Expression() = default;
  virtual StatusOr<Value> Evaluate(Frame& frame) const = 0;
};
using ExpressionPtr = std::unique_ptr<const Expression>;

/// What a loop does after a statement in it.
enum class Flow : uint8_t { kNext, kContinue, kBreak };

class Statement {
 public:
  virtual ~Statement() = default;
  virtual StatusOr<Flow> Run(Frame& frame) const = 0;
};
using StatementPtr = std::unique_ptr<const Statement>;

/// Runs statements in order until one says kContinue or kBreak.
class Body final : public Statement {
 public:
  void Add(StatementPtr statement) { statements_.push_back(std::move(statement)); }
  StatusOr<Flow> Run(Frame& frame) const override {
    for (const StatementPtr& statement : statements_) {
      QUIRE_RETURN_IF_ERROR(frame.CountStep());
      QUIRE_ASSIGN_OR_RETURN(const Flow flow, statement->Run(frame));
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

 private:
  std::vector<StatementPtr> statements_;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_JINJA_NODE_H_
