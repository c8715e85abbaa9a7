// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_pipe.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "transport/shm/shm_address.h"
#include "transport/shm/shm_borrower.h"
#include "transport/shm/shm_copy_out.h"
#include "transport/shm/shm_frame.h"
#include "transport/shm/shm_loop.h"
#include "transport/shm/shm_stream.h"
#include "transport/shm/shm_wire.h"

namespace quire {
namespace {

/// The client end of a connection.
class ShmClientPipe final : public FramePipe, private ShmStream::Receiver {
 public:
  ShmClientPipe(std::shared_ptr<ShmLoop> loop, UniqueFd socket, const ShmHeader& greeting,
                std::string path, const ShmConnectOptions& options)
      : path_(std::move(path)),
        max_frame_bytes_(greeting.bytes),
        in_place_((greeting.flags & ShmHeader::kInPlace) != 0),
        copy_in_(std::make_shared<ShmCopyOut>(options.copy_in_bytes)),
        loop_(std::move(loop)),
        stream_(std::make_shared<ShmStream>(
            std::move(socket),
            ShmStream::Options{.limits = {.max_frame_bytes = max_frame_bytes_, .from_server = true},
                               .max_queued_bytes = options.max_queued_bytes,
                               .stall_timeout = options.stall_timeout},
            loop_.get(), static_cast<ShmStream::Receiver*>(this))) {}
  ~ShmClientPipe() override { Close(); }

  PipeCapabilities capabilities() const override {
    return {.name = "shm",
            .max_frame_bytes = max_frame_bytes_,
            .in_place = in_place_,
            .takes_at_once = true,
            .detail = path_};
  }

  void Start(FrameReceiver* receiver) override {
    receiver_ = receiver;
    stream_->Start();
  }

  Status Send(Frame frame) override {
    QUIRE_RETURN_IF_ERROR(CheckShmFrame(frame, max_frame_bytes_));
    if (frame.payload.size_bytes() >= kLeastLentBytes && frame.places.empty()) {
      ShmCopyOut::Block block = copy_in_->Allocate(frame.payload.size_bytes());
      if (!block.empty()) return SendLent(frame, std::move(block));
    }
    std::vector<ShmDescriptor> slices;
    slices.reserve(frame.payload.slices().size());
    for (const Slice& slice : frame.payload.slices()) {
      slices.push_back({.bytes = static_cast<uint32_t>(slice.bytes.size())});
    }
    const ShmHeader header{.bytes = frame.payload.size_bytes(), .landing = frame.landing};
    ShmOutgoing packet{.payload = std::move(frame.payload)};
    AppendShmPacket(header, frame.head, slices, frame.places, &packet.bytes);
    return stream_->Send(std::move(packet));
  }

  void Close() override {
    stream_->Close();
    ReleaseChannel();
  }

 private:
  /// Smaller payloads go through the socket, which costs less than their return.
  static constexpr uint64_t kLeastLentBytes = 32 << 10;

  /// Sends a frame with its payload in `block`, which is kept until the server has taken it.
  Status SendLent(const Frame& frame, ShmCopyOut::Block block) QUIRE_EXCLUDES(mutex_) {
    frame.payload.CopyTo(block.bytes().data());
    std::vector<ShmDescriptor> slices;
    slices.reserve(frame.payload.slices().size());
    uint64_t offset = block.offset();
    for (const Slice& slice : frame.payload.slices()) {
      slices.push_back({.offset = offset,
                        .bytes = static_cast<uint32_t>(slice.bytes.size()),
                        .region = kShmClientRegion});
      offset += slice.bytes.size();
    }
    ShmHeader header{.landing = frame.landing};
    ShmOutgoing packet;
    {
      MutexLock lock(mutex_);
      header.lease = ++last_lent_;
      lent_.emplace(header.lease, std::move(block));
      packet.needs = CopyInPrelude();
    }
    AppendShmPacket(header, frame.head, slices, {}, &packet.bytes);
    Status sent = stream_->Send(std::move(packet));
    if (!sent.ok()) (void)TakeBack(header.lease);
    return sent;
  }
  uint64_t CopyInPrelude() QUIRE_REQUIRES(mutex_) {
    if (copy_in_needs_ == 0) {
      const SharedMemoryView view = copy_in_->view();
      ShmOutgoing region{.bytes = {}, .fd = view.fd, .fd_owner = copy_in_};
      AppendShmPacket(
          {.type = ShmPacketType::kRegion, .number = kShmClientRegion, .bytes = view.bytes.size()},
          {}, {}, {}, &region.bytes);
      copy_in_needs_ = stream_->AddPrelude(std::move(region));
    }
    return copy_in_needs_;
  }
  /// Frees what was lent under a number. INVALID_ARGUMENT when nothing was.
  Status TakeBack(uint64_t lease) QUIRE_EXCLUDES(mutex_) {
    ShmCopyOut::Block block;  // Freed outside the lock.
    MutexLock lock(mutex_);
    const auto it = lent_.find(lease);
    if (it == lent_.end()) {
      return InvalidArgument("shared-memory connection: the server returns what it was not lent");
    }
    block = std::move(it->second);
    lent_.erase(it);
    return OkStatus();
  }

