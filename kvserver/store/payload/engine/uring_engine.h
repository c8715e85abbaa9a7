// SPDX-License-Identifier: Apache-2.0
//
// UringEngine: io_uring. Every call borrows its own ring from a pool, keeps up to `queue_depth`
// requests in flight on it, and returns it. No lock is held while requests are in flight. When all
// rings are lent, or one fails, the caller's requests go through PlainEngine without waiting.
//
// A finished request is replaced by the next one before its caller is notified, so the device stays
// busy meanwhile.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_URING_ENGINE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_URING_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/threads/mutex.h"
#include "kvserver/store/payload/engine/io_engine.h"
#include "kvserver/store/payload/engine/plain_engine.h"
#include "quire/status.h"

namespace quire::kvserver {

class UringEngine final : public IoEngine {
 public:
  struct Options {
    uint32_t queue_depth = 64;  ///< Requests in flight per call, 1..4096.
    uint32_t max_rings = 64;    ///< Concurrent calls with a ring, at least 1.
  };

  /// Sets up one ring as a test. INVALID_ARGUMENT for options out of range, UNAVAILABLE with the
  /// system's reason when io_uring is missing, forbidden or too old.
  static StatusOr<std::unique_ptr<UringEngine>> Create(const Options& options);
  ~UringEngine() override;

  std::string_view name() const override { return "io_uring"; }
  void Run(IoStream& stream) override;
  int Sync(int fd) override { return plain_.Sync(fd); }

 private:
  class Ring;

  UringEngine(const Options& options, std::unique_ptr<Ring> first);
  /// Null when none is available.
  std::unique_ptr<Ring> Borrow();
  void GiveBack(std::unique_ptr<Ring> ring);
  void Forget();

  const Options options_;
  PlainEngine plain_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Ring>> idle_ QUIRE_GUARDED_BY(mutex_);
  uint32_t lent_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_URING_ENGINE_H_
