// SPDX-License-Identifier: Apache-2.0
//
// BudgetCache: the KV pages of one sequence that are on the device. For each layer two pools of
// NHD slots, `[num_slots][p][n_kv][d]` in the KV dtype, and a PageTable that says which page is in
// which slot. Latents (MLA) have one pool, since a latent is key and value. Units come in (recall)
// and pages go out (offload) through the layout kernels.
//
// Recalled units go into their slots while the device computes, where it has streams
// (staging_buffers.h). Attention submitted after RecordPlacements finds them in their slots.
// Attention submitted earlier finds the previous contents.
//
// Where no layer has selectable pages, the kernels of a token can be recorded and launched again
// for the next one. Lists hold what differs between tokens (step_lists.h).
//
// Ownership: owns the device memory; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_CACHE_BUDGET_CACHE_H_
#define QUIRE_GPUWORKER_CACHE_BUDGET_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/cache/joint_attention.h"
#include "gpuworker/cache/joint_staging.h"
#include "gpuworker/cache/page_table.h"
#include "gpuworker/cache/staged_units.h"
#include "gpuworker/cache/staging_buffers.h"
#include "gpuworker/cache/step_lists.h"
#include "gpuworker/device/device.h"
#include "gpuworker/device/device_list.h"
#include "gpuworker/device/joint_work.h"
#include "quire/kv_spec.h"
#include "quire/payload.h"
#include "quire/status.h"

namespace quire::worker {

class BudgetCache {
 public:
  /// `layouts` has one entry a layer; `staging_buffers`, at least 1, are those of a device that
  /// needs them (staging_buffers.h). `soft_cap` above 0 bounds the scores of attention, but for
  /// latents. UNIMPLEMENTED for MLA pages where the device has no mla_attention.
  static StatusOr<std::unique_ptr<BudgetCache>> Create(const KvSpec& spec, Device* device,
                                                       std::span<const CacheLayout> layouts,
                                                       uint32_t staging_buffers = 2,
                                                       float soft_cap = 0);

  /// Gives `joint` what it has taken of this cache.
  ~BudgetCache();
  BudgetCache(const BudgetCache&) = delete;
  BudgetCache& operator=(const BudgetCache&) = delete;

  /// Raw units go into their slots by `joint`, with those of other caches. It outlives this.
  void ShareStaging(JointStaging* joint) { joint_staging_ = joint; }
  /// Holds kCompute for units that have been recorded since the last call, where `joint` has them;
  /// launch it before.
  [[nodiscard]] Status HoldForUnits();

  const KvSpec& spec() const { return spec_; }
  uint32_t num_layers() const { return static_cast<uint32_t>(layers_.size()); }
  PageTable& table(uint32_t layer) { return layers_[layer].table; }
  const PageTable& table(uint32_t layer) const { return layers_[layer].table; }
  /// Device memory of the slots. While a layer's pool grows, the one before it is there as well.
  uint64_t pool_bytes() const;

  /// Takes the next `count` tokens; `k` and `v` are [count][n_kv][d] floats on the device, `v` is
  /// null for MLA.
  [[nodiscard]] Status AppendTokens(uint32_t layer, const float* k, const float* v, uint32_t count);

  /// AppendTokens of one token, whose rows `work` writes at its next Launch.
  [[nodiscard]] Status AppendToken(uint32_t layer, const float* k, const float* v, JointWork* work);

  /// Every layer starts with `num_tokens` tokens. The pages of its fixed slots are filled with
  /// FillFixed before anything attends to them.
  [[nodiscard]] Status StartAt(uint64_t num_tokens);
  /// Writes pages that have fixed slots; `units` is [pages][n_kv], in `codecs`, or raw without any.
  [[nodiscard]] Status FillFixed(uint32_t layer, std::span<const uint32_t> pages,
                                 const Payload& units, std::span<const UnitCodec> codecs = {});
  /// Makes `layer` whole, or gives it the slots of its budget, with its sinks and window. No other
  /// page is in its slots then: FillFixed or recalls bring them. Nothing is being written to it.
  /// While pages are copied, the slots before are there as well. After an error the cache is good
  /// for nothing.
  [[nodiscard]] Status SetWhole(uint32_t layer, bool whole);
  /// The slots of one layer.
  struct Slots {
    DeviceBuffer k;
    DeviceBuffer v;
    uint32_t capacity = 0;
  };
  /// Gives the slots of `layer` away. Nothing may be done with the cache any more.
  Slots GiveSlots(uint32_t layer);
  /// Takes slots of a cache of the same spec and device that held all `num_tokens` tokens of
  /// `layer`, which is whole here. Call it before StartAt.
  [[nodiscard]] Status TakeSlots(uint32_t layer, Slots slots, uint64_t num_tokens);
  /// Copies those of `pages` that have fixed slots in `from` as well, a cache of the same spec and
  /// device. `pages` ascend and have fixed slots here. Returns the others. INVALID_ARGUMENT for a
  /// page without a fixed slot here.
  StatusOr<std::vector<uint32_t>> CopyFixed(uint32_t layer, std::span<const uint32_t> pages,
                                            const BudgetCache& from);
  /// Checks the placements, writes their units and records them. Nothing is written when the table
  /// refuses one, or when `units` are not as many (DATA_LOSS).
  [[nodiscard]] Status PlaceUnits(uint32_t layer, std::span<const SlotPlacement> placements,
                                  const Payload& units);

