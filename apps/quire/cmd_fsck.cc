// SPDX-License-Identifier: Apache-2.0
//
// quire fsck: checks a data directory that no server has open, and repairs it when told to.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/quire/commands.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/store/repair/fsck.h"

namespace quire::cli {
namespace {

struct FsckArgs {
  std::string directory;
  bool repair = false;
};

Json ReportJson(const kvserver::FsckReport& report) {
  Json problems = Json::array();
  for (const kvserver::FsckProblem& problem : report.problems) {
    problems.push_back({{"kind", std::string(Name(problem.kind))},
                        {"what", problem.what},
                        {"dropped", problem.dropped}});
  }
  return {{"clean", report.clean()},
          {"problems_found", report.problem_count},
          {"volumes", report.volumes},
          {"segments", report.segments},
          {"extents", report.extents},
          {"units", report.units},
          {"payload_bytes", report.payload_bytes},
          {"cached_segments", report.cached_segments},
          {"cached_bytes", report.cached_bytes},
          {"detached_segments", report.detached},
          {"segments_dropped", report.segments_dropped},
          {"orphans_dropped", report.orphans_dropped},
          {"volumes_set_aside", report.volumes_set_aside},
          {"problems", problems}};
}

void PrintForPeople(const kvserver::FsckReport& report, std::ostream& out) {
  Table table({{"PROBLEM"}, {"DROPPED"}, {"WHAT"}});
  for (const kvserver::FsckProblem& problem : report.problems) {
    table.AddRow({std::string(Name(problem.kind)), problem.dropped ? "yes" : "no", problem.what});
  }
  if (table.num_rows() > 0) table.Print(out);
  if (report.problem_count > report.problems.size()) {
    out << "and " << FormatCount(report.problem_count - report.problems.size()) << " more\n";
  }
  out << FormatCount(report.segments) << " segments, " << FormatCount(report.units) << " units, "
      << FormatBytes(report.payload_bytes) << " in " << report.volumes << " volumes: "
      << (report.clean() ? "clean" : FormatCount(report.problem_count) + " problems") << "\n";
  if (report.cached_segments > 0) {
    out << FormatCount(report.cached_segments) << " of them, " << FormatBytes(report.cached_bytes)
        << ", belong to no document: a server keeps them as a cache\n";
  }
  if (report.segments_dropped > 0) {
    out << FormatCount(report.segments_dropped)
        << " segments were dropped; put their documents again to bring them back\n";
  }
}

Status RunFsck(const FsckArgs& args, const CommandContext& context) {
  std::optional<ProgressBar> bar;
  uint64_t shown = 0;
  const auto progress = [&](uint64_t segments, uint64_t of_segments) {
    if (!bar) bar.emplace("checking segments", of_segments);
    bar->Advance(segments - shown);
    shown = segments;
  };
  QUIRE_ASSIGN_OR_RETURN(const kvserver::FsckReport report,
                         kvserver::Fsck(args.directory, {.repair = args.repair,
                                                         .reference = kvserver::SegmentOfReference,
                                                         .progress = progress}));
  if (bar) bar->Finish();
  if (context.options.json) {
    PrintJsonLine(context.out, ReportJson(report));
  } else {
    PrintForPeople(report, context.out);
  }
  if (report.clean()) return OkStatus();
  const char* const remedy = args.repair ? "; what could be dropped was, check once more"
                                         : "; drop what is damaged with --repair";
  return Reported(DataLoss(args.directory, " has ", report.problem_count, " problems", remedy));
}

}  // namespace

void AddFsckCommand(Commands& commands) {
  const auto args = std::make_shared<FsckArgs>();
  CLI::App& command = commands.Add(
      {.name = "fsck",
       .summary = "Check a data directory that no server uses, and repair it",
       .examples = "  quire fsck ~/quire-data\n"
                   "  quire fsck ~/quire-data --json\n"
                   "  quire fsck ~/quire-data --repair     drop what is damaged\n"
                   "Every record and every unit is read. Without --repair nothing is changed.\n"
                   "The exit code is 0 when nothing is wrong, and 1 when something is, repaired or "
                   "not.",
       .calls_no_server = true},
      args, &RunFsck);
  command.add_option("DIR", args->directory, "Data directory of a server that is stopped")
      ->required();
  command.add_flag("--repair", args->repair, "Drop damaged segments and what belongs to none");
}

}  // namespace quire::cli
