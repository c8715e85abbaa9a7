// SPDX-License-Identifier: Apache-2.0
//
// Content hashes. Pure; thread-safe.
#ifndef QUIRE_GPUWORKER_INGEST_DOCUMENT_HASH_H_
#define QUIRE_GPUWORKER_INGEST_DOCUMENT_HASH_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "quire/kv_spec.h"

namespace quire::worker {

/// SHA-256 of a text, 32 bytes.
std::string HashText(std::string_view text);

/// Content hash of a document, 32 bytes. It covers the text by its HashText, the KvSpec and the
/// form that the text is stored in. It also covers the part's number, 0 for a whole text.
std::string HashDocument(std::string_view text_hash, const KvSpec& spec, std::string_view form,
                         uint32_t part);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_INGEST_DOCUMENT_HASH_H_
