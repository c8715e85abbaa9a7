// SPDX-License-Identifier: Apache-2.0
//
// FakeStreams: the streams and events of a simulated GPU, and the time at which their work runs.
// Work runs at once unless its stream is held. A late stream runs only when another waits for it. A
// test thus decides which stream is behind, and a missing wait changes the result. Nothing that
// ships includes this. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TESTING_FAKE_STREAMS_H_
#define QUIRE_GPUWORKER_TESTING_FAKE_STREAMS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

namespace quire::worker::testing {

class FakeStream;

/// A place in the work of a stream.
struct FakePoint {
  FakeStream* stream = nullptr;
  bool passed = false;
  int64_t at = 0;  ///< FakeStreams::milliseconds when it was passed.
};

struct FakeEvent {
  bool timed = false;
  std::shared_ptr<FakePoint> point = nullptr;  ///< Where it was recorded last; null before that.
};

/// Work in its order, between which it may be held for points of other streams.
class FakeStream {
 public:
  bool late = false;

  void Give(std::function<void()> work) { steps_.push_back({nullptr, std::move(work)}); }
  /// `milliseconds` is the time, and outlives the stream.
  void Record(FakeEvent* event, const int64_t& milliseconds) {
    event->point = std::make_shared<FakePoint>(FakePoint{.stream = this});
    Give([point = event->point, &milliseconds] {
      point->passed = true;
      point->at = milliseconds;
    });
  }
  void HoldFor(const FakeEvent& event) {
    if (event.point != nullptr) steps_.push_back({event.point, [] {}});
  }
  bool empty() const { return steps_.empty(); }
  /// True if there is work that is not held.
  bool ready() const {
    return !steps_.empty() && (steps_.front().after == nullptr || steps_.front().after->passed);
  }
  void RunNext() {
    const Step step = std::move(steps_.front());
    steps_.pop_front();
    step.work();
  }
  /// Runs what comes before `point`, or everything for null, and of the other streams what that is
  /// held for.
  void RunTo(const FakePoint* point) {
    while (point != nullptr ? !point->passed : !steps_.empty()) {
      if (const std::shared_ptr<const FakePoint> after = steps_.front().after;
          after != nullptr && !after->passed) {
        after->stream->RunTo(after.get());
      }
      RunNext();
    }
  }

 private:
  struct Step {
    std::shared_ptr<const FakePoint> after;  ///< May be null.
    std::function<void()> work;
  };
  std::deque<Step> steps_;
};

struct FakeStreams {
  FakeStream compute, copy, convert;
  int64_t host_waits = 0;    ///< Calls that waited for work that had not run.
  int64_t milliseconds = 0;  ///< Kernels and copies that have run, each in one.

  std::array<FakeStream*, 3> all() { return {&compute, &copy, &convert}; }
  /// Null for what is none of them.
  FakeStream* Find(const void* stream) {
    for (FakeStream* const one : all()) {
      if (one == stream) return one;
    }
    return nullptr;
  }
  /// Runs what may run now.
  void Advance() {
    for (bool ran = true; ran;) {
      ran = false;
      for (FakeStream* const stream : all()) {
        for (; !stream->late && stream->ready(); ran = true) stream->RunNext();
      }
    }
  }
  /// The host waits, as FakeStream::RunTo.
  void Await(FakeStream* stream, const FakePoint* point) {
    if (point != nullptr ? !point->passed : !stream->empty()) ++host_waits;
    stream->RunTo(point);
    Advance();
  }
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_FAKE_STREAMS_H_
