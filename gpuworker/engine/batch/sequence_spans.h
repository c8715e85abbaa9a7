// SPDX-License-Identifier: Apache-2.0
//
// SequenceSpans: one sequence of a batch in a trace. Its phases follow each other without a gap, so
// they add up to its time. Nothing happens when the call that submits it is not traced.
// Thread-safety: none; made by the submitter's thread, then it belongs to that of the batch.
#ifndef QUIRE_GPUWORKER_ENGINE_BATCH_SEQUENCE_SPANS_H_
#define QUIRE_GPUWORKER_ENGINE_BATCH_SEQUENCE_SPANS_H_

#include <cstdint>
#include <string_view>

#include "common/base/trace/span.h"
#include "quire/status.h"

namespace quire::worker {

class SequenceSpans {
 public:
  /// Begins with the phase "queue", within the thread's current span.
  SequenceSpans() { Enter("queue"); }

  /// Ends the phase and begins another one. `name` is a literal.
  void Enter(std::string_view name) {
    if (!whole_.is_recorded()) return;
    phase_ = whole_.Child(name);
  }
  void End(uint64_t new_tokens, const Status& status) {
    phase_.End(status);
    whole_.Count("quire.new_tokens", new_tokens);
    whole_.End(status);
  }
  /// The span that the sequence's calls are part of, since a recall may go on in the next phase.
  /// Null when it is not recorded. Valid until End.
  const Span* whole() const { return whole_.is_recorded() ? &whole_ : nullptr; }

 private:
  Span whole_ = ChildOfCurrent("sequence");
  Span phase_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_BATCH_SEQUENCE_SPANS_H_
