// SPDX-License-Identifier: Apache-2.0
//
// ClockedEnv: a RocksDB environment with another clock. Ownership: owns the environment.
// Thread-safety: as the environment.
#ifndef QUIRE_KVSERVER_STORE_METADATA_CLOCKED_ENV_H_
#define QUIRE_KVSERVER_STORE_METADATA_CLOCKED_ENV_H_

#include <rocksdb/env.h>
#include <rocksdb/system_clock.h>

#include <memory>
#include <utility>

namespace quire::kvserver {

class ClockedEnv final : public rocksdb::EnvWrapper {
 public:
  ClockedEnv(std::unique_ptr<rocksdb::Env> env, std::shared_ptr<rocksdb::SystemClock> clock)
      : EnvWrapper(std::move(env)) {
    file_system_ = target()->GetFileSystem();
    system_clock_ = std::move(clock);
  }
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_METADATA_CLOCKED_ENV_H_
