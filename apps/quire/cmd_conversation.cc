// SPDX-License-Identifier: Apache-2.0
//
// quire conversation: pages by the agent or user whose turns use them.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/kit/output/json_output.h"
#include "apps/kit/target.h"
#include "apps/quire/commands.h"

namespace quire::cli {
namespace {

struct ConversationArgs {
  std::string conversation;
};

Status RunPrefetch(const ConversationArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const PrefetchProgress done,
                         client->PrefetchConversation(args.conversation));
  if (context.options.json) {
    PrintJsonLine(context.out, {{"conversation", args.conversation},
                                {"segments", done.num_segments},
                                {"segments_in_dram", done.segments_in_dram},
                                {"segments_not_fitting", done.segments_not_fitting},
                                {"bytes", done.bytes_done}});
    return OkStatus();
  }
  context.out << args.conversation << ": " << done.segments_in_dram << " of " << done.num_segments
              << " segments in DRAM\n";
  if (done.segments_not_fitting > 0) {
    context.err << "warning: " << done.segments_not_fitting
                << " segments did not fit; give the server more --dram-bytes\n";
  }
  return OkStatus();
}

Status RunRelease(const ConversationArgs& args, const CommandContext& context) {
  QUIRE_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client, context.Connect());
  QUIRE_ASSIGN_OR_RETURN(const uint64_t released, client->ReleaseConversation(args.conversation));
  if (context.options.json) {
    PrintJsonLine(context.out,
                  {{"conversation", args.conversation}, {"segments_released", released}});
  } else {
    context.out << args.conversation << ": " << released << " segments leave first\n";
  }
  return OkStatus();
}

}  // namespace

void AddConversationCommand(Commands& commands) {
  const auto args = std::make_shared<ConversationArgs>();
  CLI::App& group = commands.AddGroup(
      {.name = "conversation",
       .summary = "Pages by the agent or user whose turns use them, as their hints said",
       .examples = "  quire put turn.txt --conversation agent-7 --keep 10m\n"
                   "  quire conversation prefetch agent-7\n"
                   "  quire conversation release agent-7"});
  commands
      .Add({.name = "prefetch",
            .summary = "Bring what a conversation used last from SSD to DRAM",
            .examples = "  quire conversation prefetch agent-7\n"
                        "  quire conversation prefetch agent-7 --json"},
           args, &RunPrefetch, &group)
      .add_option("CONVERSATION", args->conversation, "Its name")
      ->required();
  commands
      .Add({.name = "release",
            .summary = "End a conversation: its pages that no other one uses leave first",
            .examples = "  quire conversation release agent-7\n"
                        "  quire conversation release agent-7 --json"},
           args, &RunRelease, &group)
      .add_option("CONVERSATION", args->conversation, "Its name")
      ->required();
}

}  // namespace quire::cli