  /// PlaceUnits in steps, for units that arrive a few at a time. Call CheckPlacements, write, and
  /// call RecordPlacements. Different slots may be written in pieces and on several threads. The
  /// layer must not attend meanwhile. Writing looks at no table, and does not wait for the device;
  /// the units' bytes may change after its return. After an error between these steps the layer's
  /// selectable slots have to be emptied (PageTable::EmptySelectable).
  [[nodiscard]] Status CheckPlacements(uint32_t layer,
                                       std::span<const SlotPlacement> placements) const;
  /// Units in a `codec` are decoded on the way. They are not larger than raw ones.
  [[nodiscard]] Status WriteUnits(uint32_t layer, std::span<const SlotPlacement> placements,
                                  const Payload& units, UnitCodec codec = UnitCodec::kRaw) const;
  /// As WriteUnits of raw units, but every row (keys or values of one token and head) is a copy of
  /// its own.
  [[nodiscard]] Status WriteRows(uint32_t layer, std::span<const SlotPlacement> placements,
                                 const Payload& units) const;
  [[nodiscard]] Status RecordPlacements(uint32_t layer, std::span<const SlotPlacement> placements);
  /// How long what the device computes has waited for units to be in their slots, as far as that
  /// has ended and nobody has asked. Waits for nothing.
  StatusOr<Duration> TakeHeld() { return placement_holds_->Take(); }

  /// Attention of the last token, `q` [n_q][d] and `out` [n_q][value_dim], over everything its
  /// layer attends to.
  [[nodiscard]] Status Attend(uint32_t layer, const float* q, float* out) const;
  /// Attend of the last token by `attention`, at its next Launch; call OnAttended after that.
  /// `attention` has the soft cap of this cache.
  void AddAttention(uint32_t layer, const float* q, float* out, JointAttention* attention) const;
  [[nodiscard]] Status OnAttended(uint32_t layer) const {
    return layers_[layer].attended->Record(DeviceStream::kCompute);
  }
  /// Causal attention of the last `count` tokens in a layer that holds everything.
  [[nodiscard]] Status AttendDense(uint32_t layer, const float* q, uint32_t count,
                                   float* out) const;

  /// True if PrepareToken may be called: no layer has selectable pages, and the device does not
  /// read lists in host memory.
  bool recordable() const { return step_lists_.has_value(); }
  /// Takes the next token in every layer. RunToken then runs that token.
  [[nodiscard]] Status PrepareToken();
  /// Gives the device the kernels of that token in one layer, and nothing else. Its row `k` and
  /// `v`, [n_kv][d] floats on the device, goes into the cache. Its attention follows, with `q` and
  /// `out` as in Attend. For equal pointers they are the same kernels with the same arguments as
  /// long as recording_key() is the same.
  [[nodiscard]] Status RunToken(uint32_t layer, const float* k, const float* v, const float* q,
                                float* out) const;
  /// Identifies this cache and its current pools. Changes when a layer's pools move.
  const std::shared_ptr<const void>& recording_key() const { return recording_key_; }

  /// ExportPage of a full page, at the next Launch of `work`.
  [[nodiscard]] Status AddPage(uint32_t layer, uint32_t page, void* units, JointWork* work) const;
  /// Copies page `page`, which has a fixed slot and `rows` tokens, as units [n_kv] to the device
  /// address `units`; rows from `rows` on are zero.
  [[nodiscard]] Status ExportPage(uint32_t layer, uint32_t page, uint32_t rows, void* units) const;

