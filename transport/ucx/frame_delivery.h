// SPDX-License-Identifier: Apache-2.0
//
// FrameDelivery: hands frames to a FrameReceiver and tells how much it has taken. Frames wait until
// it starts. A receiver that never waits is called by whoever pushes; any other from a thread of
// the delivery's own, so that one that takes long holds up nobody else.
// Thread-safety: Push and End from one thread; all other methods from any.
#ifndef QUIRE_TRANSPORT_UCX_FRAME_DELIVERY_H_
#define QUIRE_TRANSPORT_UCX_FRAME_DELIVERY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "common/base/mutex.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire {

class FrameDelivery {
 public:
  /// Called with the bytes taken since the last call when they are a report's or more, from the
  /// thread that calls the receiver.
  using OnTaken = std::function<void(uint64_t bytes)>;

  explicit FrameDelivery(OnTaken on_taken) : on_taken_(std::move(on_taken)) {}
  ~FrameDelivery() { Stop(); }
  FrameDelivery(const FrameDelivery&) = delete;
  FrameDelivery& operator=(const FrameDelivery&) = delete;

  /// Begins to call `receiver`; at most once.
  void Start(FrameReceiver* receiver) QUIRE_EXCLUDES(mutex_, join_mutex_);
  /// How much is taken before it is told; 0, at first, for all that is.
  void SetReportBytes(uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// `bytes` is what the frame counts for.
  void Push(Frame frame, uint64_t bytes) QUIRE_EXCLUDES(mutex_);
  /// Bytes that were pushed and not yet taken.
  uint64_t waiting_bytes() QUIRE_EXCLUDES(mutex_);
  /// OnClosed comes after the frames pushed before.
  void End(const Status& why) QUIRE_EXCLUDES(mutex_);
  /// When it returns no receiver call runs or will come. Not from inside one.
  void Stop() QUIRE_EXCLUDES(mutex_, join_mutex_);
  bool OnThread() QUIRE_EXCLUDES(mutex_);

 private:
  struct Waiting {
    Frame frame;
    uint64_t bytes;
  };
  void Run(FrameReceiver* receiver) QUIRE_EXCLUDES(mutex_);
  /// Gives a receiver that never waits what has waited for it; from then on Push does.
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

#endif  // QUIRE_TRANSPORT_UCX_FRAME_DELIVERY_H_
