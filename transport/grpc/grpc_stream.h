// SPDX-License-Identifier: Apache-2.0
//
// GrpcStream: frames over one bidirectional gRPC stream, shared by the two ends of a gRPC pipe. One
// thread reads (Run) and any thread sends. The sending thread writes its frame itself, so no frame
// changes threads. Send waits as long as gRPC's flow control does.
//
// Ownership: shared by the pipe and the thread that runs it; the gRPC objects behind it live until
// Run has returned. Thread-safety: all methods from any thread; Start and Run once each.
#ifndef QUIRE_TRANSPORT_GRPC_GRPC_STREAM_H_
#define QUIRE_TRANSPORT_GRPC_GRPC_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <functional>

#include "common/base/threads/mutex.h"
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
    /// Called by Run when nothing more can be read; no write waits after it. Returns why the stream
    /// ended.
    std::function<Status()> finish = {};
  };
  GrpcStream(Ends ends, uint64_t max_frame_bytes)
      : ends_(std::move(ends)), max_frame_bytes_(max_frame_bytes) {}

  /// As FramePipe's methods of the same names.
  void Start(FrameReceiver* receiver);
  [[nodiscard]] Status Send(Frame frame);
  void Close();

  /// Waits for Start, then delivers frames until the stream ends. Returns at once when the stream
  /// is closed first. The gRPC objects are not used after Run has returned.
  void Run();

 private:
  enum class Phase : uint8_t { kWaiting, kReading, kOver };

  /// The receiver to read for; null when the stream was closed before it was started.
  FrameReceiver* WaitForStart();
  /// Delivers frames; OK at the end of the stream.
  Status Deliver(FrameReceiver* receiver);

  const Ends ends_;
  const uint64_t max_frame_bytes_;

  Mutex write_mutex_;  ///< One write at a time; taken before mutex_.
  bool writable_ QUIRE_GUARDED_BY(write_mutex_) = true;

  Mutex mutex_;
  CondVar changed_;
  FrameReceiver* receiver_ QUIRE_GUARDED_BY(mutex_) = nullptr;
  Phase phase_ QUIRE_GUARDED_BY(mutex_) = Phase::kWaiting;
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;  ///< True if this end has closed it.
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_GRPC_GRPC_STREAM_H_
