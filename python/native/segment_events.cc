// SPDX-License-Identifier: Apache-2.0
//
// Events of segments for Python.
#include "quire/segment_events.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "python/native/arguments.h"
#include "python/native/bind.h"
#include "python/native/errors.h"
#include "quire/client.h"

namespace quire::python {

namespace nb = nanobind;

void BindSegmentEvents(nb::module_& module) {
  nb::class_<SegmentEvent>(module, "SegmentEvent", "What happened to a segment.")
      .def_ro("position", &SegmentEvent::position, "Place among the tenant's events.")
      .def_ro("time_unix_micros", &SegmentEvent::time_unix_micros)
      .def_prop_ro(
          "kind", [](const SegmentEvent& event) { return std::string(Name(event.kind)); },
          nb::sig("def kind(self) -> str"),
          "\"STORED\", \"EVICTED\", \"DELETED\", \"ENTERED_DRAM\", \"LEFT_DRAM\" or \"GAP\".")
      .def_prop_ro(
          "segment", [](const SegmentEvent& event) { return BytesOf(event.segment); },
          nb::sig("def segment(self) -> bytes"), "Its key; zeros for a gap.")
      .def_prop_ro(
          "parent", [](const SegmentEvent& event) { return BytesOf(event.parent); },
          nb::sig("def parent(self) -> bytes"),
          "Of a stored one: key of the segment that it continues; zeros for a chain's first.")
      .def_ro("nbytes", &SegmentEvent::bytes, "Of a stored one: bytes of payload on SSD.");
  nb::class_<SegmentEvents>(module, "SegmentEvents", "Events of segments, in order.")
      .def_ro("events", &SegmentEvents::events)
      .def_ro("position", &SegmentEvents::position, "`after` of the next call.");
  nb::class_<ListedSegment>(module, "ListedSegment", "A segment that look-ups find.")
      .def_prop_ro(
          "segment", [](const ListedSegment& listed) { return BytesOf(listed.segment); },
          nb::sig("def segment(self) -> bytes"), "Its key.")
      .def_prop_ro(
          "parent", [](const ListedSegment& listed) { return BytesOf(listed.parent); },
          nb::sig("def parent(self) -> bytes"),
          "Key of the segment that it continues; zeros for a chain's first.")
      .def_ro("nbytes", &ListedSegment::bytes, "Bytes of payload on SSD.")
      .def_ro("in_dram", &ListedSegment::in_dram, "A part of it is in DRAM.");
}

void AddSegmentEventCalls(ConnectionClass& connection) {
  connection
      .def(
          "segment_events",
          [](const Connection& self, uint64_t after, bool from_now, uint32_t max_events,
             double wait) {
            const auto client = self.client();
            const FollowOptions options{.after = after,
                                        .from_now = from_now,
                                        .max_events = max_events,
                                        .wait = SecondsOf(wait, Duration::zero())};
            return WithoutGil([&] { return Take(client->FollowSegments(options)); });
          },
          nb::arg("after") = 0, nb::kw_only(), nb::arg("from_now") = false,
          nb::arg("max_events") = 1000, nb::arg("wait") = 0.0,
          "Events of segments after a position. Waits `wait` seconds, at most 30, for a first "
          "one.\n"
          "The first one is a gap when the server has them no more.")
      .def(
          "segments_page",
          [](const Connection& self, nb::object after, uint32_t max_segments) {
            const auto client = self.client();
            const SegmentKey behind = after.is_none() ? kRootKey : KeyOf(after);
            return WithoutGil([&] { return Take(client->ListSegments(behind, max_segments)); });
          },
          nb::arg("after") = nb::none(), nb::kw_only(), nb::arg("max_segments") = 1000,
          nb::sig(
              "def segments_page(self, after: bytes | None = None, *, max_segments: int = 1000) "
              "-> list[ListedSegment]"),
          "Segments that look-ups find, in order of keys behind `after`; none at the end.");
}

}  // namespace quire::python
