// SPDX-License-Identifier: Apache-2.0
//
// quire torture: the store is killed, loses power, is damaged and worn out, and must neither lose
// nor change what it holds (bench/torture).
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/kit/data_dir.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/program_beside.h"
#include "apps/quire_bench/commands.h"
#include "bench/torture/clients/load_child.h"
#include "bench/torture/clients/load_run.h"
#include "bench/torture/crash_child.h"
#include "bench/torture/crash_run.h"
#include "bench/torture/fault_run.h"
#include "bench/torture/power_run.h"
#include "bench/torture/soak_run.h"
#include "common/base/memory/heap.h"

namespace quire::cli {
namespace {

/// This very program; the kernel resolves it also when the file was replaced meanwhile.
constexpr const char* kOwnProgram = "/proc/self/exe";
constexpr const char* kChildCommand = "crash-child";
constexpr const char* kLoadChildCommand = "load-child";

struct CrashArgs {
  torture::CrashOptions crash;
  std::string data_dir;
};

torture::Progress ProgressOf(ProgressBar& bar) {
  return [&bar](const std::string& note) { bar.Advance(1, note); };
}

Json CrashJson(const torture::CrashReport& crash, const torture::FaultReport& faults,
               uint64_t seed) {
  const torture::History::Totals& totals = crash.totals;
  const torture::ServerHistory::Totals& documents = crash.document_totals;
  return {{"rounds", crash.rounds},
          {"acknowledged", totals.acknowledged + documents.acknowledged},
          {"lost", totals.lost + documents.lost},
          {"corrupt", totals.corrupt + totals.half + documents.corrupt + documents.half},
          {"appeared", totals.appeared + documents.appeared},
          {"fsck_problems", crash.fsck_problems},
          {"space_problems", crash.space_problems},
          {"pins_kept", documents.pins_kept},
          {"documents_expired", documents.expired},
          {"recovery_s_per_gib", crash.recovery_seconds_per_gib()},
          {"recovered_bytes", crash.recovered_bytes},
          {"slowest_reopen_s", std::chrono::duration<double>(crash.slowest_reopen).count()},
          {"killed_at", crash.killed_at},
          {"fault_rounds", faults.rounds},
          {"faults_injected", faults.faults_injected},
          {"refused", faults.refused},
          {"corrupt_served", faults.corrupt_served},
          {"appeared_after_errors", faults.appeared},
          {"lost_after_errors", faults.lost},
          {"seed", seed}};
}

Table ReportTable(const Json& json) {
  Table table({{"WHAT"}, {"VALUE", Table::kRight}});
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) table.AddRow({name, value.dump()});
  }
  const auto killed_at = json.find("killed_at");
  if (killed_at == json.end()) return table;
  for (const auto& [point, count] : killed_at->items()) {
    table.AddRow({"killed at " + point, count.dump()});
  }
  return table;
}

void Print(const Json& json, const CommandContext& context) {
  if (context.options.json) {
    PrintJsonLine(context.out, json);
  } else {
    ReportTable(json).Print(context.out);
  }
}

Status RunCrash(CrashArgs args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> data_dir, DataDir::Make(args.data_dir));
  args.crash.directory = data_dir->path();
  args.crash.command = {kOwnProgram, "torture", kChildCommand};
  const torture::FaultOptions faults{
      .directory = data_dir->path(), .rounds = args.crash.rounds, .seed = args.crash.seed};
  context.err << "seed " << args.crash.seed << "\n";
  ProgressBar bar("torture", torture::CrashSteps(args.crash) + 2 * uint64_t{faults.rounds});
  QUIRE_ASSIGN_OR_RETURN(const torture::CrashReport crashed,
                         torture::RunCrashes(args.crash, ProgressOf(bar)));
  QUIRE_ASSIGN_OR_RETURN(torture::FaultReport damaged,
                         torture::RunDeviceFaults(faults, ProgressOf(bar)));
  QUIRE_ASSIGN_OR_RETURN(const torture::FaultReport files,
                         torture::RunFileDamage(faults, ProgressOf(bar)));
  damaged.Add(files);
  bar.Finish();
  Print(CrashJson(crashed, damaged, args.crash.seed), context);
  if (crashed.sound() && damaged.sound()) return OkStatus();
  return Reported(
      DataLoss("the store lost or changed what it held; repeat with --seed ", args.crash.seed));
}

