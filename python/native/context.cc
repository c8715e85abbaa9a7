// SPDX-License-Identifier: Apache-2.0
#include "python/native/context.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "python/native/arguments.h"
#include "python/native/errors.h"
#include "python/native/names.h"
#include "python/native/units.h"
#include "quire/connect.h"
#include "quire/layout.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// Payload of one call at most, well below what servers take.
constexpr uint64_t kMessagePayloadBytes = kDefaultMaxMessageBytes / 2;

std::vector<int64_t> Before(std::vector<int64_t> counts, const std::vector<int64_t>& unit) {
  counts.insert(counts.end(), unit.begin(), unit.end());
  return counts;
}

}  // namespace

uint32_t Context::PagesOfAMessage(uint64_t layers) const {
  const uint64_t page_bytes = layers * ExtentBytes(spec_, 1);
  return static_cast<uint32_t>(std::max<uint64_t>(1, kMessagePayloadBytes / page_bytes));
}

uint32_t Context::NumPages(size_t tokens) const {
  if (tokens == 0 || tokens % spec_.page_tokens != 0) {
    throw StatusError(InvalidArgument(tokens, " tokens are no whole pages of ", spec_.page_tokens,
                                      "; give the last tokens to seal"));
  }
  return static_cast<uint32_t>(tokens / spec_.page_tokens);
}

uint64_t Context::Append(nb::handle token_ids, nb::handle units,
                         std::optional<uint32_t> first_page) {
  const std::vector<TokenId> tokens = TokensOf(token_ids);
  const uint32_t pages = NumPages(tokens.size());
  const HostArray array(units, "units", HostArray::Use::kRead);
  array.CheckIs(spec_.dtype,
                Before({pages, spec_.num_layers, spec_.num_kv_heads}, UnitShapeOf(spec_)));
  const uint32_t first = first_page.value_or(PageCount(spec_, num_tokens_));
  const uint64_t page_bytes = SegmentBytes(spec_, 1);
  num_tokens_ = WithoutGil([&] {
    uint64_t total = 0;
    for (uint32_t done = 0; done < pages;) {
      const uint32_t count = std::min(PagesOfAMessage(spec_.num_layers), pages - done);
      total = Take(
          client_->AppendPages(id(), first + done,
                               std::span(tokens).subspan(size_t{done} * spec_.page_tokens,
                                                         size_t{count} * spec_.page_tokens),
                               Lend(array.bytes().subspan(done * page_bytes, count * page_bytes))));
      done += count;
    }
    return total;
  });
  return num_tokens_;
}

uint64_t Context::AppendLayers(uint32_t first_page, nb::handle token_ids, nb::handle layer_numbers,
                               nb::handle units) {
  const std::vector<TokenId> tokens = TokensOf(token_ids);
  const std::vector<uint32_t> layers = NumbersOf(layer_numbers, "layers");
  const uint32_t pages = NumPages(tokens.size());
  const HostArray array(units, "units", HostArray::Use::kRead);
  array.CheckIs(
      spec_.dtype,
      Before({static_cast<int64_t>(layers.size()), pages, spec_.num_kv_heads}, UnitShapeOf(spec_)));
  if (layers.empty()) throw StatusError(InvalidArgument("layers: name at least one"));
  num_tokens_ = WithoutGil([&] {
    uint64_t total = 0;
    for (uint32_t done = 0; done < pages;) {
      const uint32_t count = std::min(PagesOfAMessage(layers.size()), pages - done);
      Payload payload;
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        payload.Append(
            Lend(array.bytes().subspan(layer * ExtentBytes(spec_, pages) + ExtentBytes(spec_, done),
                                       ExtentBytes(spec_, count))));
      }
      total =
          Take(client_->AppendLayers(id(), first_page + done,
                                     std::span(tokens).subspan(size_t{done} * spec_.page_tokens,
                                                               size_t{count} * spec_.page_tokens),
                                     layers, payload));
      done += count;
    }
    return total;
  });
  return num_tokens_;
}

SealedContext Context::Seal(nb::handle token_ids, nb::object units, const std::string& durability) {
  const std::vector<TokenId> tokens = TokensOf(token_ids);
  const PutDurability level = ValueOf(kDurabilitiesByName, durability, "durability");
  std::optional<HostArray> array;
  Payload tail;
  if (!tokens.empty()) {
    if (units.is_none()) throw StatusError(InvalidArgument("units: give those of the last tokens"));
    array.emplace(units, "units", HostArray::Use::kRead);
    array->CheckIs(spec_.dtype, Before({spec_.num_layers, spec_.num_kv_heads}, UnitShapeOf(spec_)));
    tail = Lend(array->bytes());
  }
  SealedContext sealed = WithoutGil([&] { return Take(client_->Seal(id(), tokens, tail, level)); });
  open_ = false;
  opened_.lease.reset();
  return sealed;
}

void Context::Drop() {
  if (!std::exchange(open_, false)) return;
  WithoutGil([&] { Check(client_->DropContext(id())); });
  opened_.lease.reset();
}

}  // namespace quire::python
