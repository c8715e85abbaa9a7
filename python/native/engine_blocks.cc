// SPDX-License-Identifier: Apache-2.0
#include "python/native/engine_blocks.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "python/native/arguments.h"
#include "python/native/errors.h"
#include "python/native/payload_reader.h"
#include "python/native/units.h"
#include "quire/layout.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

ElementStrides StridesOf(nb::handle numbers, std::string_view what) {
  std::vector<int64_t> given;
  for (const nb::handle number : nb::borrow<nb::iterable>(numbers)) {
    given.push_back(nb::cast<int64_t>(number));
  }
  if (given.size() != 5) {
    throw StatusError(
        InvalidArgument(what,
                        ": give the first element and the strides of blocks, heads, tokens "
                        "and channels"));
  }
  return {.first = given[0],
          .block = given[1],
          .head = given[2],
          .token = given[3],
          .channel = given[4]};
}

}  // namespace

EngineBlocks::EngineBlocks(KvSpec spec, nb::handle layers, uint32_t block_tokens, nb::handle keys,
                           nb::handle values)
    : spec_(std::move(spec)), num_blocks_(std::numeric_limits<uint32_t>::max()) {
  if (!spec_.has_values()) {
    throw StatusError(Unimplemented("blocks of latent attention are not read or written"));
  }
  if (block_tokens == 0 || block_tokens > BlockLayout::kMaxBlockTokens) {
    throw StatusError(InvalidArgument("block_tokens: must be 1 to ", BlockLayout::kMaxBlockTokens));
  }
  layout_ = {.block_tokens = block_tokens,
             .num_heads = spec_.num_kv_heads,
             .head_dim = spec_.head_dim,
             .element_bytes = ElementBytes(spec_.dtype),
             .keys = StridesOf(keys, "keys"),
             .values = StridesOf(values, "values")};
  for (const nb::handle layer : nb::borrow<nb::iterable>(layers)) {
    HostArray& array = layers_.emplace_back(layer, "layers", HostArray::Use::kWrite);
    const auto elements = static_cast<int64_t>(array.bytes().size() / layout_.element_bytes);
    array.CheckIs(spec_.dtype, {elements});
    num_blocks_ = std::min(num_blocks_, layout_.BlocksWithin(elements));
  }
  if (layers_.size() != spec_.num_layers) {
    throw StatusError(
        InvalidArgument("layers: there are ", layers_.size(), " instead of ", spec_.num_layers));
  }
  if (num_blocks_ == 0) {
    throw StatusError(InvalidArgument("layers: no block of these strides lies in a layer"));
  }
}

std::vector<uint32_t> EngineBlocks::TableOf(nb::handle block_numbers, uint64_t first_token,
                                            uint64_t end_token) const {
  std::vector<uint32_t> blocks = NumbersOf(block_numbers, "blocks");
  if (first_token >= end_token || end_token > blocks.size() * uint64_t{layout_.block_tokens}) {
    throw StatusError(InvalidArgument("tokens ", first_token, " to ", end_token, " do not lie in ",
                                      blocks.size(), " blocks of ", layout_.block_tokens));
  }
  for (const uint32_t block : blocks) {
    if (block < num_blocks_) continue;
    throw StatusError(InvalidArgument("block ", block, " is not among ", num_blocks_));
  }
  return blocks;
}

void EngineBlocks::Read(nb::handle block_numbers, uint64_t first_token, uint64_t end_token,
                        nb::handle out) const {
  const std::vector<uint32_t> blocks = TableOf(block_numbers, first_token, end_token);
  if (first_token % spec_.page_tokens != 0) {
    throw StatusError(InvalidArgument("first_token ", first_token, " does not begin a page of ",
                                      spec_.page_tokens));
  }
  const uint32_t pages = PageCount(spec_, end_token - first_token);
  HostArray array(out, "out", HostArray::Use::kWrite);
  std::vector<int64_t> shape = {spec_.num_layers, pages, spec_.num_kv_heads};
  const std::vector<int64_t> unit = UnitShapeOf(spec_);
  shape.insert(shape.end(), unit.begin(), unit.end());
  array.CheckIs(spec_.dtype, shape);
  WithoutGil([&] {
    std::byte* to = array.writable().data();
    PageTokens page{.page_tokens = spec_.page_tokens};
    for (const HostArray& layer : layers_) {
      for (page.page_first = first_token; page.page_first < end_token;
           page.page_first += spec_.page_tokens) {
        page.first_token = page.page_first;
        page.end_token = std::min<uint64_t>(page.page_first + spec_.page_tokens, end_token);
        for (page.head = 0; page.head < spec_.num_kv_heads; ++page.head) {
          ReadUnit(layout_, layer.bytes().data(), blocks, page, to);
          to += UnitBytes(spec_);
        }
      }
    }
  });
}

