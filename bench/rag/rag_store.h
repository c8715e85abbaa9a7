// SPDX-License-Identifier: Apache-2.0
//
// RagStore: a server in this process that listens, and a worker that recalls from it over one
// transport. On the tier "ssd" its memory holds little, so that documents are read from files.
// Ownership: owns server, client and worker. Thread-safety: as Engine.
#ifndef QUIRE_BENCH_RAG_RAG_STORE_H_
#define QUIRE_BENCH_RAG_RAG_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "apps/kit/data_dir.h"
#include "apps/kit/worker/local_worker.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/client.h"
#include "quire/status.h"

namespace quire::bench {

struct RagStore {
  std::unique_ptr<cli::DataDir> directory;
  std::unique_ptr<EmbeddedStore> store;
  std::unique_ptr<Client> client;
  cli::LocalWorker worker;
};

/// Opens one for `model` with its data in a fresh directory. `tier` is "dram" or "ssd"; `transport`
/// is "shm", "ucx" or "grpc". `block_tokens` are those of SamKV's blocks. UNAVAILABLE when that
/// transport cannot be had here.
StatusOr<RagStore> OpenRagStore(const std::string& model, const std::string& tier,
                                const std::string& transport, uint32_t block_tokens);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_RAG_RAG_STORE_H_
