// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/payload/engine/uring_engine.h"

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "kvserver/store/payload/engine/io_progress.h"

namespace quire::kvserver {
namespace {

constexpr uint32_t kMaxQueueDepth = 4096;
/// Limit of one call; the rest is continued.
constexpr size_t kMaxTransferBytes = size_t{1} << 30;
/// Bytes submitted at a time. The system starts only after preparing a whole submission, and the
/// device would be idle meanwhile.
constexpr uint64_t kSubmitBytes = 1 << 20;

}  // namespace

/// One io_uring. Thread-safety: none; it has one user at a time.
class UringEngine::Ring {
 public:
  /// Null, with `error` set to an errno value, when the system refuses.
  static std::unique_ptr<Ring> Create(uint32_t depth, int* error);
  ~Ring() {
    if (set_up_) io_uring_queue_exit(&ring_);
  }

  bool Supports(int opcode);
  /// Runs all requests of `stream`. Returns false when the ring stopped working. No request is with
  /// the system then. Run Unfinished() and the rest of the stream elsewhere, and drop the ring.
  bool Run(IoStream& stream);
  /// Requests that have not ended.
  std::vector<IoRequest*> Unfinished() { return std::exchange(in_flight_, {}); }

 private:
  explicit Ring(uint32_t depth) : depth_(depth) { in_flight_.reserve(depth); }
  /// Prepares the rest of a request in flight.
  void Push(IoRequest& request);
  /// Pushes requests while the stream has some and there is room.
  void Fill(IoStream& stream);
  bool SubmitAndWait();
  /// Takes completions; continues short ones.
  void Reap();
  void End(IoRequest& request);
  /// Reports finished requests to the stream.
  void Tell(IoStream& stream);

  const uint32_t depth_;
  bool set_up_ = false;
  /// Pushed and not reaped: with the system, or still in the queue; a few dozen.
  std::vector<IoRequest*> in_flight_;
  std::vector<IoRequest*> ended_;  ///< Reaped, but not yet reported.
  io_uring ring_{};
};

std::unique_ptr<UringEngine::Ring> UringEngine::Ring::Create(uint32_t depth, int* error) {
  std::unique_ptr<Ring> ring(new Ring(depth));
  // The submitter itself waits, so completions need not interrupt it; kernels before 5.19 lack it.
  int result = io_uring_queue_init(depth, &ring->ring_, IORING_SETUP_COOP_TASKRUN);
  if (result == -EINVAL) result = io_uring_queue_init(depth, &ring->ring_, 0);
  if (result != 0) {
    *error = -result;
    return nullptr;
  }
  ring->set_up_ = true;
  return ring;
}

bool UringEngine::Ring::Supports(int opcode) {
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return false;
  const bool supported = io_uring_opcode_supported(probe, opcode) != 0;
  io_uring_free_probe(probe);
  return supported;
}

void UringEngine::Ring::Push(IoRequest& request) {
  // There is room: at most depth_ requests are in flight.
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  std::byte* const buffer = request.buffer + request.done;
  const auto length =
      static_cast<unsigned>(std::min(request.length - request.done, kMaxTransferBytes));
  const uint64_t offset = request.offset + request.done;
  if (request.kind == IoRequest::Kind::kRead) {
    io_uring_prep_read(sqe, request.fd, buffer, length, offset);
  } else {
    io_uring_prep_write(sqe, request.fd, buffer, length, offset);
  }
  io_uring_sqe_set_data(sqe, &request);
}

bool UringEngine::Ring::SubmitAndWait() {
  const int result = io_uring_submit_and_wait(&ring_, 1);
  if (result >= 0 || result == -EINTR) return true;
  if (in_flight_.size() == io_uring_sq_ready(&ring_))
    return false;  // No request is with the system.
  io_uring_cqe* cqe = nullptr;
  while (io_uring_wait_cqe(&ring_, &cqe) == -EINTR) {
  }
  return true;
}

void UringEngine::Ring::Reap() {
  io_uring_cqe* cqe = nullptr;
  while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
    IoRequest& request = *static_cast<IoRequest*>(io_uring_cqe_get_data(cqe));
    const int result = cqe->res;
    io_uring_cqe_seen(&ring_, cqe);
    if (Continues(request, result)) {
      Push(request);
    } else {
      End(request);
    }
  }
}

