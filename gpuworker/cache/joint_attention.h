// SPDX-License-Identifier: Apache-2.0
//
// JointAttention: attention of one token of each of several sequences, each over slots of its own
// cache, in one launch. Sequences whose queries follow each other in memory go together, apart from
// those that attend to all tokens.
// Ownership: owns its lists and workspace; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_CACHE_JOINT_ATTENTION_H_
#define QUIRE_GPUWORKER_CACHE_JOINT_ATTENTION_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/cache/page_table.h"
#include "gpuworker/device/device.h"
#include "gpuworker/device/packed_lists.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class JointAttention {
 public:
  /// One token of a sequence.
  struct Token {
    const float* q = nullptr;  ///< [n_q][d]
    float* out = nullptr;      ///< [n_q][d]
    const void* k = nullptr;   ///< [num_slots][p][n_kv][d]
    const void* v = nullptr;
    uint32_t num_slots = 0;
    /// Tokens in order from slot 0 on, of which the layer sees all; 0: `attended` says which.
    uint64_t tokens = 0;
    AttendedSlots attended = {};
  };

  /// `soft_cap` above 0 bounds the scores (BudgetCache::Create).
  JointAttention(const KvSpec& spec, Device* device, float soft_cap)
      : spec_(spec), device_(device), soft_cap_(soft_cap) {}

  void Add(Token token) { tokens_.push_back(std::move(token)); }
  /// Gives the device attention of everything that was added.
  [[nodiscard]] Status Launch();

 private:
  /// Sequences of one launch.
  struct Run {
    std::span<const Token> tokens;
    int64_t n_slots = 0;    ///< Most that one of them lists.
    int64_t num_slots = 0;  ///< Most that one of them has.
    bool hides = false;     ///< One of them has rows that a sliding window hides.
    /// Tokens in order, in place of lists of slots.
    bool in_order() const { return tokens.front().tokens > 0; }
  };
  Run RunOf(std::span<const Token> tokens) const;
  bool Follows(const Token& first, const Token& second) const;
  void Pack(const Run& run, PackedLists* lists) const;
  void PackSlots(const Run& run, PackedLists* lists) const;
  Status LaunchRun(const Run& run, PackedLists* lists);
  Status ReserveWorkspace(size_t sequences);

  const KvSpec spec_;
  Device* const device_;
  const float soft_cap_;
  std::vector<Token> tokens_;
  DeviceBuffer lists_;
  DeviceBuffer workspace_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_JOINT_ATTENTION_H_