 private:
  struct Layer {
    Layer(const CacheLayout& layout, const KvSpec& spec)
        : table(layout, spec.page_tokens, spec.num_kv_heads) {}
    PageTable table;
    DeviceBuffer k;
    DeviceBuffer v;                         ///< No memory for MLA.
    uint32_t capacity = 0;                  ///< Slots allocated.
    std::unique_ptr<DeviceEvent> attended;  ///< All attention so far, and the zeroing before it.
    std::unique_ptr<DeviceEvent> written;   ///< All units so far.
  };
  BudgetCache(const KvSpec& spec, Device* device, float soft_cap)
      : spec_(spec),
        device_(device),
        soft_cap_(soft_cap),
        placement_holds_(device->MakeHoldTimer()) {}

  uint64_t RowFloats() const { return uint64_t{spec_.num_kv_heads} * spec_.key_dim(); }
  uint64_t RowBytes() const;   ///< One token of one pool.
  uint64_t SlotBytes() const;  ///< One page of one pool.
  /// Slots that the pools of a layer have for its table's.
  uint32_t Capacity(const Layer& layer) const;
  /// Grows the layer's pools to hold its table's slots.
  Status Reserve(Layer& layer);
  Status MakeEvents(Layer& layer);
  /// Staging for a device that needs it, where units are recalled.
  Status MakeStaging(uint32_t buffers);
  std::vector<kernels::UnitAddress> AddressesOf(const Layer& layer,
                                                std::span<const SlotPlacement> placements) const;
  /// Puts `count` tokens into both pools, from row `row`, slot * p + row in it, on.
  Status WriteTokens(const Layer& layer, uint64_t row, const float* k, const float* v,
                     uint32_t count);
  /// The pools of a layer, each with one of `k` and `v`, which belong to it.
  template <typename T>
  std::vector<std::pair<const DeviceBuffer*, T>> WithPools(const Layer& layer, T k, T v) const {
    if (!spec_.has_values()) return {{&layer.k, k}};
    return {{&layer.k, k}, {&layer.v, v}};
  }
  float Scale() const;  ///< Scale of scores.
  Status AttendLatents(const Layer& layer, const StepLists::Lists& lists, const float* q,
                       float* out) const;
  /// Attention over the slots of a layer that `lists` name.
  Status AttendSlots(const Layer& layer, const StepLists::Lists& lists, const float* q,
                     float* out) const;
  /// Causal attention of `count` tokens, the last of `n` or those that `last_key` says.
  Status AttendRows(const Layer& layer, const float* q, int64_t count, int64_t n,
                    const int32_t* last_key, float* out) const;
  /// `count` slots of both pools.
  Status CopySlots(const Layer& from, uint32_t from_slot, const Layer& to, uint32_t to_slot,
                   uint32_t count);
  /// A layer without a table that has `slots`.
  Layer LayerOf(Slots slots) const;
  /// Writes units in `codecs`, those of one codec that follow one another together.
  Status ScatterByCodec(const Layer& layer, const Payload& units, std::span<const UnitCodec> codecs,
                        std::span<const kernels::UnitPlacement> places) const;
  Status ScatterUnits(const Layer& layer, const StagedUnits& staged, UnitCodec codec,
                      std::span<const kernels::UnitPlacement> places) const;

  const KvSpec spec_;
  Device* const device_;
  const float soft_cap_;
  const std::unique_ptr<HoldTimer> placement_holds_;  ///< Times holds of kCompute.
  std::vector<Layer> layers_;
  mutable AttendedSlots attended_;  ///< Scratch of Attend.
  // Device copies of the host's lists, for kernels.
  mutable DeviceList<int32_t> slot_list_;
  mutable DeviceList<int32_t> valid_list_;
  mutable DeviceList<int32_t> first_list_;
  std::optional<StepLists> step_lists_;  ///< Set when recordable().
  std::shared_ptr<const void> recording_key_ = std::make_shared<const char>();
  DeviceBuffer attention_workspace_;  ///< Empty on the host, whose attention needs none.
  /// Null where kernels read the host's memory, or nothing is recalled. After the pools: it waits
  /// for what writes to them before they go.
  std::unique_ptr<StagingBuffers> staging_;
  JointStaging* joint_staging_ = nullptr;  ///< In place of staging_ for raw units; may be null.
  bool holds_for_units_ = false;           ///< HoldForUnits has something to do.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_BUDGET_CACHE_H_
