// SPDX-License-Identifier: Apache-2.0
//
// Contexts, segments, look-ups and fetches for Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/native/arguments.h"
#include "python/native/bind.h"
#include "python/native/context.h"
#include "python/native/errors.h"
#include "python/native/host_array.h"
#include "python/native/names.h"
#include "python/native/units.h"
#include "quire/client.h"
#include "quire/layout.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

PutSegmentReply PutSegment(const Connection& self, const KvSpec& spec, nb::handle token_ids,
                           nb::handle units, nb::object parent, const std::string& collection,
                           const std::string& durability, bool strict, std::optional<Hints> hints) {
  const auto client = self.client();
  const std::vector<TokenId> tokens = TokensOf(token_ids);
  const SegmentKey behind = parent.is_none() ? kRootKey : KeyOf(parent);
  const HostArray array(units, "units", HostArray::Use::kRead);
  std::vector<int64_t> shape = {spec.num_layers, PageCount(spec, tokens.size()), spec.num_kv_heads};
  const std::vector<int64_t> unit = UnitShapeOf(spec);
  shape.insert(shape.end(), unit.begin(), unit.end());
  array.CheckIs(spec.dtype, shape);
  const PutOptions options{.durability = ValueOf(kDurabilitiesByName, durability, "durability"),
                           .collection = collection,
                           .strict = strict,
                           .hints = std::move(hints).value_or(Hints())};
  return WithoutGil(
      [&] { return Take(client->PutSegment(spec, behind, tokens, Lend(array.bytes()), options)); });
}

std::unique_ptr<Context> OpenContext(const Connection& self, const KvSpec& spec,
                                     nb::object continues, const std::string& collection,
                                     bool private_pages, bool strict, std::optional<Hints> hints) {
  auto client = self.client();
  std::optional<ContextRef> behind;
  if (!continues.is_none()) behind = ContextOf(continues);
  const ContextOptions options{.collection = collection,
                               .private_pages = private_pages,
                               .strict = strict,
                               .hints = std::move(hints).value_or(Hints())};
  OpenedContext opened =
      WithoutGil([&] { return Take(client->OpenContext(spec, behind, options)); });
  return std::make_unique<Context>(std::move(client), spec, std::move(opened));
}

/// One range for each layer, which is a number or several.
std::vector<UnitRange> RangesOf(nb::handle layers, const std::vector<uint32_t>& pages,
                                const std::vector<uint32_t>& heads) {
  const std::vector<uint32_t> numbers = PyIndex_Check(layers.ptr()) != 0
                                            ? NumbersOf(nb::make_tuple(layers), "layers")
                                            : NumbersOf(layers, "layers");
  std::vector<UnitRange> ranges;
  ranges.reserve(numbers.size());
  for (const uint32_t layer : numbers) {
    ranges.push_back({.layer = layer, .pages = pages, .heads = heads});
  }
  return ranges;
}

Units Fetch(const Connection& self, nb::handle context, nb::handle layers, nb::handle page_numbers,
            nb::object head_numbers, std::optional<KvSpec> spec) {
  const auto client = self.client();
  const ContextRef source = ContextOf(context);
  const std::vector<uint32_t> pages = NumbersOf(page_numbers, "pages");
  std::vector<uint32_t> heads;
  if (!head_numbers.is_none()) heads = NumbersOf(head_numbers, "heads");
  const std::vector<UnitRange> ranges = RangesOf(layers, pages, heads);
  FetchedUnits units = WithoutGil([&] {
    if (!spec) spec = Take(client->Stat(source)).context.spec;
    return Take(client->FetchUnits(source, ranges, *spec, {}));
  });
  const size_t count =
      ranges.size() * pages.size() * (heads.empty() ? spec->num_kv_heads : heads.size());
  return Units(std::make_shared<const Payload>(std::move(units.payload)), count,
               std::move(units.codecs), {.spec = *spec});
}

/// Token ids as a memoryview that owns them.
nb::object TokensView(std::vector<TokenId> tokens) {
  auto owned = std::make_unique<std::vector<TokenId>>(std::move(tokens));
  const nb::capsule owner(
      owned.get(), [](void* ids) noexcept { delete static_cast<std::vector<TokenId>*>(ids); });
  const std::vector<TokenId>& ids = *owned.release();
  return nb::cast(
      nb::ndarray<nb::memview, const TokenId, nb::ndim<1>>(ids.data(), {ids.size()}, owner));
}

