// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/shm_listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "transport/shm/shm_address.h"
#include "transport/shm/shm_loop.h"
#include "transport/shm/shm_regions.h"
#include "transport/shm/shm_server_pipe.h"
#include "transport/shm/shm_socket_file.h"

namespace quire {
namespace {

/// Pause of accepting after the system had no room for another socket.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

Status Check(const ShmListener::Options& options) {
  if (options.max_frame_bytes < 1 || options.max_frame_bytes > kLargestShmFrame) {
    return InvalidArgument("max_frame_bytes is ", options.max_frame_bytes, ": must be 1..",
                           kLargestShmFrame);
  }
  if (options.max_lease <= Duration::zero() || options.stall_timeout <= Duration::zero()) {
    return InvalidArgument("max_lease and stall_timeout must be more than zero");
  }
  if (options.max_connections < 1) return InvalidArgument("max_connections must be at least 1");
  return OkStatus();
}

bool PeerMayConnect(int fd, bool same_user_only) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         MayConnect(peer.uid, geteuid(), same_user_only);
}

std::string Detail(const ShmListener::Options& options) {
  return options.path + (options.share_memory ? ", in place" : ", copied for each connection");
}

}  // namespace

/// Accepts clients.
class ShmListener::Door final : public ShmLoop::Handler,
                                public std::enable_shared_from_this<ShmListener::Door> {
 public:
  Door(const Options& options, Accept accept, std::shared_ptr<const ShmRegions> regions,
       ShmSocketFile socket)
      : options_(options),
        accept_(std::move(accept)),
        regions_(std::move(regions)),
        pipe_options_{.max_frame_bytes = options.max_frame_bytes,
                      .lender = {.leases = {.max_bytes = options.max_leased_bytes,
                                            .max_age = options.max_lease},
                                 .copy_out_bytes = options.copy_out_bytes},
                      .max_queued_bytes = options.max_queued_bytes,
                      .stall_timeout = options.stall_timeout,
                      .detail = Detail(options)},
        socket_(std::move(socket)) {}

  Status Open() {
    QUIRE_ASSIGN_OR_RETURN(loop_, ShmLoop::Start(options_.spin));
    // Registers without events until the token is stored.
    QUIRE_ASSIGN_OR_RETURN(token_, loop_->Add(socket_->fd(), 0, shared_from_this()));
    loop_->SetEvents(token_, EPOLLIN);
    return OkStatus();
  }
  /// Stops accepting. The loop stays with the pipes.
  void Close() {
    if (loop_ == nullptr) return;
    loop_->Remove(token_);
    socket_.reset();
    loop_.reset();
  }
  std::shared_ptr<const ShmUse> use() const { return use_; }

  void OnReady(uint32_t events) override {
    (void)events;
    UniqueFd client(accept4(socket_->fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
      loop_->SetEvents(token_, 0);
      loop_->SetDeadline(token_, SystemClock().Now() + kAcceptPause);
      return;
    }
    // A refused client reads the end of the connection instead of a greeting.
    if (!PeerMayConnect(client.get(), options_.same_user_only)) {
      return NoteTo(options_.health, Trouble::kCallerUnproven,
                    "a process of another user at " + options_.path +
                        " was not let in; --shm-any-user lets it");
    }
    if (use_->connections >= options_.max_connections) {
      return NoteTo(options_.health, Trouble::kCallRefused,
                    "a connection over shm was closed at once: there are " +
                        std::to_string(options_.max_connections) + ", which is the limit");
    }
    WidenSocket(client.get());
    accept_(
        std::make_unique<ShmServerPipe>(loop_, std::move(client), regions_, use_, pipe_options_));
  }
  void OnDeadline(TimePoint now) override {
    (void)now;
    loop_->SetEvents(token_, EPOLLIN);
  }

 private:
  const Options options_;
  const Accept accept_;
  const std::shared_ptr<const ShmRegions> regions_;
  const ShmServerPipe::Options pipe_options_;
  const std::shared_ptr<ShmUse> use_ = std::make_shared<ShmUse>();
  // Changed only while the loop does not call.
  std::optional<ShmSocketFile> socket_;
  std::shared_ptr<ShmLoop> loop_;
  ShmLoop::Token token_ = 0;
};

StatusOr<std::unique_ptr<ShmListener>> ShmListener::Listen(const Options& options, Accept accept) {
  QUIRE_RETURN_IF_ERROR(Check(options));
  const std::span<const SharedMemoryView> memory =
      options.share_memory ? std::span<const SharedMemoryView>(options.memory)
                           : std::span<const SharedMemoryView>();
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<const ShmRegions> regions, ShmRegions::Make(memory));
  QUIRE_ASSIGN_OR_RETURN(ShmSocketFile socket,
                         ShmSocketFile::Listen(options.path, options.same_user_only ? 0600 : 0666));
  std::unique_ptr<ShmListener> listener(new ShmListener(options.path));
  listener->door_ =
      std::make_shared<Door>(options, std::move(accept), std::move(regions), std::move(socket));
  QUIRE_RETURN_IF_ERROR(listener->door_->Open());
  return listener;
}

ShmListener::~ShmListener() { door_->Close(); }

std::shared_ptr<const ShmUse> ShmListener::use() const { return door_->use(); }

uint64_t ShmListener::connections() const { return use()->connections; }

uint64_t ShmListener::leased_bytes() const { return use()->leased_bytes; }

std::optional<SentPayload> ShmListener::sent_payload() const {
  const std::shared_ptr<const ShmUse> sent = use();
  return SentPayload{.lent_bytes = sent->lent_bytes, .copied_bytes = sent->copied_bytes};
}

}  // namespace quire
