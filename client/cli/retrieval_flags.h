// SPDX-License-Identifier: Apache-2.0
//
// The flags that choose policy and budget, the same for every command that runs a model.
#ifndef QUIRE_CLIENT_CLI_RETRIEVAL_FLAGS_H_
#define QUIRE_CLIENT_CLI_RETRIEVAL_FLAGS_H_

#include "gpuworker/retrieval/options.h"

namespace CLI {
class App;
}

namespace quire::cli {

/// Adds --policy, --budget, --sinks, --window and --select; their defaults are what `options`
/// holds. `options` lives as long as `command`.
void AddRetrievalFlags(CLI::App& command, worker::RetrievalOptions& options);

}  // namespace quire::cli

#endif  // QUIRE_CLIENT_CLI_RETRIEVAL_FLAGS_H_
