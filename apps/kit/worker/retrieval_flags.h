// SPDX-License-Identifier: Apache-2.0
//
// The flags that choose policy and budget, the same for every command that runs a model.
#ifndef QUIRE_APPS_KIT_WORKER_RETRIEVAL_FLAGS_H_
#define QUIRE_APPS_KIT_WORKER_RETRIEVAL_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/memory/memory_limit.h"
#include "gpuworker/retrieval/options.h"
#include "quire/status.h"

namespace CLI {
class App;
}

namespace quire::cli {

/// Defaults of `ask`, `demo` and `worker`: `quest` at the worker, 768 tokens a head in every layer,
/// 32 of them sinks and 64 window. Another policy has all of that but the layers: those published
/// with it keep everything (worker::WithPolicy).
worker::RetrievalOptions DefaultRetrieval();

/// Values of the command line; unset: not given.
struct RetrievalFlags {
  std::optional<std::string> policy;
  bool published = false;
  std::optional<uint32_t> budget_tokens;
  std::optional<uint32_t> sink_tokens;
  std::optional<uint32_t> window_tokens;
  std::optional<std::vector<uint32_t>> uncompressed_layers;
  std::optional<worker::SelectionSide> side;
  std::optional<float> correction_threshold;
  std::optional<bool> correct_retrieval_heads;
  std::optional<double> recall_deadline_ms;
  std::optional<uint32_t> units_per_buffer;
  std::optional<uint32_t> key_rank;
  std::optional<uint32_t> selection_memory;

  /// recall_deadline_ms in whole microseconds.
  std::optional<uint32_t> RecallDeadlineMicros() const;

  /// DefaultRetrieval() with the policy, or what was published with it in pages of `page_tokens`,
  /// with what was given.
  StatusOr<worker::RetrievalOptions> Options(uint32_t page_tokens) const;
  /// The same for a command whose sequences all have this policy. INVALID_ARGUMENT naming a flag
  /// that the policy does not read. (A worker's calls may name other policies.)
  StatusOr<worker::RetrievalOptions> OptionsOfPolicy(uint32_t page_tokens) const;
};

/// Adds --policy, --published, --budget, --sinks, --window, --uncompressed-layers, --select, --tau,
/// --correct-heads, --recall-deadline-ms, --units-per-buffer, --key-rank and --selection-memory.
/// `flags` lives as long as `command`.
void AddRetrievalFlags(CLI::App& command, RetrievalFlags& flags);

/// Adds --host-cache-bytes, for commands that run a model in this process. The default is the value
/// of `*bytes`; 0 means none. `bytes` lives as long as `command`.
void AddHostCacheFlag(CLI::App& command, uint64_t* bytes);

/// Host memory that a program with a model may take, in bytes.
struct HostMemoryAsked {
  uint64_t cache = 0;              ///< --host-cache-bytes.
  uint64_t slots = 0;              ///< --slot-bytes; 0: they lie elsewhere.
  uint64_t device = 0;             ///< --device-memory, in place of slots.
  bool slots_are_default = false;  ///< Not asked for by an option.
};
/// INVALID_ARGUMENT naming the option that alone asks for more than `limit`. A default is no such
/// option: it is an upper bound, and MemoryMayNotSuffice.
Status CheckHostMemory(const HostMemoryAsked& asked, const MemoryLimit& limit);
/// True when all of it together is more than `limit`.
bool MemoryMayNotSuffice(const HostMemoryAsked& asked, const MemoryLimit& limit);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_WORKER_RETRIEVAL_FLAGS_H_
