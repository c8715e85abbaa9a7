// SPDX-License-Identifier: Apache-2.0
//
// ReadStoredZip: the entries of a ZIP archive whose entries are stored as they are, as PyTorch
// writes them; ZIP64 included. Every entry lies inside the archive, before its directory, and has a
// name of its own. Checksums are not compared. Pure. The entries borrow the bytes.
// Errors: INVALID_ARGUMENT naming the file and the entry; compressed and encrypted entries, too.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_STORED_ZIP_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_STORED_ZIP_H_

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "quire/status.h"

namespace quire::worker {

using ZipEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

StatusOr<ZipEntries> ReadStoredZip(std::span<const std::byte> bytes, const std::string& file);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_PYTORCH_STORED_ZIP_H_
