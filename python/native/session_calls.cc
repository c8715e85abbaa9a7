// SPDX-License-Identifier: Apache-2.0
//
// Sessions, wants and recalls for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/native/arguments.h"
#include "python/native/bind.h"
#include "python/native/errors.h"
#include "python/native/landing.h"
#include "python/native/names.h"
#include "python/native/session.h"
#include "quire/client.h"
#include "quire/page_name.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

LayerWant PagesWant(uint32_t layer, nb::handle pages, uint32_t num_layers, uint32_t sequence,
                    nb::object held) {
  LayerWant want{.sequence = sequence, .layer = layer, .num_layers = num_layers};
  want.pages = PagesOf(pages, 1);
  if (!held.is_none()) want.held = PagesOf(held, 1);
  return want;
}

LayerWant QueryWant(uint32_t layer, nb::handle queries, uint32_t num_pages, uint32_t num_layers,
                    uint32_t sequence, nb::object candidates, const std::string& pooling,
                    float scale, const std::string& digest, nb::object kept_heads) {
  LayerWant want{.sequence = sequence, .layer = layer, .num_layers = num_layers};
  want.query = FloatsOf(queries);
  want.candidates = CandidatesOf(std::move(candidates));
  want.num_pages = num_pages;
  want.pooling = ValueOf(kPoolingsByName, pooling, "pooling");
  want.scale = scale;
  want.digest = ValueOf(kDigestsByName, digest, "digest");
  if (!kept_heads.is_none()) want.kept_heads = NumbersOf(kept_heads, "kept_heads");
  return want;
}

std::vector<SequenceSpec> SequencesOf(nb::handle contexts) {
  std::vector<SequenceSpec> sequences;
  if (PyList_Check(contexts.ptr()) != 0) {
    for (const nb::handle sequence : nb::borrow<nb::list>(contexts)) {
      sequences.push_back(SequenceOf(sequence));
    }
  } else {
    sequences.push_back(SequenceOf(contexts));
  }
  if (sequences.empty() || sequences.front().members.empty()) {
    throw StatusError(InvalidArgument("contexts: name at least one"));
  }
  return sequences;
}

SessionOptions OptionsOf(std::optional<KvSpec> spec, uint32_t slots_per_head, nb::object layers,
                         const std::string& part, const std::vector<std::string>& codecs,
                         const std::optional<std::string>& hold_digests) {
  SessionOptions options{.spec = spec.value_or(KvSpec()), .slots_per_head = slots_per_head};
  if (!layers.is_none()) options.managed_layers = NumbersOf(layers, "layers");
  options.part = ValueOf(kUnitPartsByName, part, "part");
  for (const std::string& codec : codecs) {
    options.codecs.Add(ValueOf(kUnitCodecsByName, codec, "codec"));
  }
  if (hold_digests)
    options.hold_digests = HeldDigests{ValueOf(kDigestsByName, *hold_digests, "digest")};
  return options;
}

std::unique_ptr<Session> OpenSession(const Connection& self, nb::handle contexts,
                                     uint32_t slots_per_head, std::optional<KvSpec> spec,
                                     nb::object layers, const std::string& part,
                                     const std::vector<std::string>& codecs,
                                     const std::optional<std::string>& hold_digests,
                                     const std::optional<Hints>& hints) {
  auto client = self.client();
  std::vector<SequenceSpec> sequences = SequencesOf(contexts);
  for (SequenceSpec& sequence : sequences) sequence.hints = hints.value_or(Hints());
  SessionOptions options =
      OptionsOf(spec, slots_per_head, std::move(layers), part, codecs, hold_digests);
  std::vector<uint32_t> slots;
  auto session = WithoutGil([&] {
    if (!spec) {
      options.spec = Take(client->Stat(sequences.front().members.front().context)).context.spec;
    }
    auto opened = Take(client->OpenSession(sequences, options));
    for (uint32_t i = 0; i < sequences.size(); ++i) slots.push_back(opened->slots_per_head(i));
    return opened;
  });
  auto core =
      std::make_shared<SessionCore>(std::move(client), std::move(options), std::move(session));
  for (uint32_t i = 0; i < slots.size(); ++i) core->AddSlots(i, slots[i]);
  return std::make_unique<Session>(std::move(core));
}

std::vector<std::vector<uint32_t>> HeadsOf(const PageLists& lists) {
  std::vector<std::vector<uint32_t>> heads;
  for (uint32_t head = 0; head < lists.num_heads(); ++head) {
    const std::span<const uint32_t> pages = lists.Head(head);
    heads.emplace_back(pages.begin(), pages.end());
  }
  return heads;
}

