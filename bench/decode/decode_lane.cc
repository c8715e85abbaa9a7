// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/decode_lane.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/observe/metrics.h"
#include "common/base/random.h"
#include "gpuworker/engine/batch/batch.h"

namespace quire::bench {
namespace {

constexpr uint64_t kFirstSeed = 3;  ///< Seed of the first sequence's tokens; later ones count up.
/// Temperature so high that all tokens are equally likely, whatever the logits.
constexpr float kAnyToken = 1e30f;
/// More than available: all sequences have their slots from the first step on.
constexpr uint64_t kSlotBytes = uint64_t{1} << 50;

/// The engine of a sequence that runs alone, or, for ways without rows, of a batch.
const worker::Engine& EngineOf(const DecodeEngines& engines, const DecodeWay& way) {
  if (way.kept) return *engines.kept;
  return way.rows ? *engines.rows : *engines.units;
}

void Add(const worker::SequenceStats& stats, DecodeTotals* totals) {
  totals->stall_seconds += stats.seconds_stalled;
  totals->units_selected += stats.units_hit + stats.units_missed + stats.units_from_host;
  totals->units_recalled += stats.units_missed;
  totals->bytes_recalled += stats.moved.units;
  totals->units_from_host += stats.units_from_host;
  totals->late_recalls += stats.late_recalls;
  totals->late_corrections += stats.late_corrections;
  totals->blocking_heads += stats.blocking_heads;
  totals->recalls += stats.recalls;
  totals->attended_tokens += stats.resident_tokens;
}

class OneSequence final : public DecodeLane {
 public:
  OneSequence(std::unique_ptr<worker::Sequence> sequence, const worker::Engine& engine)
      : sequence_(std::move(sequence)),
        vocabulary_(engine.model().vocab_size),
        device_(engine.device()) {}

  static StatusOr<std::unique_ptr<DecodeLane>> Open(const DecodeEngines& engines,
                                                    const DocumentName& document,
                                                    const DecodeWay& way) {
    const worker::Engine& engine = EngineOf(engines, way);
    QUIRE_ASSIGN_OR_RETURN(auto sequence,
                           engine.OpenSequence(document, {.retrieval = way.retrieval}));
    return std::unique_ptr<DecodeLane>(new OneSequence(std::move(sequence), engine));
  }

  Status Step() override {
    const auto token = static_cast<TokenId>(tokens_.Below(vocabulary_));
    return sequence_->Append({&token, 1});
  }
  DecodeTotals Totals() const override {
    DecodeTotals totals;
    Add(sequence_->stats(), &totals);
    totals.messages = totals.recalls;
    totals.used = device_.use();
    return totals;
  }

 private:
  const std::unique_ptr<worker::Sequence> sequence_;
  const uint32_t vocabulary_;
  const worker::Device& device_;
  SeededRandom tokens_{kFirstSeed};
};

class SequenceBatch final : public DecodeLane {
 public:
  explicit SequenceBatch(const worker::Device& device) : device_(device) {}
  static StatusOr<std::unique_ptr<DecodeLane>> Open(const DecodeEngines& engines,
                                                    const DocumentName& document,
                                                    const DecodeWay& way, uint32_t sequences) {
    const worker::Engine& engine = way.kept ? *engines.kept : *engines.units;
    auto lane = std::make_unique<SequenceBatch>(engine.device());
    if (way.rows) lane->rows_.emplace(engines.client, &engine.spec(), engines.row_document);
    const worker::BatchLimits limits{.max_running = sequences,
                                     .max_waiting = sequences,
                                     .step_tokens = sequences,
                                     .slot_bytes = kSlotBytes};
    QUIRE_ASSIGN_OR_RETURN(
        lane->batch_,
        worker::Batch::Create(&engine, limits, lane->rows_ ? &*lane->rows_ : nullptr));
    for (uint64_t seed = kFirstSeed; seed < kFirstSeed + sequences; ++seed) {
      QUIRE_ASSIGN_OR_RETURN(lane->streams_.emplace_back(),
                             lane->batch_->Submit(Request(engine, document, way, seed)));
    }
    return std::unique_ptr<DecodeLane>(std::move(lane));
  }

