// SPDX-License-Identifier: Apache-2.0
//
// ChosenViews: views of a prompt whose cells a CellChooser chooses, a layer at a time. It tells the
// chooser the keys of each layer once the layer has been computed.
// Ownership: borrows all it is given. Thread-safety: none.
// Errors: those of AssembledPrompt.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_CHOSEN_VIEWS_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_CHOSEN_VIEWS_H_

#include <cstdint>

#include "gpuworker/context/hops/cell_chooser.h"
#include "gpuworker/device/device.h"
#include "gpuworker/engine/reuse/assembled_prompt.h"
#include "gpuworker/engine/reuse/document_reader.h"
#include "gpuworker/model/layer_view.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class ChosenViews final : public LayerViews {
 public:
  ChosenViews(const EngineParts& parts, CellChooser* chooser, AssembledPrompt* prompt,
              DocumentReader* reader)
      : parts_(parts), chooser_(*chooser), prompt_(*prompt), reader_(reader) {}

  StatusOr<LayerView> View(uint32_t layer) override;
  /// Tells the keys of the last layer. Called after the prefill.
  Status Finish();

 private:
  Status TellKeys(uint32_t layer, const LayerView& view);

  const EngineParts parts_;
  CellChooser& chooser_;
  AssembledPrompt& prompt_;
  DocumentReader* const reader_;
  LayerView last_;  ///< View of the layer that is computed.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_CHOSEN_VIEWS_H_
