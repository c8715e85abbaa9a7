// SPDX-License-Identifier: Apache-2.0
//
// FaultEngine: wraps an engine and injects failures on request. It also has a power switch. It
// remembers the contents that unsynced writes replaced, so LosePower can undo any of them, like a
// device with a volatile cache.
//
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_FAULT_ENGINE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_FAULT_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/payload/engine/io_engine.h"

namespace quire::kvserver {

enum class IoFault {
  kIoError,     ///< EIO; nothing moves.
  kNoSpace,     ///< ENOSPC; nothing moves.
  kShortWrite,  ///< The first half moves, then ENOSPC.
  kTornWrite,   ///< The first half moves, and success is reported.
  kBitFlip,     ///< A read succeeds with one bit changed.
  kPause,       ///< Waits for Resume, then goes on.
};

class FaultEngine final : public IoEngine {
 public:
  using Kind = IoRequest::Kind;

  /// `inner` outlives the engine.
  explicit FaultEngine(IoEngine* inner) : inner_(inner) {}

  std::string_view name() const override { return inner_->name(); }
  void Run(IoStream& stream) override;
  int Sync(int fd) override;

  /// Injects `fault` into the next request of `kind`, after `skip` others of it. Several faults
  /// queue up.
  void Inject(Kind kind, IoFault fault, uint64_t skip = 0);
  /// The next Sync fails with `error`.
  void FailNextSync(int error);
  /// Blocks until `count` requests are paused.
  void AwaitPaused(uint64_t count);
  /// Resumes all paused requests.
  void Resume();

  /// Fails every request and every Sync with `error` from now on, like a device that is gone. 0:
  /// the device is back.
  void FailEverything(int error);
  /// Number of requests and syncs with an injected fault.
  uint64_t injected() const { return hits_.Get(); }

  /// Undoes a random subset of the blocks written since their file's last sync, and forgets the
  /// rest. REQUIRES: no request in flight.
  void LosePower(uint64_t seed);

 private:
  struct Injected {
    Kind kind;
    IoFault fault;
    uint64_t skip;
  };
  /// Contents of one block of a file before an unsynced write.
  struct Replaced {
    int fd;
    uint64_t offset;
    std::vector<std::byte> bytes;
  };

  std::optional<IoFault> Next(Kind kind);
  /// Runs `request` with the injected faults.
  void RunNext(IoRequest& request);
  void RunOne(IoRequest& request);
  void RunFaulty(IoRequest& request, IoFault fault);
  /// Transfers the first half, rounded to sectors.
  void RunHalf(IoRequest& request);
  std::vector<Replaced> BlocksUnder(const IoRequest& write);
  void Pause();

  IoEngine* const inner_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Injected> injected_ QUIRE_GUARDED_BY(mutex_);
  /// Blocks replaced by finished writes, so that a sync covers exactly those.
  std::vector<Replaced> replaced_ QUIRE_GUARDED_BY(mutex_);
  int sync_error_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::atomic<int> gone_error_{0};  ///< Set by FailEverything.
  Counter hits_;
  uint64_t paused_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t resumed_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_TESTING_FAULT_ENGINE_H_