  Status Step() override {
    batch_->Step();
    for (size_t i = 0; i < streams_.size(); ++i) {
      QUIRE_RETURN_IF_ERROR(
          Annotate(TakeToken(*streams_[i]), "sequence ", i, " of ", streams_.size()));
    }
    return OkStatus();
  }
  DecodeTotals Totals() const override {
    DecodeTotals totals;
    for (const worker::SequenceStats& stats : batch_->Stats()) Add(stats, &totals);
    totals.messages = MetricValuesOf(*batch_).at("batch_recall_messages");
    totals.used = device_.use();
    return totals;
  }

 private:
  /// A sequence that begins with one token and generates arbitrary others until it is full.
  static worker::BatchRequest Request(const worker::Engine& engine, const DocumentName& document,
                                      const DecodeWay& way, uint64_t seed) {
    const uint32_t vocabulary = engine.model().vocab_size;
    worker::BatchRequest request;
    request.document = document;
    request.prompt.push_back(static_cast<TokenId>(SeededRandom(seed).Below(vocabulary)));
    request.retrieval = way.retrieval;
    request.params.max_new_tokens = std::numeric_limits<uint32_t>::max();
    request.params.temperature = kAnyToken;
    request.params.seed = seed;
    return request;
  }
  /// Takes the token of a step; every sequence has one.
  static Status TakeToken(worker::BatchStream& stream) {
    if (!stream.WaitFor(Duration::zero())) {
      return Unavailable("the server lost it, and it begins anew; run the benchmark again");
    }
    QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> token, stream.Next());
    if (token) return OkStatus();
    return FailedPrecondition("the model's context is full; give a shorter --context");
  }

  const worker::Device& device_;
  std::optional<SharedRowSessions> rows_;  ///< Outlives the batch.
  std::unique_ptr<worker::Batch> batch_;
  std::vector<std::shared_ptr<worker::BatchStream>> streams_;
};

}  // namespace

DecodeTotals DecodeTotals::operator-(const DecodeTotals& before) const {
  return {.stall_seconds = stall_seconds - before.stall_seconds,
          .units_selected = units_selected - before.units_selected,
          .units_recalled = units_recalled - before.units_recalled,
          .bytes_recalled = bytes_recalled - before.bytes_recalled,
          .units_from_host = units_from_host - before.units_from_host,
          .late_recalls = late_recalls - before.late_recalls,
          .late_corrections = late_corrections - before.late_corrections,
          .blocking_heads = blocking_heads - before.blocking_heads,
          .recalls = recalls - before.recalls,
          .messages = messages - before.messages,
          .used = used - before.used,
          .attended_tokens = attended_tokens};
}

DecodeTotals& DecodeTotals::operator+=(const DecodeTotals& more) {
  stall_seconds += more.stall_seconds;
  units_selected += more.units_selected;
  units_recalled += more.units_recalled;
  bytes_recalled += more.bytes_recalled;
  units_from_host += more.units_from_host;
  late_recalls += more.late_recalls;
  late_corrections += more.late_corrections;
  blocking_heads += more.blocking_heads;
  recalls += more.recalls;
  messages += more.messages;
  used += more.used;
  attended_tokens = more.attended_tokens;
  return *this;
}

StatusOr<std::unique_ptr<DecodeLane>> DecodeLane::Open(const DecodeEngines& engines,
                                                       const DocumentName& document,
                                                       const DecodeWay& way, uint32_t sequences) {
  if (sequences == 1) return OneSequence::Open(engines, document, way);
  return SequenceBatch::Open(engines, document, way, sequences);
}

}  // namespace quire::bench