void AddCrash(Commands& commands, CLI::App& parent) {
  const auto args = std::make_shared<CrashArgs>();
  CLI::App& command = commands.Add(
      {.name = "crash",
       .summary = "Kill servers under load, break devices and files, and look for losses",
       .examples = "  quire torture crash\n"
                   "  quire torture crash --rounds 50 --json\n"
                   "  quire torture crash --rounds 8 --seed 4711   the same choices again\n"
                   "  quire torture crash --data-dir /mnt/ssd/torture\n"
                   "Each round kills a server with SIGKILL, at a random moment or inside a fault\n"
                   "point, opens what it left and compares it with what it had acknowledged. Then\n"
                   "come as many rounds with failing devices, and with damaged files.\n"
                   "The exit code is 1 when anything was lost or changed."},
      args, &RunCrash, &parent);
  command.add_option("--rounds", args->crash.rounds, "Crashes; as many device and file rounds")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command.add_option("--seed", args->crash.seed, "Of everything that is random")
      ->capture_default_str();
  command
      .add_option("--events", args->crash.events,
                  "A server is killed after so many started and ended operations at the latest")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
  command
      .add_option("--recovery-bytes", args->crash.recovery_bytes,
                  "Payload of the store whose recovery is timed; 0: none")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  AddDataDirOption(command, &args->data_dir);
}

/// The server of a crash round, which `crash` starts.
void AddCrashChild(Commands& commands, CLI::App& parent) {
  const auto options = std::make_shared<torture::CrashChildOptions>();
  CLI::App& command = commands.Add(
      {.name = kChildCommand, .summary = "", .examples = ""},
      [options](const CommandContext&) { return torture::RunCrashChild(*options); }, &parent);
  command.group("");  // Not in the help.
  command.add_option("--dir", options->directory)->required();
  command.add_option("--corpus-seed", options->corpus_seed);
  command.add_option("--load-seed", options->load_seed);
  command.add_option("--threads", options->threads);
  commands.MayBeEmpty(command.add_option("--kill-point", options->kill_point));
  command.add_option("--kill-skip", options->kill_skip);
  command.add_option("--documents", options->has_documents);
  command.add_option("--limit", options->has_limit);
  command.add_option("--unix-micros", options->unix_micros);
  command.add_option("--fill-bytes", options->fill_bytes);
}

Json PowerJson(const torture::PowerReport& report, uint64_t seed) {
  const torture::ServerHistory::Totals& totals = report.totals;
  return {{"rounds", report.rounds},
          {"acknowledged", totals.acknowledged},
          {"persisted", totals.persisted},
          {"lost", totals.lost},
          {"corrupt_served", totals.corrupt},
          {"half", totals.half},
          {"appeared", totals.appeared},
          {"refused_to_open", report.refused_to_open},
          {"space_problems", report.space_problems},
          {"cut_while_opening", report.cut_while_opening},
          {"contexts_cut", report.contexts_cut},
          {"pins_kept", totals.pins_kept},
          {"documents_expired", totals.expired},
          {"segments_evicted", report.segments_evicted},
          {"stores_emptied", report.stores_emptied},
          {"failed", totals.failed},
          {"changes_forgotten", report.changes_forgotten},
          {"changes_survived", report.changes_survived},
          {"seed", seed}};
}

Status RunPower(const torture::PowerOptions& options, const CommandContext& context) {
  context.err << "seed " << options.seed << "\n";
  ProgressBar bar("torture", options.rounds);
  QUIRE_ASSIGN_OR_RETURN(const torture::PowerReport report,
                         torture::RunPowerFailures(options, ProgressOf(bar)));
  bar.Finish();
  Print(PowerJson(report, options.seed), context);
  if (report.sound()) return OkStatus();
  return Reported(
      DataLoss("the store lost or changed what it held; repeat with --seed ", options.seed));
}

void AddPower(Commands& commands, CLI::App& parent) {
  const auto options = std::make_shared<torture::PowerOptions>();
  CLI::App& command = commands.Add(
      {.name = "power",
       .summary = "Cut the power of a store under load, and look for losses",
       .examples = "  quire torture power\n"
                   "  quire torture power --rounds 500 --json\n"
                   "  quire torture power --rounds 50 --seed 4711   the same choices again\n"
                   "The store and its database lie on a simulated disk in memory. Each round cuts\n"
                   "the power after a random operation of that disk, which then forgets what was\n"
                   "not synced: bytes, sizes, names and renames, any of them. The store is opened\n"
                   "on what is left and compared with what it had acknowledged.\n"
                   "The exit code is 1 when anything was lost or changed, or does not open."},
      options, &RunPower, &parent);
  command.add_option("--rounds", options->rounds, "Power failures")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command.add_option("--seed", options->seed, "Of everything that is random")
      ->capture_default_str();
  command
      .add_option("--operations", options->operations,
                  "The power fails after so many changes and syncs of the disk at the latest")
      ->check(CLI::Range(1, 100000000))
      ->capture_default_str();
}

