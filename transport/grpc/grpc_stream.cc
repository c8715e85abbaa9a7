// SPDX-License-Identifier: Apache-2.0
#include "transport/grpc/grpc_stream.h"

#include <utility>

#include "transport/grpc/grpc_convert.h"

namespace quire {

void GrpcStream::Start(FrameReceiver* receiver) {
  MutexLock lock(mutex_);
  receiver_ = receiver;
  changed_.NotifyAll();
}

Status GrpcStream::Send(Frame frame) {
  const uint64_t bytes = frame.head.size() + frame.payload.size_bytes();
  if (bytes > max_frame_bytes_) {
    return ResourceExhausted("a frame of ", bytes,
                             " bytes is over max_frame_bytes = ", max_frame_bytes_,
                             " of the gRPC stream");
  }
  const grpc::ByteBuffer buffer = ToByteBuffer(frame);
  MutexLock lock(write_mutex_);
  if (writable_) writable_ = ends_.writer->Write(buffer);
  return writable_ ? OkStatus() : Unavailable("the gRPC stream is over");
}

FrameReceiver* GrpcStream::WaitForStart() {
  MutexLock lock(mutex_);
  while (receiver_ == nullptr && !closed_) changed_.Wait(mutex_);
  if (closed_) return nullptr;
  phase_ = Phase::kReading;
  return receiver_;
}

Status GrpcStream::Deliver(FrameReceiver* receiver) {
  for (grpc::ByteBuffer buffer; ends_.reader->Read(&buffer); buffer.Clear()) {
    Frame frame;
    QUIRE_RETURN_IF_ERROR(FromByteBuffer(buffer, &frame));
    receiver->OnFrame(std::move(frame));
  }
  return OkStatus();
}

void GrpcStream::Run() {
  FrameReceiver* const receiver = WaitForStart();
  Status why = receiver != nullptr ? Deliver(receiver) : OkStatus();
  if (!why.ok() || receiver == nullptr) ends_.cancel();
  const Status end = ends_.finish();
  if (why.ok()) why = end;
  {
    MutexLock lock(write_mutex_);
    writable_ = false;
  }
  if (receiver != nullptr) receiver->OnClosed(why);
  MutexLock lock(mutex_);
  phase_ = Phase::kOver;
  changed_.NotifyAll();
}

void GrpcStream::Close() {
  MutexLock lock(mutex_);
  if (!closed_) {
    closed_ = true;
    if (phase_ != Phase::kOver) ends_.cancel();
    changed_.NotifyAll();
  }
  while (phase_ == Phase::kReading) changed_.Wait(mutex_);
}

}  // namespace quire
