// SPDX-License-Identifier: Apache-2.0
//
// Digests and scores of a session's pages for Python, by which a caller selects.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/native/arguments.h"
#include "python/native/bind.h"
#include "python/native/errors.h"
#include "python/native/names.h"
#include "python/native/session.h"
#include "quire/session.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// A memoryview of `values` from `first` on, which keeps them.
template <typename T>
nb::object ViewOf(const std::shared_ptr<const std::vector<T>>& values, size_t first,
                  std::initializer_list<size_t> shape) {
  auto kept = std::make_unique<std::shared_ptr<const std::vector<T>>>(values);
  const nb::capsule owner(kept.get(), [](void* held) noexcept {
    delete static_cast<std::shared_ptr<const std::vector<T>>*>(held);
  });
  (void)kept.release();
  return nb::cast(nb::ndarray<nb::memview, const T>(values->data() + first, shape, owner));
}

nb::object Digests(Session& self, nb::handle layer_numbers, uint32_t first_page, uint32_t end_page,
                   uint32_t sequence, uint32_t member, const std::string& kind) {
  const std::vector<uint32_t> layers = NumbersOf(layer_numbers, "layers");
  const DigestKind digest = ValueOf(kDigestsByName, kind, "digest");
  auto bytes = std::make_shared<std::vector<uint8_t>>();
  self.core().Do([&](ClientSession& session) {
    const Payload read =
        Take(session.Digests(layers, first_page, end_page, sequence, member, digest));
    for (const Slice& slice : read.slices()) {
      const auto* const begin = reinterpret_cast<const uint8_t*>(slice.bytes.data());
      bytes->insert(bytes->end(), begin, begin + slice.bytes.size());
    }
  });
  const size_t size = bytes->size();
  return ViewOf<uint8_t>(std::move(bytes), 0, {size});
}

nb::list ScorePages(Session& self, nb::handle layer_numbers, nb::handle queries,
                    nb::object candidates, uint32_t sequence) {
  ContentScoring wanted{.sequence = sequence, .layers = NumbersOf(layer_numbers, "layers")};
  wanted.queries = FloatsOf(queries);
  wanted.candidates =
      candidates.is_none() ? self.WholePages(sequence) : CandidatesOf(std::move(candidates));
  const auto scores = std::make_shared<const std::vector<float>>(
      self.core().Do([&](ClientSession& session) { return Take(session.ScorePages(wanted)); }));
  nb::list by_candidate;
  size_t first = 0;
  for (const CandidateRange& range : wanted.candidates) {
    const size_t pages = range.end_page - range.first_page;
    by_candidate.append(ViewOf<float>(scores, first, {wanted.layers.size(), pages}));
    first += wanted.layers.size() * pages;
  }
  return by_candidate;
}

}  // namespace

void AddScoreCalls(SessionClass& session) {
  session
      .def("digests", &Digests, nb::arg("layers"), nb::arg("first_page"), nb::arg("end_page"),
           nb::kw_only(), nb::arg("sequence") = 0, nb::arg("member") = 0,
           nb::arg("kind") = "min_max",
           nb::sig("def digests(self, layers: collections.abc.Sequence[int], first_page: int, "
                   "end_page: int, *, sequence: int = 0, member: int = 0, kind: str = 'min_max') "
                   "-> memoryview"),
           "Digests of a member's pages, as bytes of elements in the spec's type:\n"
           "[layers][pages][n_kv][elements of that kind].")
      .def("score_pages", &ScorePages, nb::arg("layers"), nb::arg("queries"),
           nb::arg("candidates") = nb::none(), nb::kw_only(), nb::arg("sequence") = 0,
           nb::sig("def score_pages(self, layers: collections.abc.Sequence[int], queries: object, "
                   "candidates: collections.abc.Sequence[tuple[int, int, int]] | None = None, *, "
                   "sequence: int = 0) -> list[memoryview]"),
           "Inner products of queries and mean keys, both without rotation, summed over KV heads:\n"
           "floats [layers][pages] for each candidate (member, first_page, end_page), of which a\n"
           "member has one. Queries are "
           "f32 [candidates][layers][n_kv][key_dim]. Without candidates: all whole pages.");
}

}  // namespace quire::python