struct SoakArgs {
  torture::SoakOptions soak;
  std::string data_dir;
};

Json SoakJson(const torture::SoakReport& report, const torture::SoakOptions& options) {
  const torture::MemorySample last =
      report.samples.empty() ? report.at_open : report.samples.back();
  return {{"turnovers", report.turnovers},
          {"overhead_bytes_per_gib", report.overhead_bytes_per_gib()},
          {"growth_bytes", report.growth_bytes()},
          {"growth_noise_bytes", report.growth_noise_bytes()},
          {"lost", report.totals.lost},
          {"corrupt", report.totals.corrupt},
          {"acknowledged", report.totals.acknowledged},
          {"refused", report.totals.refused},
          {"seconds", report.seconds},
          {"written_bytes", report.written_bytes},
          {"stored_bytes", last.stored_bytes},
          {"private_bytes_at_open", report.at_open.private_bytes},
          {"private_bytes", last.private_bytes},
          {"cached_bytes", last.cached_bytes},
          {"memtable_bytes", last.memtable_bytes},
          {"arena_bytes", last.shared_bytes},
          {"dram_bytes", options.dram_bytes},
          {"ssd_bytes", options.ssd_bytes},
          {"samples", report.samples.size()},
          {"seed", options.seed}};
}

Status RunSoak(SoakArgs args, const CommandContext& context) {
  ReturnLargeAllocations();  // As a server does.
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> data_dir, DataDir::Make(args.data_dir));
  args.soak.directory = data_dir->path();
  ProgressBar bar("soak, seconds", args.soak.seconds);
  QUIRE_ASSIGN_OR_RETURN(const torture::SoakReport report,
                         torture::RunSoak(args.soak, ProgressOf(bar)));
  bar.Finish();
  Print(SoakJson(report, args.soak), context);
  if (report.totals.sound()) return OkStatus();
  return Reported(
      DataLoss("the store lost or changed what it held; repeat with --seed ", args.soak.seed));
}

void AddSoak(Commands& commands, CLI::App& parent) {
  const auto args = std::make_shared<SoakArgs>();
  CLI::App& command = commands.Add(
      {.name = "soak",
       .summary = "Turn a full store over again and again, and watch its memory",
       .examples = "  quire torture soak\n"
                   "  quire torture soak --seconds 600 --json\n"
                   "  quire torture soak --seconds 60 --ssd-bytes 512MiB --dram-bytes 64MiB\n"
                   "overhead_bytes_per_gib is private memory beyond that of the empty store and\n"
                   "beyond what the caches hold, for each GiB stored; growth_bytes compares the\n"
                   "last third of the time with the first, and is none below growth_noise_bytes."},
      args, &RunSoak, &parent);
  command.add_option("--seconds", args->soak.seconds, "How long")
      ->check(CLI::Range(1, 30 * 24 * 3600))
      ->capture_default_str();
  command.add_option("--dram-bytes", args->soak.dram_bytes, "DRAM tier (e.g. 256MiB)")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--ssd-bytes", args->soak.ssd_bytes, "Disk that the store may take")
      ->transform(CLI::AsSizeValue(true).description(""))
      ->type_name("SIZE")
      ->capture_default_str();
  command.add_option("--threads", args->soak.threads, "That put, read and delete")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command.add_option("--seed", args->soak.seed, "Of everything that is random")
      ->capture_default_str();
  AddDataDirOption(command, &args->data_dir);
}

struct LoadArgs {
  torture::LoadOptions load;
  std::string data_dir;
};

Json LoadJson(const torture::LoadReport& report, const torture::LoadOptions& options) {
  Json operations = Json::object();
  for (const auto& [name, counts] : report.totals.operations) {
    operations[name] = {
        {"done", counts.done}, {"failed", counts.failed()}, {"failures", counts.failures}};
  }
  return {{"not_found_of_acknowledged", report.totals.not_found},
          {"wrong_bytes", report.totals.wrong_bytes},
          {"bytes_left", report.bytes_left()},
          {"fsck_problems", report.fsck_problems},
          {"fsck_segments", report.fsck_segments},
          {"bounds",
           {{"not_found_of_acknowledged", 0},
            {"wrong_bytes", 0},
            {"bytes_left", 0},
            {"seconds_until_empty", torture::LoadReport::kMostSecondsUntilEmpty},
            {"fsck_problems", 0},
            {"fsck_segments", 0}}},
          {"failed", report.totals.failed()},
          {"puts_begun_anew", report.totals.begun_anew},
          {"segments_put_differing", report.puts_differed},
          {"seconds_until_empty", report.seconds_until_empty},
          {"seconds", report.seconds},
          {"clients", options.clients},
          {"seed", options.seed},
          {"left", report.left},
          {"operations", operations}};
}