  /// Releases the channel's share after the last packet. Leases of frames that were never taken end
  /// with the channel, and that with the last frame taken.
  void ReleaseChannel() QUIRE_EXCLUDES(mutex_) {
    std::shared_ptr<ShmBorrower> released;
    MutexLock lock(mutex_);
    released.swap(borrower_);
  }
  std::shared_ptr<ShmBorrower> borrower() QUIRE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return borrower_;
  }

  Status OnPacket(ShmPacket& packet) override {
    const std::shared_ptr<ShmBorrower> borrower = this->borrower();
    if (borrower == nullptr) return Unavailable("shared-memory connection: it was closed here");
    switch (packet.header.type) {
      case ShmPacketType::kLeaseChannel: {
        QUIRE_ASSIGN_OR_RETURN(UniqueFd fd, stream_->TakeDescriptor());
        constexpr auto kLongest =
            std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::hours(24 * 365));
        const auto micros = std::min<uint64_t>(packet.header.bytes, kLongest.count());
        return borrower->SetChannel(std::move(fd), std::chrono::microseconds(micros));
      }
      case ShmPacketType::kRegion: {
        QUIRE_ASSIGN_OR_RETURN(UniqueFd fd, stream_->TakeDescriptor());
        return borrower->AddRegion(packet.header.number, std::move(fd), packet.header.bytes);
      }
      case ShmPacketType::kTaken:
        return TakeBack(packet.header.lease);
      case ShmPacketType::kGreeting:
        return InvalidArgument("shared-memory connection: the server greeted twice");
      case ShmPacketType::kFrame:
        break;
    }
    QUIRE_ASSIGN_OR_RETURN(Frame frame, TakeShmFrame(packet, borrower.get()));
    receiver_->OnFrame(std::move(frame));
    return OkStatus();
  }
  void OnEnd(const Status& why) override {
    ReleaseChannel();
    receiver_->OnClosed(why);
  }

  const std::string path_;
  const uint64_t max_frame_bytes_;
  const bool in_place_;
  const std::shared_ptr<ShmCopyOut> copy_in_;
  const std::shared_ptr<ShmLoop> loop_;
  Mutex mutex_;
  uint64_t last_lent_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, ShmCopyOut::Block> lent_ QUIRE_GUARDED_BY(mutex_);  ///< By lease.
  uint64_t copy_in_needs_ QUIRE_GUARDED_BY(mutex_) = 0;                  ///< 0: not yet announced.
  std::shared_ptr<ShmBorrower> borrower_ QUIRE_GUARDED_BY(mutex_) = std::make_shared<ShmBorrower>();
  const std::shared_ptr<ShmStream> stream_;
  FrameReceiver* receiver_ = nullptr;  ///< Set before the stream starts.
};

Status CannotConnect(const std::string& path, std::string_view why) {
  return Unavailable("cannot connect to the shared-memory socket ", path, ": ", why);
}

StatusOr<UniqueFd> Connect(const std::string& path, Duration timeout) {
  QUIRE_ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return ResourceExhausted("cannot make a socket: ", std::strerror(errno));
  // Also bounds how long connect waits for a listener that does not accept.
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  const timeval limit = {.tv_sec = micros / 1'000'000, .tv_usec = micros % 1'000'000};
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return CannotConnect(path, std::strerror(errno));
  }
  WidenSocket(socket.get());
  return socket;
}

/// Reads exactly the greeting.
StatusOr<ShmHeader> ReceiveGreeting(int fd, const std::string& path, Duration timeout) {
  std::array<std::byte, sizeof(ShmHeader)> bytes;
  const TimePoint deadline = SystemClock().Now() + timeout;
  for (size_t have = 0; have < bytes.size();) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - SystemClock().Now()).count();
    pollfd readable = {.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = left <= 0 ? 0 : poll(&readable, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return CannotConnect(path, "the server does not answer in time");
    const ssize_t got = recv(fd, bytes.data() + have, bytes.size() - have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) {
      return CannotConnect(path, "the server refused this process (another user's?) or is full");
    }
    have += static_cast<size_t>(got);
  }
  QUIRE_ASSIGN_OR_RETURN(const ShmHeader header,
                         DecodeShmHeader(bytes, {.max_frame_bytes = 0, .from_server = true}));
  if (header.type != ShmPacketType::kGreeting) {
    return CannotConnect(path, "what listens there is no such server");
  }
  return header;
}

}  // namespace

StatusOr<std::unique_ptr<FramePipe>> ConnectShm(const std::string& path,
                                                const ShmConnectOptions& options) {
  QUIRE_ASSIGN_OR_RETURN(UniqueFd socket, Connect(path, options.connect_timeout));
  QUIRE_ASSIGN_OR_RETURN(const ShmHeader greeting,
                         ReceiveGreeting(socket.get(), path, options.connect_timeout));
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<ShmLoop> loop, ShmLoop::Start(options.spin));
  return std::unique_ptr<FramePipe>(
      std::make_unique<ShmClientPipe>(std::move(loop), std::move(socket), greeting, path, options));
}

}  // namespace quire