void BindStoredContexts(nb::module_& module) {
  nb::class_<ContextInfo>(module, "ContextInfo", "What a context is made of.")
      .def_ro("spec", &ContextInfo::spec, "Its KvSpec.")
      .def_ro("num_tokens", &ContextInfo::num_tokens, "Tokens.")
      .def_ro("num_pages", &ContextInfo::num_pages, "Pages, the last one possibly short.")
      .def_prop_ro(
          "segment_keys", [](const ContextInfo& info) { return BytesOfAll(info.segment_keys); },
          nb::sig("def segment_keys(self) -> list[bytes]"), "Keys of its segments, in order.")
      .def_prop_ro(
          "chain_tip", [](const ContextInfo& info) { return BytesOf(info.chain_tip); },
          "Key of the last segment, which names the chain; 32 bytes.");
  nb::class_<SealedContext, ContextInfo>(module, "SealedContext", "A context after its seal.")
      .def_ro("segments_differing", &SealedContext::segments_differing,
              "Segments that were stored before with other bytes. Those stand.");
  nb::class_<ContextStat>(module, "ContextStat", "A context and where it is kept.")
      .def_ro("context", &ContextStat::context, "What it is made of.")
      .def_ro("nbytes", &ContextStat::bytes, "Bytes of payload.")
      .def_ro("segments_in_dram", &ContextStat::segments_in_dram)
      .def_ro("segments_on_ssd", &ContextStat::segments_on_ssd)
      .def_ro("segments_lost", &ContextStat::segments_lost, "Lost or damaged: put them again.")
      .def_ro("expires_unix_micros", &ContextStat::expires_unix_micros, "0: never.");
  nb::class_<PutSegmentReply>(module, "PutSegmentReply", "A segment that was put.")
      .def_prop_ro("key", [](const PutSegmentReply& reply) { return BytesOf(reply.key); })
      .def_ro("existed", &PutSegmentReply::existed)
      .def_ro("differs", &PutSegmentReply::differs,
              "Other bytes were stored before and stand: read them back.");
  nb::class_<LookupResult>(module, "LookupResult", "The stored prefix of a sequence of tokens.")
      .def_ro("num_tokens", &LookupResult::num_tokens, "Tokens of the prefix.")
      .def_prop_ro(
          "segment_keys", [](const LookupResult& found) { return BytesOfAll(found.segment_keys); },
          nb::sig("def segment_keys(self) -> list[bytes]"), "Keys of its segments, in order.");
}

