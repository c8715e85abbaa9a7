// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/batch_metrics.h"

#include <algorithm>
#include <bit>

namespace quire::worker {
namespace {

constexpr std::array<const char*, BatchMetrics::kSizes> kSizeNames = {"1", "2-3", "4-7", "8-15",
                                                                      "16-"};

}  // namespace

void BatchMetrics::CountStep(size_t sequences, uint64_t step_tokens) {
  const auto size = static_cast<size_t>(std::bit_width(std::max<size_t>(sequences, 1))) - 1;
  steps[std::min(size, kSizes - 1)].Add();
  tokens.Add(step_tokens);
}

void BatchMetrics::CountOffloaded(uint32_t layers) {
  const uint64_t before = offloaded_layers.Get();
  if (layers > before) {
    offloaded_layers.Add(layers - before);
    layers_left.Add(layers - before);
  } else if (layers < before) {
    offloaded_layers.Sub(before - layers);
    layers_returned.Add(before - layers);
  }
}

void BatchMetrics::CountRecalls(const RecallStats& recalls) {
  nan_scores.Add(recalls.nan_scores);
  selections.Add(recalls.selections);
  corrected_heads.Add(recalls.blocking_heads);
  late_prefetches.Add(recalls.late_prefetches);
  late_corrections.Add(recalls.late_corrections);
  damaged_units.Add(recalls.units_damaged);
  if (recalls.selections > 0) recall_waits.Record(recalls.stalled);
}

void BatchMetrics::VisitMetrics(MetricsVisitor& visit) const {
  visit.Counter("batch_submitted", "Sequences taken in.", submitted.Get());
  visit.Counter("batch_refused", "Sequences refused because enough were waiting.", refused.Get());
  visit.Counter("batch_finished", "Sequences that generated what they were asked for.",
                finished.Get());
  visit.Counter("batch_failed", "Sequences that ended with an error.", failed.Get());
  visit.Counter("batch_cancelled", "Sequences that were cancelled.", cancelled.Get());
  visit.Counter("batch_preempted", "Times that a sequence gave its slots back before its end.",
                preempted.Get());
  visit.Counter("batch_restarted",
                "Times that a sequence was opened anew after a loss, or since the device had no "
                "room for its dense prompt.",
                restarted.Get());
  visit.Counter("batch_tokens", "Tokens run through the model.", tokens.Get());
  visit.Counter("batch_nan_scores", "Scores that were no number; their pages are selected last.",
                nan_scores.Get());
  visit.Counter("batch_selections", "Selections of pages, for a layer of a sequence each.",
                selections.Get());
  visit.Counter("batch_corrected_heads",
                "KV heads whose pages attention waited for, of all selections.",
                corrected_heads.Get());
  visit.Counter("batch_late_prefetches",
                "Selections that attention went on without before they had come.",
                late_prefetches.Get());
  visit.Counter("batch_late_corrections",
                "Corrections that attention went on without at the deadline.",
                late_corrections.Get());
  visit.Gauge("batch_offloaded_layers",
              "Last layers whose pages are off the device, where they select.",
              offloaded_layers.Get());
  visit.Counter("batch_layers_left", "Layers that left the device for want of memory.",
                layers_left.Get());
  visit.Counter("batch_layers_returned", "Layers that came back to the device.",
                layers_returned.Get());
  visit.Counter("batch_damaged_units",
                "Units, sent or held in host memory, that did not match their checksums and were "
                "asked for again.",
                damaged_units.Get());
  visit.Counter("batch_recall_messages", "Requests for pages sent to the store.",
                recall_messages.Get());
  visit.Counter("batch_recall_lanes", "Layers of sequences that requests for pages asked for.",
                recall_lanes.Get());
  visit.Counter("batch_shared_digest_bytes",
                "Digests that sequences had from others over their document, not from the store.",
                shared_digest_bytes.Get());
  visit.Counter("batch_shared_page_bytes",
                "Pages that sequences had from others over their document, not from the store.",
                shared_page_bytes.Get());
  visit.Gauge("batch_document_digest_bytes",
              "Digests of documents that sequences hold, shared ones counted once.",
              held_digest_bytes.Get());
  visit.Histogram("batch_offload_wait_seconds",
                  "Time that a sequence waited in a step for complete pages to be with the store.",
                  offload_waits);
  visit.Histogram("batch_recall_wait_seconds",
                  "Time that a sequence waited in a step for pages and took them in.",
                  recall_waits);
  for (size_t i = 0; i < kSizes; ++i) {
    visit.Counter("batch_steps", "Forward passes, by how many sequences they ran.", steps[i].Get(),
                  {{"sequences", kSizeNames[i]}});
  }
}

}  // namespace quire::worker
