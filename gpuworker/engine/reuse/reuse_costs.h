// SPDX-License-Identifier: Apache-2.0
//
// ReuseCosts: the time that loading and computing rows of prompts over several documents takes, as
// moving means of an engine's measurements. Loads are apart by tier; the transport is the engine's.
// Thread-safety: thread-safe.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_COSTS_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_COSTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/base/threads/mutex.h"
#include "gpuworker/context/cacheblend/loading_controller.h"
#include "quire/contexts.h"
#include "quire/kv_spec.h"

namespace quire::worker {

/// The slowest tier that a document's pages come from.
enum class SourceTier : uint8_t { kDram, kSsd };

/// DRAM where all segments are there.
SourceTier TierOf(const ContextStat& stat, const KvSpec& spec);

/// One amount for each tier.
template <typename T>
class OfTiers {
 public:
  T& operator[](SourceTier tier) { return values_[static_cast<size_t>(tier)]; }
  const T& operator[](SourceTier tier) const { return values_[static_cast<size_t>(tier)]; }

 private:
  std::array<T, 2> values_ = {};
};

/// Loads of a prompt.
struct TierLoad {
  uint64_t bytes = 0;  ///< Bytes of elements, also where units come encoded.
  double seconds = 0;
};

class ReuseCosts {
 public:
  void AddLoads(const OfTiers<TierLoad>& loads) QUIRE_EXCLUDES(mutex_);
  /// `rows` counts rows times layers.
  void AddPrefill(uint64_t rows, double seconds) QUIRE_EXCLUDES(mutex_);

  /// CacheBlend's choice for a layer of these costs (loading_controller.h). One in
  /// LoadProbe::kEvery choices of full prefill loads all the same.
  RatioChoice Choose(const LayerCosts& costs, double least) QUIRE_EXCLUDES(mutex_);

  /// Costs of a layer with so many bytes to load, and `rows` rows; 0 before they were measured.
  LayerCosts OfLayer(const OfTiers<uint64_t>& bytes, uint64_t rows) const QUIRE_EXCLUDES(mutex_);

 private:
  /// Moving mean of rates; 0 before the first.
  class Mean {
   public:
    void Add(double sample) {
      value_ = value_ == 0 ? sample : value_ + kWeight * (sample - value_);
    }
    double value() const { return value_; }

   private:
    static constexpr double kWeight = 0.25;  ///< Weight of a new sample.
    double value_ = 0;
  };

  mutable Mutex mutex_;
  OfTiers<Mean> seconds_per_byte_ QUIRE_GUARDED_BY(mutex_);
  Mean seconds_per_row_ QUIRE_GUARDED_BY(mutex_);
  LoadProbe probe_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_COSTS_H_
