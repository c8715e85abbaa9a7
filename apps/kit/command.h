// SPDX-License-Identifier: Apache-2.0
//
// Commands: the frame of the `quire` program. Each command is one file, cmd_NAME.cc, with one
// function that adds it (commands.h). This class parses, runs the named command, and turns its
// status into messages and the exit code.
//
//   exit code 0 done, 1 failed, 2 wrong usage. Empty input is a failure, and so are a
//             number of 0 things and an empty file. An answer of nothing, as of `ls` in an empty
//             store, is no failure.
//   stdout    results: tables, or one JSON line with --json (errors too, see json_output.h)
//   stderr    progress, errors, and in words that a list is empty
//
// Thread-safety: none.
#ifndef QUIRE_APPS_KIT_COMMAND_H_
#define QUIRE_APPS_KIT_COMMAND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "apps/kit/cluster_counts.h"
#include "apps/kit/data_path.h"
#include "common/flags/given.h"
#include "common/wire/limits.h"
#include "quire/bearer_token.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/otlp/tracing.h"

namespace CLI {
class App;
}

namespace quire::cli {

/// Options that stand before or after any subcommand.
struct GlobalOptions {
  std::string server = "127.0.0.1:7410";
  std::optional<std::string> tenant = {};  ///< Unset: not given.
  std::string token_file = {};             ///< File with the tenant's token; empty: not given.
  bool json = false;
  uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;  ///< Each direction.
  std::optional<double> timeout_seconds = {};  ///< Limit of the command, retries included.
  /// When the command began (SystemClock()).
  TimePoint start = {};

  std::string tenant_name() const { return tenant.value_or("default"); }
  /// Limit of one call, for commands without a limit of their own.
  Duration call_timeout() const;
  /// Time for which an unreachable server or worker is tried again: what the user gave, or by
  /// default long enough to see it restart.
  Duration unreachable_for() const;
  /// Time at which a command is over, if the user gave a limit; else TimePoint::max(), because a
  /// command may have much to compute itself.
  TimePoint limit() const;
};

/// Scope of --timeout.
enum class TimeoutOf : uint8_t {
  kCommand,  ///< All that the client does.
  kCall      ///< Each call, of a program that goes on until it is stopped.
};

/// A client, and the transport of its pages.
struct SessionClient {
  std::unique_ptr<Client> client;
  DataPath path;
  CountsOfCluster counts = {};  ///< Lives as long as the client.
};

/// One node of a cluster, for CommandContext::ConnectToNode.
struct NodeToConnect {
  std::string address;
  std::shared_ptr<Transport> control;
};

/// Surroundings of a running command.
struct CommandContext {
  const GlobalOptions& options;
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;             ///< A person reads `out` as it is written.
  std::string_view environment_token = {};  ///< Value of QUIRE_TOKEN.
  const Tracing* tracing = nullptr;         ///< Null: nothing is traced.

  /// The tenant's token, of --token-file or else of QUIRE_TOKEN; empty when neither is given.
  /// Errors are those of BearerToken.
  StatusOr<BearerToken> Token() const;

  /// The same surroundings with other options, which outlive the result.
  CommandContext With(const GlobalOptions& others) const {
    return {others, out, err, out_is_terminal, environment_token, tracing};
  }