void BindWants(nb::module_& module) {
  nb::class_<LayerWant>(
      module, "Want",
      "Pages that a recall asks for: of `num_layers` layers from `layer` on.\n"
      "`pages` are ascending numbers for every KV head, or a list for each head.\n"
      "`held` are those whose units the caller kept; their bytes are not sent.")
      .def(
          "__init__",
          [](LayerWant* self, uint32_t layer, nb::handle pages, uint32_t num_layers,
             uint32_t sequence, nb::object held) {
            new (self) LayerWant(PagesWant(layer, pages, num_layers, sequence, std::move(held)));
          },
          nb::arg("layer"), nb::arg("pages"), nb::arg("num_layers") = 1, nb::arg("sequence") = 0,
          nb::arg("held") = nb::none(),
          nb::sig("def __init__(self, layer: int, pages: Pages, num_layers: int = 1, sequence: int "
                  "= 0, held: Pages | None = None) -> None"))
      .def_static(
          "by_query", &QueryWant, nb::arg("layer"), nb::arg("queries"), nb::arg("num_pages"),
          nb::arg("num_layers") = 1, nb::arg("sequence") = 0, nb::arg("candidates") = nb::none(),
          nb::arg("pooling") = "avg_sm", nb::arg("scale") = 1.0f, nb::arg("digest") = "min_max",
          nb::arg("kept_heads") = nb::none(),
          nb::sig("def by_query(layer: int, queries: object, num_pages: int, num_layers: int = 1, "
                  "sequence: int = 0, candidates: collections.abc.Sequence[tuple[int, int, int]] | "
                  "None = None, pooling: str = 'avg_sm', scale: float = 1.0, digest: str = "
                  "'min_max', kept_heads: collections.abc.Sequence[int] | None = None) -> Want"),
          "The server selects `num_pages` pages of each KV head by queries, f32 of shape\n"
          "[num_layers][query heads][head_dim]. Candidates are (member, first_page, end_page);\n"
          "without them, all whole pages of the sequence.");
  module.def("page_name", &PageName, nb::arg("member"), nb::arg("page"),
             "The number by which a sequence of several contexts names a page of one of them.");
  module.def("member_of", &MemberOf, nb::arg("name"), "The context of a page's name, from 0 on.");
  module.def("page_of", &PageOf, nb::arg("name"), "The page within its context.");
  nb::class_<SequenceSpec>(
      module, "SessionSequence",
      "Contexts that one sequence of a session reads, 1 to 64, and its slots.\n"
      "`offsets` are added to the positions of the contexts' keys.")
      .def(
          "__init__",
          [](SequenceSpec* self, nb::handle contexts, uint32_t slots_per_head,
             const std::vector<int32_t>& offsets) {
            SequenceSpec spec = SequenceOf(contexts);
            if (!offsets.empty() && offsets.size() != spec.members.size()) {
              throw StatusError(InvalidArgument("offsets: give one for each context"));
            }
            for (size_t i = 0; i < offsets.size(); ++i) {
              spec.members[i].position_offset = offsets[i];
            }
            spec.slots_per_head = slots_per_head;
            new (self) SequenceSpec(std::move(spec));
          },
          nb::arg("contexts"), nb::arg("slots_per_head") = 0,
          nb::arg("offsets") = std::vector<int32_t>(),
          nb::sig("def __init__(self, contexts: ContextRef | list[ContextRef] | "
                  "tuple[ContextRef, ...], slots_per_head: int = 0, offsets: "
                  "collections.abc.Sequence[int] = ()) -> None"));
}

void BindPlacements(nb::module_& module) {
  nb::class_<Placement>(module, "Placement", "A unit and the slot that it goes into.")
      .def_ro("sequence", &Placement::sequence)
      .def_ro("layer", &Placement::layer)
      .def_ro("head", &Placement::head)
      .def_ro("slot", &Placement::slot)
      .def_ro("generation", &Placement::generation, "Of the slot, after this placement.")
      .def_ro("page", &Placement::page)
      .def_ro("replaced", &Placement::replaced, "The page that was there; -1: none.")
      .def("__repr__", [](const Placement& unit) {
        return "<page " + std::to_string(unit.page) + " of layer " + std::to_string(unit.layer) +
               " and head " + std::to_string(unit.head) + " to slot " + std::to_string(unit.slot) +
               ">";
      });
  nb::class_<RecalledLane>(module, "Lane", "A layer of a sequence whose missing units have come.")
      .def_ro("sequence", &RecalledLane::sequence)
      .def_ro("layer", &RecalledLane::layer)
      .def_ro("first_placement", &RecalledLane::first_placement)
      .def_ro("end_placement", &RecalledLane::end_placement)
      .def_prop_ro(
          "selected", [](const RecalledLane& lane) { return HeadsOf(lane.selected); },
          "The server's selection of each KV head; empty where the caller selected.");
}

