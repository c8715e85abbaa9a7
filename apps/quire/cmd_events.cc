// SPDX-License-Identifier: Apache-2.0
//
// quire events: what a server has, and where, as it changes.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"
#include "common/base/threads/stop_signals.h"
#include "quire/segment_events.h"

namespace quire::cli {
namespace {

/// Between two looks at whether Ctrl-C was pressed.
constexpr Duration kEventWait = std::chrono::milliseconds(500);
constexpr uint32_t kSegmentsOfRead = 4096;

struct EventArgs {
  FollowOptions options;
  bool follow = false;
  bool list = false;
  std::optional<uint64_t> count;
};

Json EventJson(const SegmentEvent& event) {
  Json json = {{"position", event.position},
               {"time_unix_micros", event.time_unix_micros},
               {"kind", Name(event.kind)}};
  if (event.kind == SegmentEventKind::kGap) return json;
  json["segment"] = event.segment.Hex();
  if (event.kind == SegmentEventKind::kStored) {
    json["parent"] = event.parent == kRootKey ? "" : event.parent.Hex();
    json["bytes"] = event.bytes;
  }
  return json;
}

void PrintSegmentEvent(const SegmentEvent& event, const CommandContext& context) {
  if (context.options.json) {
    PrintJsonLine(context.out, EventJson(event));
    return;
  }
  context.out << event.position << ' ' << Name(event.kind);
  if (event.kind == SegmentEventKind::kGap) {
    context.out << " earlier events are lost: list the segments";
  } else {
    context.out << ' ' << event.segment.Hex();
  }
  if (event.kind == SegmentEventKind::kStored && event.parent != kRootKey) {
    context.out << " behind " << event.parent.Hex();
  }
  context.out << std::endl;
}

Status ListAll(Client& client, const CommandContext& context) {
  SegmentKey after = kRootKey;
  for (;;) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<ListedSegment> segments,
                           client.ListSegments(after, kSegmentsOfRead));
    if (segments.empty()) return OkStatus();
    for (const ListedSegment& segment : segments) {
      if (context.options.json) {
        PrintJsonLine(context.out,
                      {{"segment", segment.segment.Hex()},
                       {"parent", segment.parent == kRootKey ? "" : segment.parent.Hex()},
                       {"bytes", segment.bytes},
                       {"in_dram", segment.in_dram}});
      } else {
        context.out << segment.segment.Hex() << (segment.in_dram ? " DRAM" : " SSD") << '\n';
      }
    }
    after = segments.back().segment;
  }
}

Status RunEvents(const EventArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<StopSignals> stop, StopSignals::Install());
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  if (args.list) return ListAll(*client, context);
  FollowOptions options = args.options;
  options.wait = args.follow ? kEventWait : Duration::zero();
  uint64_t seen = 0;
  while (!stop->HasArrived() && (!args.count || seen < *args.count)) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentEvents read, client->FollowSegments(options));
    for (const SegmentEvent& event : read.events) {
      if (args.count && seen == *args.count) break;
      PrintSegmentEvent(event, context);
      options.after = event.position;
      ++seen;
    }
    if (read.events.empty()) options.after = read.position;
    options.from_now = false;
    if (read.events.empty() && !args.follow) break;
  }
  context.err << "go on from here with --since " << options.after << '\n';
  return OkStatus();
}

}  // namespace

void AddEventsCommand(Commands& commands) {
  const auto args = std::make_shared<EventArgs>();
  CLI::App& events = commands.Add(
      {.name = "events",
       .summary = "What happens to segments: stored, evicted, deleted, in and out of DRAM",
       .examples =
           "  quire events --follow                    until Ctrl-C, from now on\n"
           "  quire events --follow --since 17 --json  after an event that is known\n"
           "  quire events --list --json               the segments, after a gap\n"
           "A GAP says that events are lost: list the segments, and go on from its position."},
      args, &RunEvents);
  events.add_flag("--follow", args->follow, "Wait for more");
  CLI::Option* const list =
      events.add_flag("--list", args->list, "In place of events: the segments that are stored");
  args->options.from_now = true;
  events
      .add_option_function<uint64_t>(
          "--since",
          [args](const uint64_t& position) {
            args->options.after = position;
            args->options.from_now = false;
          },
          "Position of the last event that is known, 0 for none; from now on when not given")
      ->type_name("POSITION")
      ->excludes(list);
  events.add_option("--count", args->count, "Stop after so many events")
      ->check(CLI::PositiveNumber);
}

}  // namespace quire::cli
