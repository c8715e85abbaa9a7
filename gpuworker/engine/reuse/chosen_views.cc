// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/chosen_views.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace quire::worker {

StatusOr<LayerView> ChosenViews::View(uint32_t layer) {
  if (layer > 0) QUIRE_RETURN_IF_ERROR(TellKeys(layer - 1, last_));
  QUIRE_RETURN_IF_ERROR(prompt_.Choose(layer, chooser_.Cells(layer), reader_));
  QUIRE_ASSIGN_OR_RETURN(last_, prompt_.View(layer));
  return last_;
}

Status ChosenViews::Finish() { return TellKeys(parts_.spec->num_layers - 1, last_); }

Status ChosenViews::TellKeys(uint32_t layer, const LayerView& view) {
  if (!chooser_.ReadsKeys(layer)) return OkStatus();
  const size_t elements =
      view.cells->visible.size() * parts_.spec->num_kv_heads * parts_.spec->head_dim;
  std::vector<std::byte> raw(elements * ElementBytes(view.dtype));
  QUIRE_RETURN_IF_ERROR(parts_.device->CopyToHost(raw.data(), view.keys, raw.size()));
  std::vector<float> keys(elements);
  for (size_t i = 0; i < elements; ++i) {
    keys[i] = LoadElement(raw.data(), static_cast<int64_t>(i), view.dtype);
  }
  chooser_.ReadKeys(layer, keys);
  return OkStatus();
}

}  // namespace quire::worker