void BindRecall(nb::module_& module) {
  nb::class_<Recall>(module, "Recall",
                     "Units that a recall brought, and where they go. `with` releases them.")
      .def_prop_ro(
          "placements", [](const Recall& self) { return self.part().placements; },
          "Every unit that was missing, and its slot.")
      .def_prop_ro(
          "held", [](const Recall& self) { return self.part().held; },
          "Placements, by number, whose units the caller holds: they are not among the units.")
      .def_prop_ro(
          "lanes", [](const Recall& self) { return self.part().lanes; },
          "Layers of sequences that have come, in the order asked.")
      .def_prop_ro("units", &Recall::units,
                   "The units, in the order of the placements that are not held; in place.")
      .def_prop_ro(
          "nbytes", [](const Recall& self) { return self.part().payload.size_bytes(); },
          "Bytes of the units.")
      .def_prop_ro(
          "landed_bytes", [](const Recall& self) { return self.part().landed_bytes; },
          "Of them, those that the server wrote into the landing.")
      .def_prop_ro("valid", &Recall::IsValid,
                   "True while the units are as they came. Ask after a use: False means that the\n"
                   "use may have seen other bytes.")
      .def_prop_ro("valid_for", &Recall::ValidFor,
                   "Seconds for which the units are certain; infinite where nothing is lent.")
      .def("renew", &Recall::Renew, nb::arg("timeout") = 1.0, "Renews the lease of the units.")
      .def("own", &Recall::Own, "Copies the units, and ends their lease.")
      .def(
          "copy_into", [](Recall& self, nb::handle into) { self.CopyInto(into); }, nb::arg("into"),
          nb::sig("def copy_into(self, into: object) -> None"),
          "Copies each unit to its slot of `into`, as Session.recall does. Call applied then.")
      .def("applied", &Recall::Applied, "Says that the units are in their slots.")
      .def("invalidate", &Recall::Invalidate, "Marks the lanes as empty after a use that failed.")
      .def("release", &Recall::Release, "Gives the units back. Arrays made of them keep theirs.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Recall"))
      .def(
          "__exit__", [](Recall& self, const nb::args&) { self.Release(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
  nb::class_<Pending>(module, "Pending", "A recall in flight; iterates over its parts.")
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> Pending"))
      .def("__next__",
           [](Pending& self) {
             auto part = self.Next(std::nullopt);
             if (part == nullptr) throw nb::stop_iteration();
             return part;
           })
      .def("next", &Pending::Next, nb::arg("timeout") = nb::none(),
           nb::sig("def next(self, timeout: float | None = None) -> Recall | None"),
           "The next part; None when all lanes have come. After DeadlineExceeded call it again.")
      .def("cancel", &Pending::Cancel, "Gives up what has not come.");
}

void BindSession(nb::module_& module) {
  SessionClass session(module, "Session",
                       "Reads contexts into numbered slots. The server knows what each slot\n"
                       "holds, and sends only what is missing. Threads that share a session take\n"
                       "turns.");
  session
      .def(
          "recall",
          [](Session& self, nb::handle wants, nb::object into, std::optional<double> timeout,
             std::string priority, nb::object landing) {
            return self.RecallNow(wants, std::move(into),
                                  {timeout, std::move(priority), std::move(landing)});
          },
          nb::arg("wants"), nb::arg("into") = nb::none(), nb::kw_only(),
          nb::arg("timeout") = nb::none(), nb::arg("priority") = "normal",
          nb::arg("landing") = nb::none(),
          nb::sig("def recall(self, wants: Want | collections.abc.Iterable[Want], into: object | "
                  "None = None, *, timeout: float | None = None, priority: str = 'normal', "
                  "landing: Landing | None = None) -> Recall"),
          "Brings the missing units of `wants`. With `into` they are copied to their slots, and\n"
          "applied: a contiguous array of shape [layers][n_kv][slots_per_head][*unit] (numpy or\n"
          "torch, also pinned), or a list of them by sequence. Without it, use the units in place\n"
          "and call applied. A server that can writes the units to `landing`, where they lie "
          "until\n"
          "the next recall of their lane.")
      .def(
          "start",
          [](Session& self, nb::handle wants, std::optional<double> timeout, std::string priority,
             nb::object landing) {
            return self.Start(wants, {timeout, std::move(priority), std::move(landing)});
          },
          nb::arg("wants"), nb::kw_only(), nb::arg("timeout") = nb::none(),
          nb::arg("priority") = "normal", nb::arg("landing") = nb::none(),
          nb::sig("def start(self, wants: Want | collections.abc.Iterable[Want], *, timeout: float "
                  "| None = None, priority: str = 'normal', landing: Landing | None = None) -> "
                  "Pending"),
          "Asks for `wants`, and gives their parts as they come, in the order asked.")
      .def("add_sequence", &Session::AddSequence, nb::arg("sequence"),
           nb::sig("def add_sequence(self, sequence: ContextRef | tuple[ContextRef, ...] | "
                   "SessionSequence) -> int"),
           "Adds a sequence, and returns its number.")
      .def(
          "landing",
          [](Session& self, uint32_t num_sequences) {
            return std::make_unique<Landing>(self.shared_core(), num_sequences);
          },
          nb::arg("num_sequences") = 1,
          "Memory for the units of sequences below `num_sequences`, registered with the\n"
          "transport. It is of use where `lands_directly`.")
      .def_prop_ro(
          "lands_directly",
          [](Session& self) {
            return self.core().Do([](ClientSession& session) { return session.LandsDirectly(); });
          },
          "True when the server would write into a landing (transport \"ucx-direct\", RDMA).")
      .def("remove_sequence", &Session::RemoveSequence, nb::arg("sequence"), "Ends a sequence.")
      .def("resident_pages", &Session::ResidentPages, nb::arg("layer"), nb::arg("sequence") = 0,
           "Pages in the slots of a layer, [n_kv][slots_per_head]; -1: empty.")
      .def("contexts", &Session::Members, nb::arg("sequence") = 0,
           "Contexts that a sequence reads, as they were when it was opened.")
      .def(
          "slots_per_head",
          [](Session& self, uint32_t sequence) { return self.core().SlotsOf(sequence); },
          nb::arg("sequence") = 0, "Slots of each KV head of a sequence.")
      .def_prop_ro(
          "layers", [](Session& self) { return self.core().layers(); },
          "Managed layers, ascending.")
      .def_prop_ro(
          "spec", [](Session& self) { return self.core().spec(); }, "The contexts' KvSpec.")
      .def_prop_ro(
          "transport",
          [](Session& self) {
            return self.core().Do(
                [](ClientSession& session) { return std::string(session.transport_name()); });
          },
          "How recalls come: \"shm\", \"ucx\", \"grpc\".")
      .def("close", &Session::Close, "Ends the session at the server.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> Session"))
      .def(
          "__exit__", [](Session& self, const nb::args&) { self.Close(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
  AddScoreCalls(session);
}

}  // namespace

void BindSessions(nb::module_& module) {
  BindWants(module);
  BindPlacements(module);
  BindRecall(module);
  BindLandings(module);
  BindSession(module);
}

void AddSessionCalls(ConnectionClass& connection) {
  connection.def(
      "open_session", &OpenSession, nb::arg("contexts"), nb::kw_only(), nb::arg("slots_per_head"),
      nb::arg("spec") = nb::none(), nb::arg("layers") = nb::none(), nb::arg("part") = "whole",
      nb::arg("codecs") = std::vector<std::string>(), nb::arg("hold_digests") = nb::none(),
      nb::arg("hints") = nb::none(),
      nb::sig(
          "def open_session(self, contexts: ContextRef | tuple[ContextRef, ...] | "
          "SessionSequence | list[ContextRef | tuple[ContextRef, ...] | SessionSequence], *, "
          "slots_per_head: int, spec: "
          "KvSpec | None = None, layers: collections.abc.Sequence[int] | None = None, part: str "
          "= 'whole', codecs: collections.abc.Sequence[str] = (), hold_digests: str | None = "
          "None, hints: Hints | None = None) -> Session"),
      "Opens a session. `contexts`: one context, a tuple of those that one sequence reads, or a\n"
      "list of sequences. `layers` are those that recalls bring, all without it. `part` "
      "\"values\"\n"
      "brings V alone. Units stored in one of `codecs` come encoded. `hold_digests` names a\n"
      "digest that the server reads ahead, for recalls by query. `hints` are of what it reads.");
}

}  // namespace quire::python
