// SPDX-License-Identifier: Apache-2.0
//
// Context: an open context, which pages are appended to until it is sealed or dropped.
//
// Ownership: shares the client, and holds the context's lease while it is open. Thread-safety: as
// for Client; the number of the next page is the caller's to agree on between threads.
#ifndef QUIRE_PYTHON_NATIVE_CONTEXT_H_
#define QUIRE_PYTHON_NATIVE_CONTEXT_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "python/native/host_array.h"
#include "quire/client.h"
#include "quire/contexts.h"
#include "quire/kv_spec.h"

namespace quire::python {

class Context {
 public:
  Context(std::shared_ptr<Client> client, KvSpec spec, OpenedContext opened)
      : client_(std::move(client)),
        spec_(std::move(spec)),
        opened_(std::move(opened)),
        num_tokens_(opened_.num_tokens) {}

  uint64_t id() const { return opened_.id; }
  uint64_t num_tokens() const { return num_tokens_; }
  bool open() const { return open_; }
  const KvSpec& spec() const { return spec_; }

  /// Appends whole pages, [pages][layers][n_kv] units, from `first_page` on; behind what is there
  /// without it. Returns the context's tokens. Throws, as all of them.
  uint64_t Append(nanobind::handle tokens, nanobind::handle units,
                  std::optional<uint32_t> first_page);
  /// Sends some layers of whole pages, [layers][pages][n_kv] units.
  uint64_t AppendLayers(uint32_t first_page, nanobind::handle tokens, nanobind::handle layers,
                        nanobind::handle units);
  /// Stores the tokens behind the last whole page, [layers][n_kv] units, and ends the context.
  SealedContext Seal(nanobind::handle tokens, nanobind::object units,
                     const std::string& durability);
  /// Ends the context without a chain. Does nothing to one that has ended.
  void Drop();

 private:
  /// Units of `pages` pages of `layers` layers fit in a message; at least 1.
  uint32_t PagesOfAMessage(uint64_t layers) const;
  uint32_t NumPages(size_t tokens) const;

  std::shared_ptr<Client> client_;
  KvSpec spec_;
  OpenedContext opened_;
  uint64_t num_tokens_;
  bool open_ = true;
};

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_CONTEXT_H_
