// SPDX-License-Identifier: Apache-2.0
//
// StorePrompt: stores the beginning of a prompt that was computed as a whole, as a chain that no
// document names. It is a cache: it leaves when room is needed. Whole segments that the store has
// are not sent.
// Thread-safety: none. Errors: those of the client and the device. The open context is dropped
// then; whole segments may stay.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_PROMPT_CHAIN_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_PROMPT_CHAIN_H_

#include <span>
#include <string_view>
#include <vector>

#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/reuse/assembled_prompt.h"
#include "quire/key.h"
#include "quire/status.h"

namespace quire::worker {

/// Returns the keys of the chain's segments. `tokens` are the first of the prompt, at least one,
/// with the keys and values of full prefill. Every cell of the prompt is visible, in all layers.
/// `collection` says with which codec they are stored.
StatusOr<std::vector<SegmentKey>> StorePrompt(const EngineParts& parts,
                                              const AssembledPrompt& prompt,
                                              std::span<const TokenId> tokens,
                                              std::string_view collection);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_PROMPT_CHAIN_H_