Table LoadTable(const Json& json) {
  Table table({{"WHAT"}, {"VALUE", Table::kRight}});
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) table.AddRow({name, value.dump()});
  }
  for (const auto& [name, counts] : json["operations"].items()) {
    table.AddRow({name, counts["done"].dump()});
    for (const auto& [what, count] : counts["failures"].items()) {
      table.AddRow({name + " failed: " + what, count.dump()});
    }
  }
  return table;
}

Status RunLoad(LoadArgs args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<DataDir> data_dir, DataDir::Make(args.data_dir));
  args.load.directory = data_dir->path();
  QUIRE_ASSIGN_OR_RETURN(const std::string server, ProgramBeside("quired"));
  args.load.command = {server};
  args.load.client_command = {kOwnProgram, "torture", kLoadChildCommand};
  ProgressBar bar("load, seconds", args.load.seconds);
  QUIRE_ASSIGN_OR_RETURN(const torture::LoadReport report,
                         torture::RunLoad(args.load, ProgressOf(bar)));
  bar.Finish();
  const Json json = LoadJson(report, args.load);
  if (context.options.json) {
    PrintJsonLine(context.out, json);
  } else {
    LoadTable(json).Print(context.out);
  }
  if (!report.totals.first_failure.empty()) {
    context.err << "first failure: " << report.totals.first_failure << "\n";
  }
  if (report.sound()) return OkStatus();
  return Reported(DataLoss(
      "something that was acknowledged was not there, or stayed after it was deleted; repeat with "
      "--seed ",
      args.load.seed));
}

void AddLoad(Commands& commands, CLI::App& parent) {
  const auto args = std::make_shared<LoadArgs>();
  CLI::App& command = commands.Add(
      {.name = "load",
       .summary = "Put, continue, read and delete overlapping documents by many clients at a time",
       .examples =
           "  quire torture load\n"
           "  quire torture load --clients 8 --seconds 120 --json\n"
           "  quire torture load --seconds 10 --seed 4711\n"
           "Server and clients are processes of their own, and what the clients compute for\n"
           "the same tokens differs in its last bits. Only the client that put a document\n"
           "deletes it: no call may answer NOT_FOUND. Everything is deleted in the end, and\n"
           "the store must be empty within a minute, also for fsck after it was killed.\n"
           "The exit code is 1 when something was missing, wrong, or left behind."},
      args, &RunLoad, &parent);
  command.add_option("--clients", args->load.clients, "At a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_option("--seconds", args->load.seconds, "How long")
      ->check(CLI::Range(1, 30 * 24 * 3600))
      ->capture_default_str();
  command.add_option("--seed", args->load.seed, "Of everything that is random")
      ->capture_default_str();
  AddDataDirOption(command, &args->data_dir);
}

/// A client of a load, which `load` starts.
void AddLoadChild(Commands& commands, CLI::App& parent) {
  const auto options = std::make_shared<torture::LoadChildOptions>();
  CLI::App& command = commands.Add(
      {.name = kLoadChildCommand, .summary = "", .examples = ""},
      [options](const CommandContext& context) {
        return torture::RunLoadChild(*options, context.out);
      },
      &parent);
  command.group("");  // Not in the help.
  command.add_option("--address", options->address)->required();
  command.add_option("--number", options->number);
  command.add_option("--seed", options->seed);
  command.add_option("--seconds", options->seconds);
}

}  // namespace

void AddTortureCommand(Commands& commands) {
  CLI::App& command = commands.AddGroup(
      {.name = "torture",
       .summary = "Try to make the store lose something: crashes, power failures, wear",
       .examples = "  quire torture crash --rounds 50\n"
                   "  quire torture power --rounds 500\n"
                   "  quire torture load --seconds 120\n"
                   "  quire torture soak --seconds 600\n"
                   "  quire torture cluster --seconds 600\n"
                   "They have their own help: quire torture NAME --help",
       .calls_no_server = true});
  AddCrash(commands, command);
  AddCrashChild(commands, command);
  AddPower(commands, command);
  AddLoad(commands, command);
  AddLoadChild(commands, command);
  AddSoak(commands, command);
  AddTortureCluster(commands, command);
}

}  // namespace quire::cli
