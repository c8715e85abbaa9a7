// SPDX-License-Identifier: Apache-2.0
#include "bench/rag/rag_store.h"

#include <algorithm>
#include <utility>

#include "client/data/data_connection.h"
#include "quire/connect.h"

namespace quire::bench {
namespace {

constexpr uint64_t kMemory = uint64_t{1} << 30;
/// Less than any set of documents here has.
constexpr uint64_t kLittleMemory = uint64_t{4} << 20;
/// A block has pages of its own, so that little is read beside selected blocks and pages.
constexpr uint32_t kMostPageTokens = 32;
constexpr uint32_t kSegmentTokens = 256;

}  // namespace

StatusOr<RagStore> OpenRagStore(const std::string& model, const std::string& tier,
                                const std::string& transport, uint32_t block_tokens) {
  RagStore opened;
  QUIRE_ASSIGN_OR_RETURN(opened.directory, cli::DataDir::Make(""));
  QUIRE_ASSIGN_OR_RETURN(
      opened.store, EmbeddedStore::Open({.data_dir = opened.directory->path(),
                                         .dram_bytes = tier == "ssd" ? kLittleMemory : kMemory}));
  QUIRE_RETURN_IF_ERROR(opened.store->Listen({}));
  QUIRE_ASSIGN_OR_RETURN(const auto control, ConnectGrpc(opened.store->address()));
  QUIRE_ASSIGN_OR_RETURN(DataConnection data,
                         ConnectData(control, {.transport = transport,
                                               .ucx_within_host = true,
                                               .control_address = opened.store->address(),
                                               .spin = kWorkerSpin}));
  QUIRE_ASSIGN_OR_RETURN(
      opened.client,
      Client::Create({.transport = control, .data_transport = std::move(data.transport)}));
  const uint32_t page_tokens = std::min(kMostPageTokens, block_tokens / 2);
  QUIRE_ASSIGN_OR_RETURN(opened.worker,
                         cli::LoadLocalWorker(model, opened.client.get(),
                                              {.page_tokens = page_tokens,
                                               .segment_pages = kSegmentTokens / page_tokens,
                                               .statistics_block_tokens = block_tokens}));
  return opened;
}

}  // namespace quire::bench
