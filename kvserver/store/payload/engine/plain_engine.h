// SPDX-License-Identifier: Apache-2.0
//
// PlainEngine: pread and pwrite, one request after the other in the caller's thread. Works
// everywhere. Concurrency comes from callers on several threads. Thread-safety: stateless.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_PLAIN_ENGINE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_PLAIN_ENGINE_H_

#include "kvserver/store/payload/engine/io_engine.h"

namespace quire::kvserver {

class PlainEngine final : public IoEngine {
 public:
  std::string_view name() const override { return "pread"; }
  void Run(IoStream& stream) override;
  int Sync(int fd) override;

  /// Runs one request from `done` to its end.
  static void Finish(IoRequest& request);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_PLAIN_ENGINE_H_
