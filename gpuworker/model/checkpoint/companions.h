// SPDX-License-Identifier: Apache-2.0
//
// Checks of the other files of a checkpoint against its config.json. A file of another checkpoint,
// or of another state of this one, is refused instead of giving other answers.
// Pure but for reading files; thread-safe.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_COMPANIONS_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_COMPANIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/status.h"

namespace quire::worker {

/// Adds the ends in the text of a generation_config.json called `name` to those of `*config`.
/// INVALID_ARGUMENT when its start differs from the config's, or the two share no end. How
/// transformers would sample is not read: calls say how to generate.
Status CheckGenerationConfig(std::string_view text, const std::string& name, ModelConfig* config);
/// The text of a tokenizer_config.json: INVALID_ARGUMENT when its end of a sequence has an id there
/// that is not among `ends`.
Status CheckTokenizerConfig(std::string_view text, const std::string& name,
                            const std::vector<TokenId>& ends);

/// Checks the text of the tokenizer_config.json beside a tokenizer.json in use. INVALID_ARGUMENT
/// naming an unknown field, or one that would change tokens or text. `begins_texts`: tokenizer.json
/// puts a token before a text.
Status CheckTextSettings(std::string_view text, const std::string& name, bool begins_texts);

/// Looks into generation_config.json and tokenizer_config.json of `directory`, where there are any.
/// INVALID_ARGUMENT naming the file and the field when an answer ends otherwise there: when
/// generation_config.json shares no end of sequence with config.json, or the tokenizer's is in
/// neither. Further ones of generation_config.json, as those of chat models have, join
/// `config->eos_ids`. Their other keys are about sampling and text, which calls bring.
Status ReadCompanions(const std::string& directory, ModelConfig* config);

/// INVALID_ARGUMENT when `tokenizer`, read from the file called `name`, makes ids that the model
/// does not know, or begins or ends sequences with others than the model's config.
Status CheckTokenizer(const Tokenizer& tokenizer, const std::string& name,
                      const ModelConfig& config);

/// CheckTextSettings of the tokenizer_config.json of `directory`, where there is one.
Status CheckTextSettingsOf(const std::string& directory, const Tokenizer& tokenizer);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_COMPANIONS_H_