void BindOpenContext(nb::module_& module) {
  nb::class_<Context>(module, "Context",
                      "An open context. `with` drops one that was not sealed. The client renews\n"
                      "its lease while this object lives.")
      .def_prop_ro("id", &Context::id, "Number of the context at its server.")
      .def_prop_ro("num_tokens", &Context::num_tokens, "Tokens of the whole pages that it has.")
      .def_prop_ro("open", &Context::open, "False once it was sealed or dropped here.")
      .def_prop_ro("spec", &Context::spec, "Its KvSpec.")
      .def("append", &Context::Append, nb::arg("tokens"), nb::arg("units"),
           nb::arg("first_page") = nb::none(),
           nb::sig("def append(self, tokens: Tokens, units: object, first_page: int | None = None) "
                   "-> int"),
           "Appends whole pages: token ids, and units of shape [pages][layers][n_kv][*unit].\n"
           "Returns the tokens of the context.")
      .def("append_layers", &Context::AppendLayers, nb::arg("first_page"), nb::arg("tokens"),
           nb::arg("layers"), nb::arg("units"),
           nb::sig("def append_layers(self, first_page: int, tokens: Tokens, layers: "
                   "collections.abc.Sequence[int], units: object) -> int"),
           "Sends some layers of whole pages, in any order of layers: units of shape\n"
           "[layers][pages][n_kv][*unit]. Returns the tokens of the pages that are whole.")
      .def("seal", &Context::Seal, nb::arg("tail_tokens") = nb::make_tuple(),
           nb::arg("tail_units") = nb::none(), nb::arg("durability") = "default",
           nb::sig("def seal(self, tail_tokens: Tokens = (), tail_units: object | None = None, "
                   "durability: str = 'default') -> SealedContext"),
           "Stores the tokens behind the last whole page, with units of shape\n"
           "[layers][n_kv][*unit] (rows past the last token zero), and ends the context.\n"
           "`durability`: \"default\", \"memory\", \"replicated\" or \"persisted\".")
      .def("drop", &Context::Drop, "Ends the context without a chain.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Context"))
      .def(
          "__exit__", [](Context& self, const nb::args&) { self.Drop(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
}

}  // namespace

void BindContexts(nb::module_& module) {
  BindStoredContexts(module);
  BindOpenContext(module);
}

void AddStoreCalls(ConnectionClass& connection) {
  connection
      .def("put_segment", &PutSegment, nb::arg("spec"), nb::arg("tokens"), nb::arg("units"),
           nb::arg("parent") = nb::none(), nb::kw_only(), nb::arg("collection") = "",
           nb::arg("durability") = "default", nb::arg("strict") = false,
           nb::arg("hints") = nb::none(),
           nb::sig("def put_segment(self, spec: KvSpec, tokens: Tokens, units: object, parent: "
                   "bytes | None = None, *, collection: str = '', durability: str = 'default', "
                   "strict: bool = False, hints: Hints | None = None) -> PutSegmentReply"),
           "Puts one segment behind `parent`: units of shape [layers][pages][n_kv][*unit].")
      .def("open_context", &OpenContext, nb::arg("spec"), nb::arg("continues") = nb::none(),
           nb::kw_only(), nb::arg("collection") = "", nb::arg("private") = false,
           nb::arg("strict") = false, nb::arg("hints") = nb::none(),
           nb::sig("def open_context(self, spec: KvSpec, continues: ContextRef | None = None, *, "
                   "collection: str = '', private: bool = False, strict: bool = False, hints: "
                   "Hints | None = None) -> Context"),
           "Opens a context to append pages to, behind `continues` when given. `hints` are of all\n"
           "its segments.")
      .def(
          "lookup",
          [](const Connection& self, const KvSpec& spec, nb::handle token_ids,
             const std::optional<Hints>& hints) {
            const auto client = self.client();
            const std::vector<TokenId> tokens = TokensOf(token_ids);
            return WithoutGil(
                [&] { return Take(client->Lookup(spec, tokens, hints.value_or(Hints()))); });
          },
          nb::arg("spec"), nb::arg("tokens"), nb::kw_only(), nb::arg("hints") = nb::none(),
          nb::sig("def lookup(self, spec: KvSpec, tokens: Tokens, *, hints: Hints | None = None) "
                  "-> LookupResult"),
          "The longest stored prefix of `tokens`, in whole segments, which `hints` are about.")
      .def("fetch", &Fetch, nb::arg("context"), nb::arg("layers"), nb::arg("pages"),
           nb::arg("heads") = nb::none(), nb::arg("spec") = nb::none(),
           nb::sig("def fetch(self, context: ContextRef, layers: int | "
                   "collections.abc.Sequence[int], pages: collections.abc.Sequence[int], heads: "
                   "collections.abc.Sequence[int] | None = None, spec: KvSpec | None = None) -> "
                   "Units"),
           "Reads units over the control channel, verified: by layer, page and KV head, in that\n"
           "order. All heads without `heads`; the context's own spec without `spec`.")
      .def(
          "stat",
          [](const Connection& self, nb::handle context) {
            const auto client = self.client();
            const ContextRef source = ContextOf(context);
            return WithoutGil([&] { return Take(client->Stat(source)); });
          },
          nb::arg("context"), nb::sig("def stat(self, context: ContextRef) -> ContextStat"),
          "What a context is made of, and where it is kept.")
      .def(
          "read_tokens",
          [](const Connection& self, nb::handle context) {
            const auto client = self.client();
            const ContextRef source = ContextOf(context);
            return TokensView(WithoutGil([&] { return Take(client->ReadTokens(source)); }));
          },
          nb::arg("context"), nb::sig("def read_tokens(self, context: ContextRef) -> memoryview"),
          "Token ids of a sealed context, as a memoryview of int32.")
      .def(
          "delete_segments",
          [](const Connection& self, const nb::sequence& keys) {
            const auto client = self.client();
            std::vector<SegmentKey> segments;
            for (const nb::handle key : keys) segments.push_back(KeyOf(key));
            return WithoutGil([&] { return Take(client->DeleteSegments(segments)); });
          },
          nb::arg("keys"),
          nb::sig("def delete_segments(self, keys: collections.abc.Sequence[bytes]) -> int"),
          "Deletes segments by their keys; returns how many there were.");
}

}  // namespace quire::python
