// SPDX-License-Identifier: Apache-2.0
//
// FaultEngine: another engine with failures that its owner asks for, and with a power switch. It
// remembers what unsynced writes replaced, so that LosePower can take any of them back, as a device
// with a volatile cache does.
//
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_FAULT_ENGINE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_FAULT_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/counters.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "kvserver/store/payload/io_engine.h"

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

  /// The next request of `kind`, after `skip` others of it, gets `fault`. Several wait in line.
  void Inject(Kind kind, IoFault fault, uint64_t skip = 0);
  /// The next Sync fails with `error`.
  void FailNextSync(int error);
  /// Blocks until as many requests as that are paused.
  void AwaitPaused(uint64_t count);
  /// Lets all paused requests go on.
  void Resume();

  /// From now on every request and every Sync fails with `error`, as those of a device that has
  /// gone do; 0: the device is back.
  void FailEverything(int error);
  /// Requests and syncs that were made to fail, or to lie, so far.
  uint64_t injected() const { return hits_.Get(); }

  /// Takes back a random subset of the blocks written since their file's last sync, and forgets the
  /// rest. REQUIRES: nothing is in flight.
  void LosePower(uint64_t seed);

 private:
  struct Injected {
    Kind kind;
    IoFault fault;
    uint64_t skip;
  };
  /// What one block of a file held before an unsynced write.
  struct Replaced {
    int fd;
    uint64_t offset;
    std::vector<std::byte> bytes;
  };

  std::optional<IoFault> Next(Kind kind);
  /// As the faults that are injected want it.
  void RunNext(IoRequest& request);
  void RunOne(IoRequest& request);
  void RunFaulty(IoRequest& request, IoFault fault);
  /// Moves the first half, rounded to sectors.
  void RunHalf(IoRequest& request);
  std::vector<Replaced> BlocksUnder(const IoRequest& write);
  void Pause();

  IoEngine* const inner_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Injected> injected_ QUIRE_GUARDED_BY(mutex_);
  /// Of writes that have ended, so that a sync covers what it has to and no more.
  std::vector<Replaced> replaced_ QUIRE_GUARDED_BY(mutex_);
  int sync_error_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::atomic<int> gone_error_{0};  ///< Of FailEverything.
  Counter hits_;
  uint64_t paused_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t resumed_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_FAULT_ENGINE_H_