void UringEngine::Ring::End(IoRequest& request) {
  const auto place = std::ranges::find(in_flight_, &request);
  *place = in_flight_.back();
  in_flight_.pop_back();
  ended_.push_back(&request);
}

void UringEngine::Ring::Tell(IoStream& stream) {
  for (IoRequest* const request : ended_) stream.Ended(*request);
  ended_.clear();
}

void UringEngine::Ring::Fill(IoStream& stream) {
  uint64_t bytes = 0;
  while (in_flight_.size() < depth_) {
    IoRequest* const next = stream.Next();
    if (next == nullptr) break;
    if (next->length == 0) {
      ended_.push_back(next);
      continue;
    }
    in_flight_.push_back(next);
    Push(*next);
    bytes += next->length;
    if (bytes < kSubmitBytes) continue;
    (void)io_uring_submit(&ring_);  // SubmitAndWait submits, or reports, the rest.
    bytes = 0;
  }
  // Replacements of finished requests are submitted before the stream is notified.
  if (bytes > 0 && !ended_.empty()) (void)io_uring_submit(&ring_);
}

bool UringEngine::Ring::Run(IoStream& stream) {
  for (;;) {
    Fill(stream);
    const bool told = !ended_.empty();
    Tell(stream);
    if (in_flight_.empty()) {
      if (told) continue;  // The stream may have waited for those.
      return true;
    }
    if (!SubmitAndWait()) return false;
    Reap();
  }
}

StatusOr<std::unique_ptr<UringEngine>> UringEngine::Create(const Options& options) {
  if (options.queue_depth == 0 || options.queue_depth > kMaxQueueDepth) {
    return InvalidArgument("io queue depth is ", options.queue_depth, ", must be 1..",
                           kMaxQueueDepth);
  }
  if (options.max_rings == 0) return InvalidArgument("io rings is 0, must be at least 1");
  int error = 0;
  std::unique_ptr<Ring> ring = Ring::Create(options.queue_depth, &error);
  if (ring == nullptr) return Unavailable("io_uring cannot be set up: ", std::strerror(error));
  if (!ring->Supports(IORING_OP_READ) || !ring->Supports(IORING_OP_WRITE)) {
    return Unavailable("io_uring of this kernel cannot read and write; it is older than 5.6");
  }
  return std::unique_ptr<UringEngine>(new UringEngine(options, std::move(ring)));
}

UringEngine::UringEngine(const Options& options, std::unique_ptr<Ring> first) : options_(options) {
  MutexLock lock(mutex_);
  idle_.reserve(options.max_rings);
  idle_.push_back(std::move(first));
}

UringEngine::~UringEngine() = default;

std::unique_ptr<UringEngine::Ring> UringEngine::Borrow() {
  {
    MutexLock lock(mutex_);
    if (lent_ == options_.max_rings) return nullptr;
    ++lent_;
    if (!idle_.empty()) {
      std::unique_ptr<Ring> ring = std::move(idle_.back());
      idle_.pop_back();
      return ring;
    }
  }
  int error = 0;
  std::unique_ptr<Ring> ring = Ring::Create(options_.queue_depth, &error);
  if (ring == nullptr) Forget();
  return ring;
}

void UringEngine::GiveBack(std::unique_ptr<Ring> ring) {
  MutexLock lock(mutex_);
  --lent_;
  idle_.push_back(std::move(ring));
}

void UringEngine::Forget() {
  MutexLock lock(mutex_);
  --lent_;
}

void UringEngine::Run(IoStream& stream) {
  std::unique_ptr<Ring> ring = Borrow();
  if (ring == nullptr) return plain_.Run(stream);
  if (ring->Run(stream)) return GiveBack(std::move(ring));
  Forget();
  for (IoRequest* const request : ring->Unfinished()) {
    PlainEngine::Finish(*request);
    stream.Ended(*request);
  }
  plain_.Run(stream);
}

}  // namespace quire::kvserver
