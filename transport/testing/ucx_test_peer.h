// SPDX-License-Identifier: Apache-2.0
//
// A receiver, a listener and a connected pair for the tests of the UCX pipe.
#ifndef QUIRE_TRANSPORT_TESTING_UCX_TEST_PEER_H_
#define QUIRE_TRANSPORT_TESTING_UCX_TEST_PEER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "transport/ucx/ucx_context.h"
#include "transport/ucx/ucx_listener.h"
#include "transport/ucx/ucx_pipe.h"
#include "transport/ucx/ucx_worker.h"

namespace quire::testing {

/// Thread-safe.
class Collector final : public FrameReceiver {
 public:
  void OnFrame(Frame frame) override {
    MutexLock lock(mutex_);
    while (stall_) {
      stalled_ = true;
      changed_.NotifyAll();
      changed_.Wait(mutex_);
    }
    frames_.push_back(std::move(frame));
    changed_.NotifyAll();
  }
  void OnClosed(const Status& why) override {
    MutexLock lock(mutex_);
    closed_ = why;
    changed_.NotifyAll();
  }
  /// Waits for the next frame. A connection that ends instead fails the test.
  Frame Next() {
    MutexLock lock(mutex_);
    while (frames_.empty() && !closed_) changed_.Wait(mutex_);
    if (frames_.empty()) {
      ADD_FAILURE() << "closed instead: " << *closed_;
      return {};
    }
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    return frame;
  }
  Status WaitClosed() {
    MutexLock lock(mutex_);
    while (!closed_) changed_.Wait(mutex_);
    return *closed_;
  }
  /// Blocks OnFrame from now on.
  void Stall() {
    MutexLock lock(mutex_);
    stall_ = true;
  }
  void WaitStalled() {
    MutexLock lock(mutex_);
    while (!stalled_) changed_.Wait(mutex_);
  }
  void Resume() {
    MutexLock lock(mutex_);
    stall_ = false;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<Frame> frames_ QUIRE_GUARDED_BY(mutex_);
  std::optional<Status> closed_ QUIRE_GUARDED_BY(mutex_);
  bool stall_ QUIRE_GUARDED_BY(mutex_) = false;
  bool stalled_ QUIRE_GUARDED_BY(mutex_) = false;
};

struct UcxLane {
  std::string name;
  UcxOptions options;
  std::vector<std::string> carriers = {};  ///< Transports that the lane needs.
  /// True if the lane writes remote memory, and both ends agree to it.
  bool writes_slots = false;
};

/// Why `lane` is unavailable on this machine; empty when it is available.
inline std::string WhyNoLane(const UcxLane& lane) {
  const auto context = UcxContext::Create({}, *SocketAddress::Resolve("127.0.0.1:0"));
  if (!context.ok()) return std::string(Message(context.status()));
  char* text = nullptr;
  size_t size = 0;
  FILE* const stream = open_memstream(&text, &size);
  if (stream == nullptr) return "no memory";
  ucp_context_print_info((*context)->handle(), stream);
  std::fclose(stream);
  const std::string info(text, size);
  std::free(text);
  for (const std::string& carrier : lane.carriers) {
    if (info.find("-- " + carrier) == std::string::npos) return "UCX has no " + carrier + " here";
  }
  return {};
}

/// Options with shared-memory lanes, by which the server writes directly.
inline UcxOptions DirectOptions() {
  UcxOptions options;
  options.peer_failure_detection = false;
  options.direct_landings = true;
  options.transports = "posix,tcp";
  return options;
}

/// Both ends agree to direct landings, but no lane supports them.
inline UcxOptions DirectOptionsWithoutALane() { return {.direct_landings = true}; }

inline std::vector<UcxLane> UcxLanesHere() {
  UcxOptions rendezvous;
  rendezvous.rendezvous_bytes = 100'000;
  UcxOptions shared_memory = DirectOptions();
  shared_memory.direct_landings = false;
  return {{.name = "Tcp", .options = {}, .carriers = {"tcp/"}},
          {.name = "TcpRendezvous", .options = rendezvous, .carriers = {"tcp/"}},
          {.name = "SharedMemory", .options = shared_memory, .carriers = {"posix/", "tcp/"}},
          {.name = "SharedMemoryDirect",
           .options = DirectOptions(),
           .carriers = {"posix/", "tcp/"},
           .writes_slots = true}};
}

/// A listener whose accepted pipes wait to be taken.
class Listening {
 public:
  explicit Listening(const UcxOptions& the_options) : options(the_options) {
    auto listening = ListenUcx("127.0.0.1:0", options, [this](std::unique_ptr<FramePipe> pipe) {
      MutexLock lock(mutex_);
      pipes_.push_back(std::move(pipe));
      changed_.NotifyAll();
    });
    EXPECT_TRUE(listening.ok()) << listening.status();
    listener = *std::move(listening);
  }
  StatusOr<std::unique_ptr<FramePipe>> Dial() { return ConnectUcx(listener->address(), options); }
  std::unique_ptr<FramePipe> Take() {
    MutexLock lock(mutex_);
    while (pipes_.empty()) changed_.Wait(mutex_);
    auto pipe = std::move(pipes_.front());
    pipes_.pop_front();
    return pipe;
  }

  const UcxOptions options;
  std::unique_ptr<PipeListener> listener;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::unique_ptr<FramePipe>> pipes_ QUIRE_GUARDED_BY(mutex_);
};

/// A connection whose server worker stops at Halt until Continue. Frames sent meanwhile
/// queue up.
class Halted {
 public:
  explicit Halted(const UcxOptions& options) {
    const SocketAddress address = SocketAddress::Resolve("127.0.0.1:0").value();
    worker_ = MakeUcxWorker(address, options).value();
    Mutex mutex;
    CondVar accepted;
    listener_ = UcxListener::Listen(worker_, address, options, [&](auto pipe) {
                  MutexLock lock(mutex);
                  server = std::move(pipe);
                  accepted.NotifyAll();
                }).value();
    client = ConnectUcx(listener_->address(), options).value();
    {
      MutexLock lock(mutex);
      while (server == nullptr) accepted.Wait(mutex);
    }
    client->Start(&at_client);
    server->Start(&at_server);
  }
  ~Halted() { Continue(); }
  void Halt() {
    worker_->Post([this] {
      MutexLock lock(mutex_);
      while (!let_go_) changed_.Wait(mutex_);
    });
  }
  void Continue() {
    MutexLock lock(mutex_);
    let_go_ = true;
    changed_.NotifyAll();
  }

  Collector at_client, at_server;

 private:
  Mutex mutex_;
  CondVar changed_;
  bool let_go_ QUIRE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<UcxWorker> worker_;
  std::unique_ptr<PipeListener> listener_;

 public:
  std::unique_ptr<FramePipe> client, server;
};

/// Two started ends of a connection.
class Connected {
 public:
  explicit Connected(const UcxOptions& options) : own_(std::in_place, options) { Connect(*own_); }
  explicit Connected(Listening& listening) { Connect(listening); }

 private:
  void Connect(Listening& listening) {
    auto connected = listening.Dial();
    EXPECT_TRUE(connected.ok()) << connected.status();
    client = *std::move(connected);
    server = listening.Take();
    client->Start(&at_client);
    server->Start(&at_server);
  }
  std::optional<Listening> own_;

 public:
  Collector at_client, at_server;
  std::unique_ptr<FramePipe> client, server;
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_UCX_TEST_PEER_H_
