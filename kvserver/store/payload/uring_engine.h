// SPDX-License-Identifier: Apache-2.0
//
// UringEngine: io_uring. Every call borrows a ring of its own from a pool, keeps up to
// `queue_depth` requests in flight on it and gives it back, so no lock is held while anything is in
// flight. When all rings are lent, or one fails, the caller's requests go through PlainEngine
// instead of waiting.
//
// A request that has ended is replaced by the next one before its caller is told, so that the
// device has work while the caller looks at what it got.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_URING_ENGINE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_URING_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "kvserver/store/payload/io_engine.h"
#include "kvserver/store/payload/plain_engine.h"
#include "quire/status.h"

namespace quire::kvserver {

class UringEngine final : public IoEngine {
 public:
  struct Options {
    uint32_t queue_depth = 64;  ///< In flight per call, 1..4096.
    uint32_t max_rings = 64;    ///< Calls at a time that get a ring, at least 1.
  };

  /// Sets up one ring to see whether it can. INVALID_ARGUMENT for options out of range,
  /// UNAVAILABLE with the system's reason when io_uring is missing, forbidden or too old.
  static StatusOr<std::unique_ptr<UringEngine>> Create(const Options& options);
  ~UringEngine() override;

  std::string_view name() const override { return "io_uring"; }
  void Run(IoStream& stream) override;
  int Sync(int fd) override { return plain_.Sync(fd); }

 private:
  class Ring;

  UringEngine(const Options& options, std::unique_ptr<Ring> first);
  /// Null when none can be had now.
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

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_URING_ENGINE_H_
