// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_server_pipe.h"

#include <utility>

#include "transport/shm/shm_frame.h"

namespace quire {

ShmServerPipe::ShmServerPipe(std::shared_ptr<ShmLoop> loop, UniqueFd socket,
                             std::shared_ptr<const ShmRegions> regions, std::shared_ptr<ShmUse> use,
                             const Options& options)
    : options_(options),
      loop_(std::move(loop)),
      use_(std::move(use)),
      in_place_(!regions->all().empty()),
      stream_(std::make_shared<ShmStream>(
          std::move(socket),
          ShmStream::Options{.limits = {.max_frame_bytes = options.max_frame_bytes},
                             .max_queued_bytes = options.max_queued_bytes,
                             .stall_timeout = options.stall_timeout},
          loop_.get(), static_cast<ShmStream::Receiver*>(this))),
      lender_(loop_.get(), stream_, std::move(regions), use_, options.lender) {
  ++use_->connections;
  ShmOutgoing greeting;
  AppendShmPacket({.type = ShmPacketType::kGreeting,
                   .flags = in_place_ ? ShmHeader::kInPlace : uint8_t{0},
                   .number = kShmVersion,
                   .bytes = options_.max_frame_bytes},
                  {}, {}, {}, &greeting.bytes);
  // Ignores a failure: reading will report a client that is gone.
  (void)stream_->Send(std::move(greeting));
}

ShmServerPipe::~ShmServerPipe() {
  Close();
  --use_->connections;
}

PipeCapabilities ShmServerPipe::capabilities() const {
  return {.name = "shm",
          .max_frame_bytes = options_.max_frame_bytes,
          .in_place = in_place_,
          .detail = options_.detail};
}

void ShmServerPipe::Start(FrameReceiver* receiver) {
  receiver_ = receiver;
  stream_->Start();
}

Status ShmServerPipe::Send(Frame frame) {
  QUIRE_RETURN_IF_ERROR(CheckShmFrame(frame, options_.max_frame_bytes));
  ShmLender::Lent lent = lender_.Lend(std::move(frame.payload));
  const ShmHeader header{
      .bytes = lent.inline_payload.size_bytes(), .lease = lent.lease, .landing = frame.landing};
  ShmOutgoing packet{.payload = std::move(lent.inline_payload), .needs = lent.needs};
  for (const uint64_t taken : client_memory_.TakeReturned()) {
    AppendShmPacket({.type = ShmPacketType::kTaken, .lease = taken}, {}, {}, {}, &packet.bytes);
  }
  AppendShmPacket(header, frame.head, lent.slices, frame.places, &packet.bytes);
  const Status sent = stream_->Send(std::move(packet));
  if (sent.ok()) {
    lender_.CountSent(lent);
  } else {
    ShmLender::ReleaseUnsent(lent);
  }
  return sent;
}

Status ShmServerPipe::OnPacket(ShmPacket& packet) {
  if (packet.header.type == ShmPacketType::kRegion) {
    QUIRE_ASSIGN_OR_RETURN(UniqueFd fd, stream_->TakeDescriptor());
    return client_memory_.SetRegion(std::move(fd), packet.header.bytes);
  }
  QUIRE_ASSIGN_OR_RETURN(Frame frame, TakeShmFrame(packet, &client_memory_));
  receiver_->OnFrame(std::move(frame));
  return OkStatus();
}

void ShmServerPipe::OnEnd(const Status& why) { receiver_->OnClosed(why); }

void ShmServerPipe::Close() {
  stream_->Close();
  lender_.Orphan();
}

}  // namespace quire