  /// A client of the server named by --server and --tenant. It connects at the first call.
  StatusOr<std::unique_ptr<Client>> Connect() const;
  /// The same for a program that goes on until it is stopped. Each call takes `patience` at most,
  /// also while the server cannot be reached.
  StatusOr<std::unique_ptr<Client>> ConnectToWatch(Duration patience) const;
  /// The same for a command that opens sessions. It connects now; pages come as `transport` says
  /// (AddTransportFlag). `health` is as in Client::Options.
  StatusOr<SessionClient> ConnectForSessions(const std::string& transport,
                                             TimeoutOf timeout = TimeoutOf::kCommand,
                                             Health* health = nullptr) const;
  /// The same over connections that the caller has.
  StatusOr<SessionClient> ConnectForSessionsOver(std::shared_ptr<Transport> control,
                                                 const DataConnector& connect_data,
                                                 const std::string& transport,
                                                 TimeoutOf timeout = TimeoutOf::kCommand,
                                                 Health* health = nullptr) const;
  /// A client for sessions on a node of a cluster, as ConnectForSessions makes one. It gives up a
  /// node that cannot be reached after a moment.
  StatusOr<std::unique_ptr<Client>> ConnectToNode(const NodeToConnect& node,
                                                  const std::string& transport,
                                                  TimeoutOf timeout) const;
  /// End of all that is done for the command, where `timeout` is of that.
  TimePoint LimitOf(TimeoutOf timeout) const;
};

/// Says on stderr that there are no documents, in `collection` unless that is empty: an answer, and
/// no failure.
Status SayNoDocuments(const std::string& collection, const CommandContext& context);

/// `failure` of a command that has printed its result, which says what failed: no error object
/// follows it on stdout. The message goes to stderr and the exit code is 1 as always.
[[nodiscard]] Status Reported(const Status& failure);

class Commands {
 public:
  /// Results go to `out`, messages to `err`; both outlive this object. `environment_token` is what
  /// the environment's QUIRE_TOKEN has.
  Commands(std::ostream& out, std::ostream& err, bool out_is_terminal = false,
           std::string environment_token = {});
  ~Commands();

  struct Spec {
    std::string name;
    std::string summary;           ///< One line, shown in the list of commands.
    std::string examples;          ///< Lines of shell, shown at the end of the command's help.
    bool calls_no_server = false;  ///< Global options about one are wrong usage with it.
    /// Name that a command has in traces which answers calls until it is stopped: each call is a
    /// span. Others are a span as a whole, of the service "quire".
    std::string service = {};
  };
  using Body = std::function<Status(const CommandContext&)>;
  /// Adds a command, or a subcommand of `parent`; `body` runs when it was named and parsed. The
  /// caller adds options to what is returned, which lives as long as this object.
  CLI::App& Add(const Spec& spec, Body body, CLI::App* parent = nullptr);
  /// The same with a body that reads `args`, which the options fill.
  template <typename Args, typename Run>
  CLI::App& Add(const Spec& spec, const std::shared_ptr<Args>& args, const Run& run,
                CLI::App* parent = nullptr) {
    return Add(
        spec, [args, run](const CommandContext& context) { return run(*args, context); }, parent);
  }
  /// Adds a command that does nothing by itself and needs one of its subcommands.
  CLI::App& AddGroup(const Spec& spec);
  /// Adds a command that another program runs: `program`, of the folder of this one. It gets all
  /// arguments as they are, `--help` included.
  void AddProgram(const Spec& spec, const std::string& program);
  /// Marks an option of a command as one that means something when it is given empty text. All
  /// others are refused then.
  void MayBeEmpty(const CLI::Option* option) { may_be_empty_.insert(option); }

  /// Has commands traced as the environment's variables of OpenTelemetry say.
  void TraceAs(ReadVariable environment) { environment_ = std::move(environment); }

  /// Parses, runs, reports. Returns the exit code.
  int Run(int argc, const char* const* argv);

 private:
  CLI::App& AddApp(const Spec& spec, CLI::App* parent);
  /// Program of the command that the arguments name; null when this program has it.
  const std::string* OtherProgram() const;
  /// Runs the command that was named.
  Status RunChosen();
  /// Reports arguments that are not understood. Returns the exit code.
  int Refuse(const CLI::ParseError& error);
  int Report(const Status& status);

  std::ostream& out_;
  std::ostream& err_;
  const bool out_is_terminal_;
  const std::string environment_token_;
  GlobalOptions options_;
  std::unique_ptr<CLI::App> app_;
  OptionSet may_be_empty_;
  /// A command that was named.
  struct Chosen {
    Body body;
    std::string name;     ///< "quire ask"
    std::string service;  ///< As Spec's.
  };
  std::optional<Chosen> chosen_;
  ReadVariable environment_;                                  ///< Null: nothing is traced.
  std::map<std::string, std::string, std::less<>> programs_;  ///< By command: AddProgram.
  std::span<const char* const> arguments_;  ///< Arguments of Run, without argv[0].
};

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_COMMAND_H_
