// SPDX-License-Identifier: Apache-2.0
//
// GrpcStream: frames over one bidirectional gRPC stream; what the two ends of a gRPC pipe have in
// common. One thread reads (Run), any thread sends: a frame is written by the thread that sends it,
// so that nothing is handed from thread to thread, and Send waits as long as gRPC's flow control
// does.
//
// Ownership: shared by the pipe and the thread that runs it; the gRPC objects behind it live until
// Run has returned. Thread-safety: all methods from any thread; Start and Run once each.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_STREAM_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <functional>

#include "common/base/mutex.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire {

class GrpcStream {
 public:
  using Reader = grpc::internal::ReaderInterface<grpc::ByteBuffer>;
  using Writer = grpc::internal::WriterInterface<grpc::ByteBuffer>;
  struct Ends {
    Reader* reader = nullptr;
    Writer* writer = nullptr;
    std::function<void()> cancel = {};  ///< Ends reads and writes that wait; does not block.
    /// Called by Run when nothing more can be read; afterwards no write waits. Why the peer is
    /// gone.
    std::function<Status()> finish = {};
  };
  GrpcStream(Ends ends, uint64_t max_frame_bytes)
      : ends_(std::move(ends)), max_frame_bytes_(max_frame_bytes) {}

  /// As FramePipe's methods of the same names.
  void Start(FrameReceiver* receiver);
  [[nodiscard]] Status Send(Frame frame);
  void Close();

  /// Waits for Start, then delivers what comes until the stream ends; returns at once when it is
  /// closed first. When it has returned the gRPC objects are not touched any more.
  void Run();

 private:
  enum class Phase : uint8_t { kWaiting, kReading, kOver };

  /// The receiver to read for; null when the stream was closed before it was started.
  FrameReceiver* WaitForStart();
  /// Delivers frames; OK when the stream has no more of them.
  Status Deliver(FrameReceiver* receiver);

  const Ends ends_;
  const uint64_t max_frame_bytes_;

  Mutex write_mutex_;  ///< One write at a time; taken before mutex_.
  bool writable_ QUIRE_GUARDED_BY(write_mutex_) = true;

  Mutex mutex_;
  CondVar changed_;
  FrameReceiver* receiver_ QUIRE_GUARDED_BY(mutex_) = nullptr;
  Phase phase_ QUIRE_GUARDED_BY(mutex_) = Phase::kWaiting;
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;  ///< By this end.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_STREAM_H_