void EngineBlocks::CheckUnits(const RecallPart& part) const {
  if (!part.codecs.empty() || !part.held.empty()) {
    throw StatusError(InvalidArgument("recall: its units must have come raw, and all of them"));
  }
  if (part.payload.size_bytes() != part.placements.size() * UnitBytes(spec_)) {
    throw StatusError(DataLoss(part.payload.size_bytes(), " bytes came for ",
                               part.placements.size(), " units; is the spec another one?"));
  }
  for (const Placement& unit : part.placements) {
    if (unit.layer < spec_.num_layers && unit.head < spec_.num_kv_heads) continue;
    throw StatusError(
        InvalidArgument("recall: there is no layer ", unit.layer, " with KV head ", unit.head));
  }
}

void EngineBlocks::WritePart(const RecallPart& part, BlockTable blocks, uint64_t first_token,
                             uint64_t end_token) {
  PayloadReader reader(part.payload);
  std::vector<std::byte> spare;
  PageTokens page{.page_tokens = spec_.page_tokens};
  for (const Placement& placement : part.placements) {
    const std::byte* const unit = reader.Next(UnitBytes(spec_), &spare);
    page.head = placement.head;
    page.page_first = uint64_t{placement.page} * spec_.page_tokens;
    page.first_token = std::max(page.page_first, first_token);
    page.end_token = std::min<uint64_t>(page.page_first + spec_.page_tokens, end_token);
    if (page.first_token >= page.end_token) continue;
    WriteUnit(layout_, layers_[placement.layer].writable().data(), blocks, page, unit);
  }
}

void EngineBlocks::Write(Recall& recall, nb::handle block_numbers, uint64_t first_token,
                         uint64_t end_token) {
  const std::vector<uint32_t> blocks = TableOf(block_numbers, first_token, end_token);
  (void)recall.units();  // Throws where they were released.
  const RecallPart part = recall.part();
  CheckUnits(part);
  const bool valid = WithoutGil([&] {
    WritePart(part, blocks, first_token, end_token);
    return part.IsValid();
  });
  if (!valid) throw StatusError(Unavailable("the units were held for too long; recall them again"));
}

void BindEngineBlocks(nb::module_& module) {
  nb::class_<EngineBlocks>(
      module, "EngineBlocks",
      "The KV cache of an inference engine, in host memory and in blocks of `block_tokens`.\n"
      "`layers` are contiguous arrays of one dimension, one for each layer. `keys` and `values`\n"
      "say where an element lies, in elements: (first, stride of blocks, of KV heads, of tokens,\n"
      "of channels). Token t of a sequence is row t % block_tokens of blocks[t // block_tokens].")
      .def(
          "__init__",
          [](EngineBlocks* self, const KvSpec& spec, nb::handle layers, uint32_t block_tokens,
             nb::handle keys, nb::handle values) {
            new (self) EngineBlocks(spec, layers, block_tokens, keys, values);
          },
          nb::arg("spec"), nb::arg("layers"), nb::kw_only(), nb::arg("block_tokens"),
          nb::arg("keys"), nb::arg("values"),
          nb::sig("def __init__(self, spec: KvSpec, layers: collections.abc.Iterable[object], *, "
                  "block_tokens: int, keys: collections.abc.Sequence[int], values: "
                  "collections.abc.Sequence[int]) -> None"))
      .def_prop_ro("num_blocks", &EngineBlocks::num_blocks, "Blocks of a layer.")
      .def_prop_ro("block_tokens", &EngineBlocks::block_tokens, "Tokens of a block.")
      .def_prop_ro("spec", &EngineBlocks::spec, "KvSpec of the units.")
      .def("read", &EngineBlocks::Read, nb::arg("blocks"), nb::arg("first_token"),
           nb::arg("end_token"), nb::arg("out"),
           nb::sig("def read(self, blocks: collections.abc.Sequence[int], first_token: int, "
                   "end_token: int, out: object) -> None"),
           "Copies tokens from the start of a page on to units, [layers][pages][n_kv][*unit].\n"
           "Rows of the last page past the end become zero.")
      .def(
          "write", &EngineBlocks::Write, nb::arg("recall"), nb::arg("blocks"),
          nb::arg("first_token"), nb::arg("end_token"),
          nb::sig("def write(self, recall: Recall, blocks: collections.abc.Sequence[int], "
                  "first_token: int, end_token: int) -> None"),
          "Copies the units of a recall to the places of these tokens. Rows of other tokens stay\n"
          "as they are. Unavailable when the units did not stay valid: the rows are unknown then.");
}

}  // namespace quire::python
