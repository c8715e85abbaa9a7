// SPDX-License-Identifier: Apache-2.0
//
// Arguments of Python as values of the client. Every function throws INVALID_ARGUMENT, and needs
// the GIL.
#ifndef QUIRE_PYTHON_NATIVE_ARGUMENTS_H_
#define QUIRE_PYTHON_NATIVE_ARGUMENTS_H_

#include <nanobind/nanobind.h>

#include <optional>
#include <string_view>
#include <vector>

#include "quire/clock.h"
#include "quire/contexts.h"
#include "quire/documents.h"
#include "quire/key.h"
#include "quire/page_lists.h"
#include "quire/payload.h"

namespace quire::python {

/// Bytes, 32 of them, as a key.
SegmentKey KeyOf(nanobind::handle key);
nanobind::bytes BytesOf(const SegmentKey& key);
nanobind::list BytesOfAll(const std::vector<SegmentKey>& keys);

/// A name, a DocumentName, the key of a chain's last segment, or an open Context.
ContextRef ContextOf(nanobind::handle context);
/// A name in the collection "default", or a DocumentName.
DocumentName DocumentOf(nanobind::handle document);

/// Token ids: an array of integers of one dimension, or a sequence.
std::vector<TokenId> TokensOf(nanobind::handle tokens);

/// Numbers of pages: an array of integers or a sequence.
std::vector<uint32_t> NumbersOf(nanobind::handle numbers, std::string_view what);
/// Pages of each head: [n_kv] sequences, or one sequence of numbers for all of `heads`.
PageLists PagesOf(nanobind::handle pages, uint32_t heads);

/// Seconds; `none` for None.
Duration SecondsOf(std::optional<double> seconds, Duration none);

/// A payload of bytes that the caller keeps during the call.
inline Payload Lend(std::span<const std::byte> bytes) {
  Payload payload;
  payload.Append(Slice{.bytes = bytes, .owner = nullptr});
  return payload;
}

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_ARGUMENTS_H_
