// SPDX-License-Identifier: Apache-2.0
//
// TextOfModel: how text becomes a model's token ids. Ownership: the parts outlive it.
#ifndef QUIRE_GPUWORKER_TEXT_TEXT_OF_MODEL_H_
#define QUIRE_GPUWORKER_TEXT_TEXT_OF_MODEL_H_

#include "gpuworker/text/chat_template.h"
#include "gpuworker/text/tokenizer.h"

namespace quire::worker {

struct TextOfModel {
  const Tokenizer* tokenizer = nullptr;  ///< Null: calls send token ids.
  const ChatTemplate* chat = nullptr;    ///< Null: text is read as it is. Needs a tokenizer.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_TEXT_TEXT_OF_MODEL_H_
