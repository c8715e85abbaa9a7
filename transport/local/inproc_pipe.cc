// SPDX-License-Identifier: Apache-2.0
#include "transport/local/inproc_pipe.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "common/base/threads/mutex.h"

namespace quire {
namespace {

Status Over() { return Unavailable("the connection has been closed"); }

/// One direction: a bounded queue of frames. Thread-safe.
class FrameQueue {
 public:
  explicit FrameQueue(size_t limit) : limit_(limit) {}

  Status Push(Frame frame) {
    MutexLock lock(mutex_);
    while (!closed_ && frames_.size() >= limit_) changed_.Wait(mutex_);
    if (closed_) return Over();
    frames_.push_back(std::move(frame));
    changed_.NotifyAll();
    return OkStatus();
  }
  /// Waits; null when the queue is closed and empty.
  std::optional<Frame> Pop() {
    MutexLock lock(mutex_);
    while (!closed_ && frames_.empty()) changed_.Wait(mutex_);
    if (frames_.empty()) return std::nullopt;
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    changed_.NotifyAll();
    return frame;
  }
  /// Accepts no more frames; queued ones can still be taken.
  void Close() {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  /// Closes the queue, and drops its frames.
  void Drop() {
    std::deque<Frame> lost;  // Owners of payloads are destroyed outside the lock.
    MutexLock lock(mutex_);
    closed_ = true;
    lost.swap(frames_);
    changed_.NotifyAll();
  }

 private:
  const size_t limit_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Frame> frames_ QUIRE_GUARDED_BY(mutex_);
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;
};

/// The landings of a connection, as a device's registrations. Thread-safe.
class Registrations {
 public:
  std::string Add(uint64_t id, std::span<std::byte> memory) {
    MutexLock lock(mutex_);
    memory_[id] = memory;
    return KeyOf(id);
  }
  void Remove(uint64_t id) {
    MutexLock lock(mutex_);
    memory_.erase(id);
  }
  Status Open(uint64_t id, std::string_view key, uint64_t bytes) {
    MutexLock lock(mutex_);
    const auto it = memory_.find(id);
    if (it == memory_.end() || key != KeyOf(id) || bytes != it->second.size()) {
      return InvalidArgument("the key of landing ", id, " is none of this connection's");
    }
    open_.insert(id);
    return OkStatus();
  }
  void Close(uint64_t id) {
    MutexLock lock(mutex_);
    open_.erase(id);
  }
  /// Writes the payload of a frame into its landing if that is open here.
  void Land(Frame* frame) {
    MutexLock lock(mutex_);
    const auto it = memory_.find(frame->landing);
    if (it == memory_.end() || !open_.contains(frame->landing)) return;
    if (frame->places.empty() || !Fits(*frame, it->second.size())) return;
    const auto& slices = frame->payload.slices();
    for (size_t i = 0; i < slices.size(); ++i) {
      std::copy(slices[i].bytes.begin(), slices[i].bytes.end(),
                it->second.data() + frame->places[i]);
    }
    frame->landed_bytes = frame->payload.size_bytes();
    frame->payload = {};
  }

 private:
  static std::string KeyOf(uint64_t id) { return "inproc:" + std::to_string(id); }
  static bool Fits(const Frame& frame, uint64_t bytes) {
    const auto& slices = frame.payload.slices();
    if (frame.places.size() != slices.size()) return false;
    for (size_t i = 0; i < slices.size(); ++i) {
      if (frame.places[i] > bytes || slices[i].bytes.size() > bytes - frame.places[i]) return false;
    }
    return true;
  }

  Mutex mutex_;
  std::map<uint64_t, std::span<std::byte>> memory_ QUIRE_GUARDED_BY(mutex_);
  std::set<uint64_t> open_ QUIRE_GUARDED_BY(mutex_);
};

/// State common to the two ends.
struct Wire {
  explicit Wire(const InprocOptions& options)
      : options(options), to_client(options.queue_frames), to_server(options.queue_frames) {}

  const InprocOptions options;
  FrameQueue to_client;
  FrameQueue to_server;
  Registrations landings;
};

class InprocPipe final : public FramePipe {
 public:
  InprocPipe(std::shared_ptr<Wire> wire, bool is_client)
      : wire_(std::move(wire)),
        is_client_(is_client),
        in_(is_client ? wire_->to_client : wire_->to_server),
        out_(is_client ? wire_->to_server : wire_->to_client) {}
  ~InprocPipe() override { Close(); }

  PipeCapabilities capabilities() const override {
    return {.name = "inproc",
            .max_frame_bytes = wire_->options.max_frame_bytes,
            .piece_bytes = wire_->options.piece_bytes,
            .in_place = true,
            .direct_landing = wire_->options.direct_landing};
  }

  void Start(FrameReceiver* receiver) override {
    MutexLock lock(mutex_);
    if (!closed_) thread_ = std::thread([this, receiver] { Deliver(receiver); });
  }

  Status Send(Frame frame) override {
    const uint64_t bytes = frame.head.size() + frame.payload.size_bytes();
    if (bytes > wire_->options.max_frame_bytes) {
      return ResourceExhausted("the frame has ", bytes, " bytes, more than max_frame_bytes = ",
                               wire_->options.max_frame_bytes);
    }
    return out_.Push(std::move(frame));
  }

  StatusOr<std::string> AddLanding(uint64_t id, std::span<std::byte> memory) override {
    if (!wire_->options.direct_landing) return std::string();
    return wire_->landings.Add(id, memory);
  }
  void RemoveLanding(uint64_t id) override { wire_->landings.Remove(id); }
  Status OpenLanding(uint64_t id, std::string_view key, uint64_t bytes) override {
    if (!wire_->options.direct_landing) return OkStatus();
    return wire_->landings.Open(id, key, bytes);
  }
  void CloseLanding(uint64_t id) override { wire_->landings.Close(id); }

  void Close() override {
    in_.Drop();
    out_.Close();
    MutexLock lock(mutex_);  // A second caller waits for the first.
    closed_ = true;
    if (thread_.joinable()) thread_.join();
  }

  void Drop() {
    in_.Drop();
    out_.Drop();
  }

 private:
  void Deliver(FrameReceiver* receiver) {
    while (auto frame = in_.Pop()) {
      if (is_client_) wire_->landings.Land(&*frame);
      receiver->OnFrame(*std::move(frame));
    }
    receiver->OnClosed(Over());
  }

  const std::shared_ptr<Wire> wire_;
  const bool is_client_;
  FrameQueue& in_;
  FrameQueue& out_;
  Mutex mutex_;
  std::thread thread_ QUIRE_GUARDED_BY(mutex_);
  bool closed_ QUIRE_GUARDED_BY(mutex_) = false;
};

}  // namespace

InprocPair MakeInprocPair(const InprocOptions& options) {
  const auto wire = std::make_shared<Wire>(options);
  return {std::make_unique<InprocPipe>(wire, true), std::make_unique<InprocPipe>(wire, false)};
}

void DropInprocConnection(FramePipe& pipe) { static_cast<InprocPipe&>(pipe).Drop(); }

}  // namespace quire
