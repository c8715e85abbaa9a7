// SPDX-License-Identifier: Apache-2.0
//
// FrameDelivery: hands frames to a FrameReceiver and reports how much it has taken. Frames wait
// until Start. A receiver that never waits is called by the pushing thread. Any other is called by
// a thread of the delivery, so a slow receiver delays no other connection.
// Thread-safety: Push and End from one thread; all other methods from any.
#ifndef QUIRE_TRANSPORT_UCX_FRAMES_FRAME_DELIVERY_H_
#define QUIRE_TRANSPORT_UCX_FRAMES_FRAME_DELIVERY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "common/base/threads/mutex.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire {

class FrameDelivery {
 public:
  /// Reports the bytes taken since the last call, once they reach SetReportBytes. Runs on the
  /// thread that calls the receiver.
  using OnTaken = std::function<void(uint64_t bytes)>;

  explicit FrameDelivery(OnTaken on_taken) : on_taken_(std::move(on_taken)) {}
  ~FrameDelivery() { Stop(); }
  FrameDelivery(const FrameDelivery&) = delete;
  FrameDelivery& operator=(const FrameDelivery&) = delete;

  /// Begins to call `receiver`; at most once.
  void Start(FrameReceiver* receiver) QUIRE_EXCLUDES(mutex_, join_mutex_);
  /// Sets the bytes to take before a report; 0, the default, reports each frame.
  void SetReportBytes(uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Delivers a frame that counts as `bytes`.
  void Push(Frame frame, uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Bytes pushed and not yet taken.
  uint64_t waiting_bytes() QUIRE_EXCLUDES(mutex_);
  /// Ends the delivery: OnClosed follows the frames pushed before.
  void End(const Status& why) QUIRE_EXCLUDES(mutex_);
  /// Stops the delivery. After it returns no receiver call runs or follows. Not from inside one.
  void Stop() QUIRE_EXCLUDES(mutex_, join_mutex_);
  bool OnThread() QUIRE_EXCLUDES(mutex_);

 private:
  struct Waiting {
    Frame frame;
    uint64_t bytes;
  };
  void Run(FrameReceiver* receiver) QUIRE_EXCLUDES(mutex_);
  /// Hands the waiting frames to a receiver that never waits; afterwards Push calls it.
  void CallAtOnce(FrameReceiver* receiver) QUIRE_EXCLUDES(mutex_);
  /// The next frame; nullopt at the end.
  std::optional<Waiting> Next() QUIRE_EXCLUDES(mutex_);
  void Taken(uint64_t bytes) QUIRE_EXCLUDES(mutex_);

  const OnTaken on_taken_;
  Mutex join_mutex_;
  std::thread thread_ QUIRE_GUARDED_BY(join_mutex_);
  Mutex mutex_;
  CondVar changed_;
  std::thread::id thread_id_ QUIRE_GUARDED_BY(mutex_);
  FrameReceiver* called_at_once_ QUIRE_GUARDED_BY(mutex_) = nullptr;
  uint64_t report_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::deque<Waiting> waiting_ QUIRE_GUARDED_BY(mutex_);
  uint64_t waiting_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t unreported_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::optional<Status> end_ QUIRE_GUARDED_BY(mutex_);
  bool stopped_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_FRAMES_FRAME_DELIVERY_H_
